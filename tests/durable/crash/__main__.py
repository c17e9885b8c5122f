"""`make crash`: durable runs under kills, rolling deploys, frozen workers, and a store in trouble.

Exits with 1 if anything does not hold that must. Ctrl-C ends all that it started.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from tests.durable.crash.deploy import Deploy, deploy
from tests.durable.crash.kill import kill
from tests.durable.crash.report import Report, table
from tests.durable.crash.trouble import Outage, freeze, full_disk, store_down
from tests.postgres import Server, postgres_server

SCENARIOS = ("kill", "deploy", "freeze", "store", "disk")
DEPLOYS = (
    Deploy(name="deploy, SIGTERM"),
    Deploy(name="deploy, SIGKILL", kill=True),
    Deploy(name="deploy, pinned", pin=True),
)
FULL = 15.0
"""Seconds that the disk is full."""
Pass: TypeAlias = Callable[[Path], Awaitable[Report]]
"""One pass of a scenario, in a folder of its own."""


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="run this one; may be repeated")
    parser.add_argument("--store", choices=["postgres", "sqlite", "both"], default="both")
    parser.add_argument("--runs", type=int, default=20, help="of the kill test; 200 hit every point")
    parser.add_argument("--workers", type=int, default=3, help="of the kill test on Postgres; SQLite has one")
    parser.add_argument("--freeze", type=float, default=75, help="seconds that a worker is frozen")
    parser.add_argument("--down", type=float, default=40, help="seconds that Postgres is down")
    parser.add_argument("--minutes", type=float, default=30, help="the most that each pass may take")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--keep", type=Path, help="a new folder for logs, and for what happened")
    return parser.parse_args()


def _on_postgres(given: argparse.Namespace, server: Server, scenario: str) -> Iterator[Pass]:
    new = server.database
    match scenario:
        case "kill":
            yield lambda folder: kill(new(), folder, runs=given.runs, workers=given.workers, remote=True)
        case "deploy":
            for how in DEPLOYS:
                yield lambda folder, how=how: deploy(new(), folder, how)
        case "freeze":
            # 75 s with the default lease of 20 s; others are in proportion.
            yield lambda folder: freeze(new(), folder, seconds=given.freeze, beat=given.freeze / 15)
        case "store":
            for hangs in (False, True):
                outage = Outage(hangs=hangs, seconds=given.down)
                yield lambda folder, outage=outage: store_down(server, folder, outage)
        case _:
            return


def _on_sqlite(given: argparse.Namespace, scenario: str) -> Iterator[Pass]:
    match scenario:
        case "kill":
            yield lambda folder: kill(
                str(folder / "runs.db"), folder, runs=given.runs, workers=1, remote=False
            )
        case "deploy":
            how = Deploy(name="deploy, SQLite", workers=2)
            yield lambda folder: deploy(str(folder / "runs.db"), folder, how)
        case "disk":
            yield lambda folder: full_disk(folder, seconds=FULL)
        case _:
            return


def _report(scenario: str, one: Pass, folder: Path, within: float) -> Report:
    async def bounded() -> Report:
        async with asyncio.timeout(within):
            return await one(folder)

    try:
        return asyncio.run(bounded())
    except Exception as error:  # the other scenarios say something all the same
        traceback.print_exc()
        return Report(scenario=scenario, faults=[f"it broke off: {type(error).__name__}: {error}"])


def _interrupt(*_: object) -> None:
    # Not the handler of asyncio, which cancels: what goes wrong while all is ended would replace that.
    raise KeyboardInterrupt


def main() -> int:
    """Run the scenarios and print their reports."""
    given = _given()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="toolbus-crash-") as name, postgres_server() as server:
        root: Path = given.keep or Path(name)
        for scenario in given.only or SCENARIOS:
            passes = [] if given.store == "sqlite" else [*_on_postgres(given, server, scenario)]
            passes += [] if given.store == "postgres" else [*_on_sqlite(given, scenario)]
            for one in passes:
                folder = root / f"{len(reports)}-{scenario}"
                folder.mkdir(parents=True)
                reports.append(_report(scenario, one, folder, 60 * given.minutes))
                if not given.json:
                    print(table(reports[-1:]), end="\n\n", flush=True)
    print(json.dumps([one.to_json() for one in reports], indent=2) if given.json else table(reports))
    return int(any(report.faults for report in reports))


if __name__ == "__main__":
    sys.exit(main())
