"""How well tools are found among 816 real ones by words alone, with queries that no weight was chosen by."""

import pytest

from bench.search import own_queries
from tests.shape import corpus
from toolbus.core.values.catalog import Catalog
from toolbus.search.finder import Finder


@pytest.mark.skipif(corpus.absent() is not None, reason=str(corpus.absent()))
def test_most_queries_have_a_right_tool_first_and_nearly_all_among_five() -> None:
    catalog, finder = Catalog(corpus.specs()), Finder()
    at_1, at_5, mean = own_queries(finder, catalog, half=1)
    assert (at_1 > 0.5, at_5 > 0.75, mean > 0.6) == (True, True, True), (at_1, at_5, mean)
    for query in ("open a ticket for a bug", "create a bug report"):
        # Among 816 tools, some are about tickets for trains.
        assert "create_issue" in [hit.spec.origin.tool for hit in finder.search(catalog, query, 3)]
