"""Compare toolbus with the raw SDK client and with other clients: `python -m bench [--quick] [--json]`.

Exits 1 if a bar is missed, or if the bars are for another version of the SDK. A line that misses is measured
once more with more rounds before it counts, because machines are shared; the table says so. A full run writes
its report into docs/performance.md and draws docs/performance.svg.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from importlib.util import find_spec
from textwrap import wrap
from typing import Any

from bench.lines import SDK, lines, selected
from bench.measure import Line, Loop, Outcome, measured
from bench.page import write
from bench.report import caption, report, versions
from bench.sides import http_server

QUICK = 4
"""The factor by which `--quick` reduces the rounds."""
AGAIN = 3
"""The factor by which a second try increases the rounds."""
WIDTH = 110


async def judged(line: Line, *, quick: bool) -> Outcome:
    """A line's outcome; the second one, if the first missed the bar and there is time for another."""
    rounds = max(1, line.rounds // QUICK) if quick else line.rounds
    outcome = await measured(line, rounds)
    if outcome.met or quick:
        return outcome
    return replace(await measured(line, rounds * AGAIN), retried=True)


def loop_factory(loop: Loop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory for such an event loop; None for asyncio's own."""
    if loop == "asyncio":
        return None
    import uvloop

    return uvloop.new_event_loop


def outcomes(chosen: Sequence[Line], *, quick: bool) -> Iterator[Outcome]:
    """Every outcome, as soon as it is there."""
    for line in chosen:
        with asyncio.Runner(loop_factory=loop_factory(line.loop)) as runner:
            yield runner.run(judged(line, quick=quick))


def runnable(chosen: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """The lines that can be measured here, and a sentence about the others."""
    if find_spec("uvloop"):
        return list(chosen), []
    possible = [line for line in chosen if line.loop != "uvloop"]
    missing = len(chosen) - len(possible)
    return possible, ["left out: the lines on uvloop, which is not installed"] if missing else []


def as_json(done: Sequence[Outcome], skipped: Sequence[str]) -> str:
    """Everything about a run."""
    rows: list[dict[str, Any]] = [
        asdict(outcome)
        | {
            "ratio": outcome.ratio,
            "limit_ratio": outcome.limit_ratio,
            "peer_ratios": outcome.peer_ratios,
            "met": outcome.met,
            "mcp": version("mcp"),
        }
        for outcome in done
    ]
    met = all(outcome.met for outcome in done)
    document = {"met": met, "made": caption(), "versions": versions(), "skipped": skipped, "lines": rows}
    return json.dumps(document, indent=2)


def kept(found: Iterable[Outcome], done: list[Outcome]) -> Iterator[Outcome]:
    """The same outcomes, each also put into the list."""
    for outcome in found:
        done.append(outcome)
        yield outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the lines; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, no second try: a look, not a proof"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument(
        "--lines", nargs="+", default=[], metavar="PATTERN", help='only these lines, such as "HTTP*"'
    )
    options = parser.parse_args(arguments)
    done: list[Outcome] = []
    text = wrap(caption(), WIDTH, subsequent_indent="  ")
    with http_server() as url:
        known = lines(url)
        chosen, skipped = runnable(selected(known, options.lines))
        if not chosen:
            parser.error("no such line; there are:\n" + "\n".join(f"  {line.name}" for line in known))
        if not options.json:
            print("\n".join(text), flush=True)
        for printed in report(kept(outcomes(chosen, quick=options.quick), done), skipped):
            text.append(printed)
            if not options.json:
                print(printed, flush=True)
    if options.json:
        print(as_json(done, skipped))
    if not options.quick and not options.lines:
        write(done, "\n".join(text), caption())
    if version("mcp") != SDK:
        print(f"the bars are for mcp {SDK}, and this is {version('mcp')}", file=sys.stderr)
        return 1
    return 0 if all(outcome.met for outcome in done) else 1


if __name__ == "__main__":
    sys.exit(main())
