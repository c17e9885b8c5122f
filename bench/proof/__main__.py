"""Check the gold calls of public benchmarks: `make proof`, `python -m bench.proof [--quick] [--json]`.

A full run writes its tables into the pages below docs/proof.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from bench.proof import context, gold, policy
from bench.proof.pages import write
from bench.proof.parts import Part
from bench.proof.runs import part as durable

PARTS = {part.name: part for part in (gold.PART, durable.PART, context.PART, policy.PART)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print their tables, and write them into the pages."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few of the tasks, nothing is written")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--only", choices=PARTS, help="one part")
    options = parser.parse_args(arguments)
    chosen: list[Part] = [PARTS[options.only]] if options.only else list(PARTS.values())
    documents: dict[str, object] = {}
    held = True
    for part in chosen:
        report = part.run(options.quick)
        documents[part.name] = report.document
        held = held and report.held
        if not options.json:
            print(f"{part.title}\n\n{report.text}\n", flush=True)
        if not options.quick:
            write(part, report.text)
    if options.json:
        print(json.dumps(documents, indent=2))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
