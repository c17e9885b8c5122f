"""The page about limits names all of them."""

import re
from pathlib import Path

from tests.inside.config import ServerLimits

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \|", re.MULTILINE)


def test_every_limit_is_documented_with_its_default() -> None:
    """The table of limits is complete."""
    documented = {key: int(value.replace(",", "")) for key, value in ROW.findall(PAGE.read_text())}
    assert documented == ServerLimits().model_dump()
