"""Measure a gateway under load: `python -m bench.load [--quick] [--json]`.

A full run takes about five minutes, writes its report into docs/scale.md and draws docs/scale.svg.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from bench.load.chart import draw
from bench.load.report import caption, lines
from bench.load.scenarios import QUICK, Plan, Row, rows
from bench.sides import ROOT

PAGE = ROOT / "docs" / "scale.md"
CHART = ROOT / "docs" / "scale.svg"
BLOCK = re.compile(r"(```console\n\$ make load\n```\n\n```text\n).*?(?=```\n)", re.DOTALL)


def with_report(page: str, report: str) -> str:
    """The page with this report below `$ make load`, otherwise as it is."""
    if not BLOCK.search(page):
        raise ValueError("the page has no text block right after `$ make load`")
    return BLOCK.sub(lambda found: f"{found[1]}{report}\n", page, count=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table as it grows."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look at every scenario, nothing is written")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    groups = ("processes", "servers", "tools", "users", "greedy")
    parser.add_argument("--only", choices=groups, default="", help="one group, nothing is written")
    options = parser.parse_args(arguments)
    found: list[Row] = []
    text = [caption()]

    def noted() -> Iterator[Row]:
        for row in rows(QUICK if options.quick else Plan(), options.only):
            found.append(row)
            yield row

    if not options.json:
        print(text[0], flush=True)
    for printed in lines(noted()):
        text.append(printed)
        if not options.json:
            print(printed, flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    if not options.quick and not options.only:
        report = "\n".join(text)
        PAGE.write_text(with_report(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")
        CHART.write_text(draw(found, text[0]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
