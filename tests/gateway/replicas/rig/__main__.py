"""`make replicas`: what deploys, dead and frozen gateways, and a store that is away cost the clients."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tests.gateway.replicas.balancer import HAPROXY, MISSING
from tests.gateway.replicas.rig.accounts import Report
from tests.gateway.replicas.rig.scenarios import SCENARIOS, play

MOST_CLIENTS = 500


def table(found: Mapping[str, Report]) -> Iterator[str]:
    """The reports, side by side, and the broken promises."""
    kinds = sum((report.failed for report in found.values()), Counter[str]())
    rows: dict[str, list[str]] = {
        "": list(found),
        "calls": [f"{one.calls:,}" for one in found.values()],
        "sessions of legacy clients": [f"{one.sessions:,}" for one in found.values()],
        "failed requests": [f"{one.failed.total():,}" for one in found.values()],
        **{
            f"  {kind}": [f"{one.failed[kind]:,}" for one in found.values()]
            for kind, _ in kinds.most_common()
        },
        "repeated effects": [f"{one.repeated}" for one in found.values()],
        "effects whose client got an error": [f"{one.unanswered_effects}" for one in found.values()],
        "answers without an effect": [f"{one.missing_effects}" for one in found.values()],
        "lost sessions": [f"{one.lost_sessions}" for one in found.values()],
        "longest silence of a client": [f"{one.silence:.1f} s" for one in found.values()],
        "longest time without a success": [f"{one.without_success:.1f} s" for one in found.values()],
        "slowest end after SIGTERM": [
            f"{one.slowest_stop:.1f} s" if one.slowest_stop else "" for one in found.values()
        ],
    }
    width = max(map(len, rows))
    for words, values in rows.items():
        if any(values):
            yield (f"{words:<{width}}" + "".join(f"{value:>9}" for value in values)).rstrip()
    for name, report in found.items():
        yield from (f"{name}: {words}" for words in report.broken)


def document(found: Mapping[str, Report]) -> str:
    """The reports as JSON."""
    return json.dumps({name: vars(report) for name, report in found.items()}, indent=2)


async def all_of(given: argparse.Namespace) -> int:
    """Run scenarios one after another; 1 if something did not hold."""
    # As Ctrl-C does: whatever was started is ended on the way out.
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    found: dict[str, Report] = {}
    for name in given.only:
        report = found[name] = await play(name, given.clients, given.seconds, keep=given.keep)
        scenario = SCENARIOS[name]
        lasting = scenario.seconds if given.seconds is None else given.seconds
        title = f"{name}: {scenario.title.format(seconds=lasting)}, {given.clients} clients"
        print(f"{title}: took {report.seconds:.0f} s", file=sys.stderr, flush=True)
    if given.json:
        print(document(found))
    else:
        print("\n".join(table(found)))
    return int(any(report.broken for report in found.values()))


def main() -> int:
    """Run the scenarios and print their reports."""
    parser = argparse.ArgumentParser(prog="make replicas", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS), metavar="SCENARIO"
    )
    parser.add_argument("--clients", type=int, default=100, help="half of them legacy; default 100")
    parser.add_argument("--seconds", type=float, help="how long each outage lasts")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and records there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    if HAPROXY is None:
        print(MISSING, file=sys.stderr)
        return 2
    if os.geteuid() != 0 and "disk" in given.only:
        given.only.remove("disk")
        print("disk: skipped; only root can mount the small disk that it fills", file=sys.stderr)
    given.clients = min(given.clients, MOST_CLIENTS)
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        return asyncio.run(all_of(given))
    return 130


if __name__ == "__main__":
    sys.exit(main())
