"""`make crash`: kill workers in the middle of runs, on SQLite and Postgres, and check what must hold."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.durable.crash.rig import crash
from tests.postgres import postgres_server


def main() -> int:
    """Run both kill tests and print their reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=3, help="on Postgres; SQLite has one")
    parser.add_argument("--store", choices=["postgres", "sqlite", "both"], default="both")
    parser.add_argument("--minutes", type=float, default=30, help="the most that each may take")
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="toolbus-crash-") as name:
        for kind in ("postgres", "sqlite"):
            if given.store not in (kind, "both"):
                continue
            folder = Path(name, kind)
            folder.mkdir()
            workers = given.workers if kind == "postgres" else 1
            limits = {"runs": given.runs, "workers": workers, "deadline": given.minutes * 60}
            if kind == "postgres":
                with postgres_server() as server:
                    report = asyncio.run(crash(server.database(), folder, remote=True, **limits))
            else:
                report = asyncio.run(crash(str(folder / "runs.db"), folder, remote=False, **limits))
            print(f"{kind}, {workers} worker{'s' * (workers > 1)}\n{report}\n", flush=True)
            failed = failed or bool(report.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
