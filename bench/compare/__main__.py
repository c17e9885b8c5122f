"""Compare toolbus with three other MCP clients: `python -m bench.compare [--only TEXT]`.

Prints a table in Markdown. Everything runs on this machine; each trial has an interpreter of its own, and is
ended after a minute.
"""

import argparse
import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, TypeAlias

from bench.compare.peers import PEERS, Entry
from bench.compare.trials import TRIALS
from bench.sides import ROOT, STDIO, http_server
from bench.work import Work, in_flight, sequential

TRIAL_SECONDS = 60
ROUNDS = 6
SERVER = "bench"
FIRST_CALL = """
import asyncio, sys
from bench.compare.peers import PEERS

async def main() -> None:
    async with PEERS[sys.argv[1]].open({"bench": {"url": sys.argv[2]}}) as connected:
        print(await connected.call("bench", "echo", "hello"))

asyncio.run(main())
"""
Row: TypeAlias = Callable[[], Coroutine[Any, Any, list[str]]]


def rows(url: str) -> dict[str, Row]:
    """Every row of the table: its label, and how to measure its cells."""
    web: Entry = {"url": url}
    return {
        **{label: trial_row(label) for label in TRIALS},
        "time per call, stdio": timing_row(STDIO, sequential),
        "time per call, HTTP": timing_row(web, sequential),
        "time per call, stdio, 64 in flight": timing_row(STDIO, in_flight),
        "time per call, HTTP, 64 in flight": timing_row(web, in_flight),
        "a fresh interpreter imports it, connects over HTTP and calls a tool: CPU time": first_call_row(url),
    }


def trial_row(label: str) -> Row:
    """Run a trial for every peer, one after another."""

    async def cells() -> list[str]:
        return [await asyncio.to_thread(run_trial, label, peer) for peer in PEERS]

    return cells


def run_trial(label: str, peer: str) -> str:
    """Run a trial in an interpreter of its own; return its cell."""
    command = [sys.executable, "-m", "bench.compare.trials", label, peer]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end within {TRIAL_SECONDS} s"
    return printed.strip().rpartition("\n")[2] or f"exit code {process.returncode}"


def timing_row(entry: Entry, work: Work) -> Row:
    """Time the same calls with every peer, in turn; the best round counts, as others use the machine."""

    async def cells() -> list[str]:
        taken: dict[str, list[float]] = {peer: [] for peer in PEERS}
        async with AsyncExitStack() as stack:
            works: dict[str, Callable[[], Awaitable[list[float]]]] = {}
            for peer in PEERS.values():
                connected = await stack.enter_async_context(peer.open({SERVER: entry}))
                works[peer.name] = _bound(work, connected.call)
            for run in works.values():
                await run()  # the first round warms up
            for number in range(ROUNDS):
                for name, run in works.items() if number % 2 else reversed(works.items()):
                    gc.collect()
                    taken[name].append(median(await run()))
        return _relative([min(times) for times in taken.values()])

    return cells


def _bound(
    work: Work, call: Callable[[str, str, str], Awaitable[str]]
) -> Callable[[], Awaitable[list[float]]]:
    return lambda: work(lambda tool, text: call(SERVER, tool, text))


def first_call_row(url: str) -> Row:
    """The CPU time of an interpreter from its start to the end of its first call; the best round counts.

    A lazy import alone costs next to nothing, and so says nothing about what using a library costs.
    """

    async def cells() -> list[str]:
        taken = [[await asyncio.to_thread(_first_call, peer, url) for peer in PEERS] for _ in range(ROUNDS)]
        return _relative([min(times) for times in zip(*taken, strict=True)])

    return cells


def _first_call(peer: str, url: str) -> float:
    process = subprocess.Popen(
        [sys.executable, "-c", FIRST_CALL, peer, url], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as printed:
        answer = printed.read()
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = code
    assert (code, answer) == (0, b"hello\n"), f"{peer}: {answer!r}"
    return used.ru_utime + used.ru_stime


def _relative(times: list[float]) -> list[str]:
    """The times relative to the SDK's client: they say the same on every machine, busy or not."""
    base = times[list(PEERS).index("SDK client")]
    return [f"{time / base:.2f}" for time in times]


def table(only: str) -> Iterator[str]:
    """The lines of the table, as soon as each is measured."""
    titles = ["", *(peer.title for peer in PEERS.values())]
    yield _line(titles)
    yield _line(["---"] * len(titles))
    with http_server() as url:
        for label, row in rows(url).items():
            if only in label:
                yield _line([label, *asyncio.run(row())])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows whose label holds the text")
    options = parser.parse_args()
    for line in table(options.only):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
