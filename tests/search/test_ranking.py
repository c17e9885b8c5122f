"""The quality of search by words alone among real tools, with queries that were not used for weights."""

from bench.search import own_queries
from tests.inside.core import Catalog
from tests.inside.search import Finder
from tests.shape import corpus

AMONG_THREE = {
    "open a ticket for a bug": "create_issue",  # in a large corpus, some tools are about tickets for trains
    "create a bug report": "create_issue",
    "save text into a file": "write_file",
    "undo staging": "git_reset",
}
"""Queries whose right tool must be among the first three, if the corpus has it."""


def test_most_queries_have_a_right_tool_first_and_nearly_all_among_five() -> None:
    catalog, finder = Catalog(corpus.specs()), Finder()
    at_1, at_5, mean = own_queries(finder, catalog, half=1)
    assert (at_1 > 0.5, at_5 > 0.75, mean > 0.6) == (True, True, True), (at_1, at_5, mean)
    listed = {spec.origin.tool for spec in catalog}
    asked = [(query, tool) for query, tool in AMONG_THREE.items() if tool in listed]
    assert asked
    for query, tool in asked:
        assert tool in [hit.spec.origin.tool for hit in finder.search(catalog, query, 3)], query
