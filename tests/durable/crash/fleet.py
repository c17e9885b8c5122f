"""The parts of a crash test: the server of effects, the workers, and a client that starts runs."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests import warm
from tests.durable.crash import note
from tests.durable.crash.plans import CROWD, TOOLS
from tests.patience import PATIENCE
from toolbus.agent.durable import Durable, RunInfo, Runs, RunStoreError

ROOT = Path(__file__).resolve().parents[3]
PAUSE = 0.6
"""Seconds between two runs that a client or a program starts."""
_PROGRAMS = "tests.durable.crash.programs.orders_"


@dataclass(kw_only=True)
class Member:
    """One worker of the fleet."""

    version: str
    process: warm.Running
    log: Path
    starts_runs: bool
    ready: float = float("inf")
    """The time when it had joined; times are seconds since the epoch."""
    ended: float = float("inf")
    """The time when it was told to end, or killed."""

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def lives(self, at: float, margin: float) -> bool:
        """Whether it could execute runs at a time, give or take a margin."""
        return self.ready + margin < at < self.ended

    async def wait_ready(self) -> None:
        """Wait until it takes runs."""
        async with asyncio.timeout(PATIENCE):
            while "takes runs" not in self.log.read_text():
                code = self.process.poll()
                assert code is None, f"{self.log.name} ended with {code}: {self.log.read_text()[-2000:]}"
                await asyncio.sleep(0.05)
        self.ready = time.time()

    def send(self, number: int) -> None:
        """Send it a signal."""
        if number in (signal.SIGTERM, signal.SIGKILL):
            self.ended = min(self.ended, time.time())
        self.process.send_signal(number)

    async def gone(self, within: float) -> float | None:
        """Wait until it has ended; seconds since it was told to, or None if that is not so in time."""
        deadline = time.monotonic() + within
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.02)
        return time.time() - self.ended


@dataclass(kw_only=True)
class Fleet:
    """Workers that share a store."""

    store: str
    folder: Path
    settings: Mapping[str, Any]
    pin: bool = False
    members: list[Member] = field(default_factory=list[Member])

    def durable(self, **more: Any) -> Durable:
        """The settings of a client of these runs."""
        return Durable(store=self.store, agent="orders", **{**self.settings, **more})

    async def start(self, version: str, *, starts_runs: bool = False) -> Member:
        """Start a worker, and wait until it takes runs."""
        log = self.folder / f"{len(self.members)}-{version}.txt"
        env = dict(os.environ) | {
            "CRASH_FOLDER": str(self.folder),
            "CRASH_SETTINGS": json.dumps({"store": self.store, **self.settings}),
            "CRASH_PIN": "1" if self.pin else "",
            "CRASH_PAUSE": str(PAUSE),
        }
        module = f"{_PROGRAMS}{version}"
        program, words = (
            ("python", ["-m", module]) if starts_runs else ("toolbus", ["runs", "worker", f"{module}:agent"])
        )
        process = warm.start(program, words, ROOT, env, log)
        member = Member(version=version, process=process, log=log, starts_runs=starts_runs)
        self.members.append(member)
        await member.wait_ready()
        return member

    @property
    def newest(self) -> str:
        """The newest version that a living worker has."""
        now = time.time()
        return max(one.version for one in self.members if one.ready < now < one.ended)

    def has(self, tools: set[str], at: float, margin: float) -> bool:
        """Whether a worker with these tools lived at a time."""
        return any(tools <= TOOLS[one.version] and one.lives(at, margin) for one in self.members)

    async def close(self) -> None:
        """End all workers; those that do not end are killed."""
        for one in self.members:
            one.send(signal.SIGCONT)
            one.send(signal.SIGTERM)
        for one in self.members:
            if await one.gone(30) is None:
                one.send(signal.SIGKILL)
                await one.gone(30)

    def kill(self) -> None:
        """End all workers at once."""
        for one in self.members:
            one.process.kill()


@asynccontextmanager
async def effects_server(folder: Path, *words: str) -> AsyncGenerator[None]:
    """The server that keeps the effects, until the block ends."""
    command = ["-m", "tests.durable.crash.server", str(folder), *words]
    process = warm.start("python", command, ROOT, os.environ, folder / "server.txt")
    try:
        async with asyncio.timeout(PATIENCE):
            while not (folder / "port").exists():  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@asynccontextmanager
async def opened_fleet(store: str, folder: Path, *, pin: bool = False, **more: Any) -> AsyncGenerator[Fleet]:
    """The server of effects and a fleet without workers, until the block ends."""
    settings: dict[str, Any] = {"beat": 0.25, "missed": 4, "poll": 0.1, "at_once": 4, "drain": 5} | more
    fleet = Fleet(store=store, folder=folder, settings=settings, pin=pin)
    async with effects_server(folder):
        try:
            yield fleet
            await fleet.close()
        finally:
            fleet.kill()


class Client:
    """Starts runs without an agent, as a web application does, and looks what became of all runs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._numbers = count()

    @asynccontextmanager
    async def starting(self) -> AsyncGenerator[None]:
        """Start runs of the newest version all the time, until the block ends."""
        task = asyncio.create_task(self._start_runs())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _start_runs(self) -> None:
        while True:
            with suppress(RunStoreError):
                if sum(one.is_open for one in await self.all_runs()) < CROWD:
                    await self.start_run(self._fleet.newest)
            await asyncio.sleep(PAUSE)

    async def burst(self, runs: int) -> None:
        """Start many runs at once, and let them begin."""
        await asyncio.gather(*(self.start_run(self._fleet.newest) for _ in range(runs)))
        await asyncio.sleep(1.5)

    async def start_run(self, version: str) -> str:
        """Start a run; it is only noted if the store has it."""
        fleet, key = self._fleet, f"{version}-client-{next(self._numbers)}"
        runs = Runs(fleet.durable(**({"version": version} if fleet.pin else {})))
        try:
            async with asyncio.timeout(5):
                await runs.start(f"{version} {key}", key=key)
            note(fleet.folder, f"started {key} {version} client")
        except (RunStoreError, TimeoutError):  # it may be down; the next run is another one
            pass
        finally:
            await runs.close()
        return key

    async def all_runs(self) -> list[RunInfo]:
        """All runs."""
        runs = Runs(self._fleet.durable())
        try:
            return await runs.recent(ended=True, limit=10_000)
        finally:
            await runs.close()

    async def ended_runs(self, within: float) -> list[RunInfo]:
        """All runs, once they have ended, or the time is over."""
        deadline = time.monotonic() + within
        while True:
            found = await self.all_runs()
            if not any(one.is_open for one in found) or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.5)
