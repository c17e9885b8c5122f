"""`make replicas`: what deploys, dead and frozen gateways, and a store that is away cost the clients."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.gateway.replicas.balancer import HAPROXY, MISSING
from tests.gateway.replicas.rig.accounts import Report
from tests.gateway.replicas.rig.scenarios import SCENARIOS, play

MOST_CLIENTS = 500


def lines(title: str, report: Report) -> Iterator[str]:
    """A report as a table."""
    yield f"{title}, in {report.seconds:.0f} s"
    failed = report.failed.total()
    rows = [
        ("calls", f"{report.calls:,}"),
        ("sessions of legacy clients", f"{report.sessions:,}"),
        ("failed requests", f"{failed:,}"),
        *((f"  {kind}", f"{count:,}") for kind, count in report.failed.most_common()),
        ("repeated effects", str(report.repeated)),
        ("effects whose client got no answer", str(report.unanswered_effects)),
        ("answers without an effect", str(report.missing_effects)),
        ("lost sessions", str(report.lost_sessions)),
        ("streams opened again", str(report.reopened_streams)),
        ("longest silence of a client", f"{report.silence:.1f} s"),
        ("longest time without a success", f"{report.without_success:.1f} s"),
        *([("longest end after SIGTERM", f"{report.slowest_stop:.1f} s")] * bool(report.slowest_stop)),
    ]
    for words, value in rows:
        yield f"  {words:<76} {value:>10}"
    for words in report.broken:
        yield f"  BROKEN: {words}"
    yield ""


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
        if not given.json:
            print("\n".join(lines(title, report)), flush=True)
    if given.json:
        print(json.dumps({name: asdict(report) for name, report in found.items()}, indent=2))
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
