"""The table of smaller results in docs/models.md is what `make bench-results` prints."""

import pytest

from bench.results import TOKENIZERS, table
from bench.sides import ROOT
from tests.interop.servers import require_installed

pytestmark = pytest.mark.anyio
require_installed(TOKENIZERS.name)


async def test_the_table_of_smaller_results_is_in_the_documentation() -> None:
    assert "\n".join(await table()) in (ROOT / "docs" / "models.md").read_text()
