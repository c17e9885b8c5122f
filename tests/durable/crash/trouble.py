"""A worker that is frozen, a store that is down, and a full disk."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.durable.crash.fleet import Client, Fleet, Member, opened_fleet
from tests.durable.crash.plans import PLANS
from tests.durable.crash.report import Judge, Line, Report, happened
from tests.postgres import Server

WITHIN = 90.0
"""The most that runs may take once the trouble is over."""
BURST = 10
"""Runs that are in the middle when trouble begins."""


async def freeze(store: str, folder: Path, *, seconds: float, beat: float, patience: float = 0) -> Report:
    """Stop a worker by SIGSTOP, and continue it; with patience, not before its runs went on elsewhere."""
    began, report = time.monotonic(), Report(scenario="freeze")
    async with opened_fleet(store, folder, beat=beat) as fleet:
        client = Client(fleet)
        await asyncio.gather(*(fleet.start("v1") for _ in range(3)))
        async with client.starting():
            await asyncio.sleep(2)
            await client.burst(BURST)
            frozen = _busiest(fleet)
            frozen.send(signal.SIGSTOP)
            stopped = time.time()
            await asyncio.sleep(seconds)
            deadline = time.monotonic() + patience
            while _left(fleet, frozen, stopped) and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            frozen.send(signal.SIGCONT)
            continued = time.time()
            await asyncio.sleep(4)
        infos = await client.ended_runs(WITHIN)
    judge = Judge(fleet, report, infos)
    judge.judge()
    _check_frozen(judge.lines, report, frozen, stopped, continued)
    report.seconds = time.monotonic() - began
    return report


def _busiest(fleet: Fleet) -> Member:
    """The worker that has the most runs now."""
    last = {
        line.run: line.more[2]
        for line in happened(fleet.folder)
        if line.what == "model" and len(line.more) > 2
    }
    owners = list(last.values())
    return max(fleet.members, key=lambda one: owners.count(str(one.pid)))


def _left(fleet: Fleet, frozen: Member, stopped: float) -> list[str]:
    """The runs that a frozen worker has, and that did not go on elsewhere yet."""
    models = [line for line in happened(fleet.folder) if line.what == "model"]
    last = {line.run: line for line in models}
    return [
        run
        for run, line in last.items()
        if line.more[2] == str(frozen.pid) and line.at < stopped and int(line.more[0]) < len(PLANS["v1"])
    ]


def _check_frozen(
    lines: list[Line], report: Report, frozen: Member, stopped: float, continued: float
) -> None:
    """Its runs went on elsewhere, and it did nothing more for them."""
    models = [line for line in lines if line.what == "model"]
    last = {line.run: line for line in models if line.at < stopped}
    held = [run for run, line in last.items() if line.more[2] == str(frozen.pid)]
    silences: list[float] = []
    for run in held:
        later = [line for line in models if line.run == run and line.at > stopped]
        elsewhere = [line.at for line in later if line.more[2] != str(frozen.pid)]
        if not elsewhere:
            continue  # it had ended
        silences.append(min(elsewhere) - stopped)
        if min(elsewhere) > continued:
            report.faults.append(f"{run} did not go on until the frozen worker was back")
        # It may ask the model once more, but can record no answer; so it comes to no second request.
        if sum(line.more[2] == str(frozen.pid) and line.at > min(elsewhere) for line in later) > 1:
            report.faults.append(f"{run} was executed by the frozen worker, which had lost it")
    if not silences:
        report.faults.append("the frozen worker had no runs")
        return
    texts = f"{len(silences)} runs, after a median of {median(silences):.1f} s, at most {max(silences):.1f} s"
    report.facts["went on elsewhere:"] = texts


@dataclass(frozen=True, kw_only=True)
class Outage:
    """The kind of outage of Postgres, and the time that workers may take to end meanwhile."""

    hangs: bool
    """It accepts connections, and never answers; otherwise it refuses them."""
    seconds: float
    drain: float = 5.0
    slack: float = 10.0
    """Seconds that a worker may take to end, besides its drain."""
    at_once: float = 2.0
    """Seconds that it may take after a second signal."""


async def store_down(server: Server, folder: Path, outage: Outage) -> Report:
    """Let Postgres be down for a while; workers are told to end meanwhile."""
    name = "store hangs" if outage.hangs else "store refuses"
    began, report = time.monotonic(), Report(scenario=name)
    down, up = (server.freeze, server.thaw) if outage.hangs else (server.stop, server.start)
    async with opened_fleet(server.database(), folder, drain=outage.drain) as fleet:
        client = Client(fleet)
        first, second, third = await asyncio.gather(*(fleet.start("v1") for _ in range(3)))
        async with client.starting():
            await client.burst(BURST)
            await asyncio.to_thread(down)
            try:
                until = time.monotonic() + outage.seconds
                await asyncio.sleep(1)
                await _end_meanwhile(report, first, second, outage)
                await asyncio.sleep(max(until - time.monotonic(), 0))
            finally:
                await asyncio.to_thread(up)
            await asyncio.sleep(2)
        infos = await client.ended_runs(WITHIN)
        if third.process.poll() is not None:
            report.faults.append("the worker that was left alone ended")
    Judge(fleet, report, infos).judge()
    report.seconds = time.monotonic() - began
    return report


async def _end_meanwhile(report: Report, first: Member, second: Member, outage: Outage) -> None:
    """One worker gets SIGTERM, another one gets it twice."""
    first.send(signal.SIGTERM)
    second.send(signal.SIGTERM)
    await asyncio.sleep(outage.drain / 5)
    second.send(signal.SIGTERM)
    again = time.time()
    within = outage.drain + 2 * outage.slack
    took, forced = await asyncio.gather(first.gone(within), second.gone(within))
    forced = None if forced is None else forced - (again - second.ended)
    for name, seconds in (("SIGTERM", took), ("a second SIGTERM", forced)):
        text = "did not end" if seconds is None else f"ended after {max(seconds, 0):.1f} s"
        report.facts[f"{name}:"] = f"{text} (drain {outage.drain:g} s)"
    if took is None or took > outage.drain + outage.slack:
        report.faults.append("a worker does not end within its limits")
    if forced is None or forced > outage.at_once:
        report.faults.append("a second SIGTERM does not end a worker at once")
    for one in (first, second):
        if one.process.poll() is None:
            one.send(signal.SIGKILL)


async def full_disk(folder: Path, *, seconds: float) -> Report:
    """Let the file system of a SQLite store be full for a while."""
    began, report = time.monotonic(), Report(scenario="disk full")
    with small_disk(folder / "disk") as fill:
        async with opened_fleet(str(folder / "disk" / "runs.db"), folder) as fleet:
            client = Client(fleet)
            await asyncio.gather(*(fleet.start("v1") for _ in range(2)))
            async with client.starting():
                await asyncio.sleep(1)
                await client.burst(BURST)
                free = fill()
                await asyncio.sleep(1)
                silent = len(happened(folder))
                await asyncio.sleep(seconds)
                report.facts["while it was full:"] = (
                    f"{len(happened(folder)) - silent} effects and model requests"
                )
                free()
                await asyncio.sleep(3)
            infos = await client.ended_runs(WITHIN)
    Judge(fleet, report, infos).judge()
    if not any("disk" in one.log.read_text() for one in fleet.members):
        report.faults.append("no worker noticed that the disk was full")
    report.seconds = time.monotonic() - began
    return report


@contextmanager
def small_disk(folder: Path) -> Generator[Callable[[], Callable[[], None]]]:
    """A small file system: a function that fills it, and returns one that frees it.

    Raises PermissionError if this user may not mount one.
    """
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        raise PermissionError(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")

    def fill() -> Callable[[], None]:
        ballast = folder / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        return ballast.unlink

    try:
        yield fill
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
