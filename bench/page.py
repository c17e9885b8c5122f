"""docs/performance.md and its chart, made from the last full run."""

import re
from collections.abc import Sequence

from bench.chart import draw
from bench.measure import Outcome
from bench.sides import ROOT

PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "performance.svg"
BLOCK = re.compile(r"(```console\n\$ make bench\n```\n\n```text\n).*?(?=```\n)", re.DOTALL)


def with_report(page: str, report: str) -> str:
    """The page with this report below `$ make bench`, otherwise as it is."""
    if not BLOCK.search(page):
        raise ValueError("the page has no text block right after `$ make bench`")
    return BLOCK.sub(lambda found: f"{found[1]}{report}\n", page, count=1)


def write(outcomes: Sequence[Outcome], report: str, caption: str) -> None:
    """Put a full run into the page and the chart."""
    PAGE.write_text(with_report(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
    CHART.write_text(draw([o for o in outcomes if o.with_peers], caption), encoding="utf-8")
