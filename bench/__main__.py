"""Compare toolbus with the raw SDK client: `python -m bench [--quick] [--json]`.

Exits 1 if a bar is missed. A line that misses is measured once more with more rounds before it
counts, because machines are shared; the table says so.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

from bench.lines import Line, Outcome, lines, measured
from bench.sides import http_server

QUICK = 4
"""How many times fewer rounds `--quick` takes."""
AGAIN = 3
"""How many times more rounds a second try takes."""

NOTES = """\
p50 per call, per start or per import; ratio = toolbus / raw, smaller is better, and at most the bar.
limit = what a client by hand without any validation takes / raw: nobody can go much below it.
* until tools, resources, templates and prompts are listed, on both sides; raw: that many clients at once.
  Tools are listed over HTTP from a server that is up; in memory each side is alone in an interpreter.
** a run of an agent with one call; raw: the framework's own MCP integration, its connection held and its
  tools cached."""
HEAD = f"{'':<30}{'raw':>13}{'toolbus':>13}{'ratio':>8}{'bar':>6}{'limit':>7}"


async def judged(line: Line, rounds: int) -> Outcome:
    """A line's outcome; the second one, if the first missed the bar."""
    outcome = await measured(line, rounds)
    if outcome.met:
        return outcome
    return replace(await measured(line, rounds * AGAIN), retried=True)


def row(outcome: Outcome) -> str:
    """One line of the table."""
    raw, toolbus = (f"{shown(outcome, value):>13}" for value in (outcome.raw, outcome.toolbus))
    limit = "" if outcome.limit_ratio is None else f"{outcome.limit_ratio:.3f}"
    rates = f"; {1 / outcome.raw:,.0f} -> {1 / outcome.toolbus:,.0f} calls/s" if outcome.per_second else ""
    again = f"; second try, {outcome.rounds} rounds" if outcome.retried else ""
    verdict = "ok" if outcome.met else "MISSED"
    return (
        f"{outcome.name:<30}{raw}{toolbus}{outcome.ratio:8.3f}{outcome.bar:6.2f}{limit:>7}"
        f"  {verdict}{rates}{again}"
    )


def shown(outcome: Outcome, value: float) -> str:
    """A value with its unit."""
    return f"{value * 1000:,.3f} ms" if outcome.unit == "s" else f"{value:,.0f} KiB"


def outcomes(quick: bool) -> Iterator[Outcome]:
    """Every outcome, as soon as it is there."""
    with http_server() as url:
        for line in lines(url):
            rounds = max(1, line.rounds // QUICK) if quick else line.rounds
            yield asyncio.run(judged(line, rounds))


def main() -> int:
    """Run every line; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a proof")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    if not options.json:
        print(HEAD, flush=True)
    done: list[Outcome] = []
    for outcome in outcomes(options.quick):
        done.append(outcome)
        if not options.json:
            print(row(outcome), flush=True)
    met = all(outcome.met for outcome in done)
    if options.json:
        rows = [
            asdict(outcome) | {"ratio": outcome.ratio, "limit_ratio": outcome.limit_ratio, "met": outcome.met}
            for outcome in done
        ]
        print(json.dumps({"met": met, "lines": rows}, indent=2))
    else:
        print(NOTES)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
