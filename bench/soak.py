"""Call while servers die: `python -m bench.soak [--minutes 10] [--seed N]`.

64 callers on five servers that are killed at random. Every server writes down what it executes, and
in the end that is held against what the callers were told. Exits 1 if a promise was broken.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.audit import Book, Check, Told
from bench.crowd import Crowd
from bench.havoc import Victim, kill_at_random, up, victims
from bench.holdings import MIB, Holdings, holdings, leaks, memory
from toolbus import Toolbus

CALLERS = 64
MOST_MINUTES = 24 * 60
ENDING = 90.0
"""Seconds that everything but the calling may take."""
OUTCOMES: dict[Told, str] = {
    "ok": "ok",
    "unknown": "unknown (ConnectionLost, sent)",
    "not sent": "not sent (ServerDown, ConnectionLost)",
    "timeout": "timeout (CallTimeout)",
    "wrong answer": "wrong answer",
    "other": "any other error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """The results of a soak."""

    seconds: float
    servers: list[Victim]
    restarts: dict[str, int]
    before: Holdings
    early: int
    """Bytes in memory when a tenth of the time had passed."""
    late: int
    """The same at the end of the calls."""
    after: Holdings
    book: Book
    recovered: Check


def bus_of(servers: list[Victim]) -> Toolbus:
    """A bus of all the servers."""
    return Toolbus({"servers": {server.alias: server.entry for server in servers}})


async def rehearsed(folder: Path, seed: int) -> Holdings:
    """The resources after a first bus has ended, with everything that stays for the life of the process."""
    servers = victims(folder, Random(seed))
    with closing(Book(folder / "book")) as book:
        async with up(servers), bus_of(servers) as bus:
            await Crowd(bus, book).recovery(server.alias for server in servers)
    return holdings()


async def soaked(folder: Path, seconds: float, seed: int) -> Soaked:
    """Call and kill for that long; at the end, only calls."""
    (folder / "rehearsal").mkdir()
    before = await rehearsed(folder / "rehearsal", seed)
    servers = victims(folder, Random(seed))
    loop = asyncio.get_running_loop()
    with closing(Book(folder / "book")) as book:
        async with up(servers), bus_of(servers) as bus, asyncio.TaskGroup() as group:
            crowd, until = Crowd(bus, book), loop.time() + seconds
            for server in servers:
                group.create_task(kill_at_random(server, Random(f"{seed} {server.alias}"), until))
            callers = [
                group.create_task(
                    crowd.keep_calling(servers[n % len(servers)].alias, Random(f"{seed} {n}"), until)
                )
                for n in range(CALLERS)
            ]
            await asyncio.sleep(seconds / 10)
            early = memory()
            await asyncio.wait(callers)
            late = memory()
            recovered = await crowd.recovery(server.alias for server in servers)
            restarts = {alias: status.restarts for alias, status in bus.servers.items()}
    del bus, crowd, callers  # which hold what is stopped
    return Soaked(
        seconds=seconds,
        servers=servers,
        restarts=restarts,
        before=before,
        early=early,
        late=late,
        after=holdings(),
        book=book,
        recovered=recovered,
    )


async def bounded(folder: Path, seconds: float, seed: int) -> Soaked:
    """A soak with a time limit."""
    async with asyncio.timeout(seconds + ENDING):
        return await soaked(folder, seconds, seed)


def report(result: Soaked) -> Iterator[str]:
    """The soak in lines, without its checks."""
    calls = result.book.totals.total()
    yield f"{calls:,} calls, {calls / result.seconds:,.0f} calls/s"
    yield ""
    yield f"{'server':<12}{'over':<8}{'era':<10}{'killed':>8}{'link came back':>18}"
    for server in result.servers:
        restarts = result.restarts[server.alias]
        yield f"{server.alias:<12}{server.kind:<8}{server.era:<10}{server.kills:>8}{restarts:>18}"
    kills, restarts = sum(server.kills for server in result.servers), sum(result.restarts.values())
    yield f"{'together':<30}{kills:>8}{restarts:>18}"
    yield ""
    yield f"{'what the caller was told':<34}{'count':>10}{'read':>10}"
    for outcome, words in OUTCOMES.items():
        counted, read = (result.book.totals[tool, outcome] for tool in ("count", "read"))
        yield f"{words:<34}{counted:>10,}{read:>10,}"
    yield ""
    sizes = (result.before.memory, result.early, result.late, result.after.memory)
    first, early, late, last = (size / MIB for size in sizes)
    yield f"memory: {first:.1f} MiB before; {early:.1f} after a tenth of the time, {late:.1f} at its end;"
    yield f"        {last:.1f} after stop ({last - first:+.1f})"
    yield ""


def main() -> int:
    """Soak, print the report; 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--seed", type=int, help="of the kills and the calls; by default another one each time"
    )
    options = parser.parse_args()
    seed = Random().randrange(10_000) if options.seed is None else options.seed
    minutes = min(options.minutes, MOST_MINUTES)
    print(f"soak: {minutes:g} minutes, seed {seed}, {CALLERS} callers on 5 servers", flush=True)
    with tempfile.TemporaryDirectory(prefix="toolbus-soak-") as name:
        folder = Path(name)
        result = asyncio.run(bounded(folder, minutes * 60, seed))
        print("\n".join(report(result)), flush=True)
        ledgers = [Path(server.log) for server in result.servers]
        checks = [*result.book.checks(ledgers), result.recovered, *leaks(result.before, result.after)]
    print("\n".join(map(str, checks)))
    return 1 if any(check.against for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
