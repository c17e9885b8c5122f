"""`make crash`: durable runs under kills, rolling deploys, frozen workers, and a store in trouble.

Exits with 1 if anything does not hold that must.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

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


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="run this one; may be repeated")
    parser.add_argument("--store", choices=["postgres", "sqlite", "both"], default="both")
    parser.add_argument("--runs", type=int, default=20, help="of the kill test; 200 hit every point")
    parser.add_argument("--workers", type=int, default=3, help="of the kill test on Postgres; SQLite has one")
    parser.add_argument("--freeze", type=float, default=75, help="seconds that a worker stands still")
    parser.add_argument("--down", type=float, default=40, help="seconds that the store is down")
    parser.add_argument("--minutes", type=float, default=30, help="the most that each scenario may take")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--keep", type=Path, help="a new folder for what was written down and logged")
    return parser.parse_args()


def _on_postgres(
    given: argparse.Namespace, server: Server, scenario: str
) -> Iterator[Callable[[Path], Report]]:
    within = given.minutes * 60
    match scenario:
        case "kill":
            limits = {"runs": given.runs, "workers": given.workers, "within": within}
            yield lambda folder: asyncio.run(kill(server.database(), folder, remote=True, **limits))
        case "deploy":
            for how in DEPLOYS:
                yield lambda folder, how=how: asyncio.run(deploy(server.database(), folder, how))
        case "freeze":
            yield lambda folder: asyncio.run(
                freeze(server.database(), folder, seconds=given.freeze, beat=given.freeze / 15)
            )
        case "store":
            for hangs in (False, True):
                yield lambda folder, hangs=hangs: asyncio.run(
                    store_down(server, folder, Outage(hangs=hangs, seconds=given.down))
                )
        case _:
            return


def _on_sqlite(given: argparse.Namespace, scenario: str) -> Iterator[Callable[[Path], Report]]:
    within = given.minutes * 60
    match scenario:
        case "kill":
            limits = {"runs": given.runs, "workers": 1, "within": within}
            yield lambda folder: asyncio.run(kill(str(folder / "runs.db"), folder, remote=False, **limits))
        case "deploy":
            how = Deploy(name="deploy, SQLite", workers=2)
            yield lambda folder: asyncio.run(deploy(str(folder / "runs.db"), folder, how))
        case "disk":
            yield lambda folder: asyncio.run(full_disk(folder, seconds=15))
        case _:
            return


def _report(scenario: str, one: Callable[[Path], Report], folder: Path) -> Report:
    try:
        return one(folder)
    except Exception as error:  # the other scenarios say something all the same
        traceback.print_exc()
        return Report(scenario=scenario, faults=[f"it broke off: {type(error).__name__}: {error}"])


def main() -> int:
    """Run the scenarios and print their reports."""
    given = _given()
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="toolbus-crash-") as name, postgres_server() as server:
        root = given.keep or Path(name)
        for scenario in given.only or SCENARIOS:
            passes = [] if given.store == "sqlite" else [*_on_postgres(given, server, scenario)]
            passes += [] if given.store == "postgres" else [*_on_sqlite(given, scenario)]
            for one in passes:
                folder = root / f"{len(reports)}-{scenario}"
                folder.mkdir(parents=True)
                reports.append(_report(scenario, one, folder))
                if not given.json:
                    print(table(reports[-1:]), end="\n\n", flush=True)
    print(json.dumps([one.to_json() for one in reports], indent=2) if given.json else table(reports))
    return int(any(report.faults for report in reports))


if __name__ == "__main__":
    sys.exit(main())
