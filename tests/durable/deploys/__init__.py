"""Programs of several versions that share a store, each in a process of its own."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import warm
from tests.durable.stage import settings
from tests.patience import PATIENCE, until
from toolbus.agent.durable import RunInfo, Runs

ROOT = Path(__file__).resolve().parents[3]


class Stage:
    """A store, and the programs that share it."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.runs = Runs(settings(folder, store=store))
        self._running: dict[str, warm.Running] = {}

    async def program(self, name: str, *agents: dict[str, Any], **more: Any) -> warm.Running:
        """Start a program, and wait until it executes runs."""
        spec = {"store": self.store, "folder": str(self.folder), "program": name, "agents": agents, **more}
        words = ["-m", "tests.durable.deploys.program", json.dumps(spec)]
        process = warm.start("python", words, ROOT, os.environ, self.folder / f"{name}.log")
        self._running[name] = process
        ready = self.folder / f"{name}.ready"
        await until(lambda: ready.exists() or process.poll() is not None)
        assert ready.exists(), self.log(name)
        return process

    async def ends(self, name: str, number: int) -> None:
        """End a program by a signal."""
        process = self._running.pop(name)
        process.send_signal(number)
        await asyncio.to_thread(process.wait, PATIENCE)

    def log(self, name: str) -> str:
        """The output of a program."""
        return (self.folder / f"{name}.log").read_text()

    @property
    def calls(self) -> Counter[str]:
        """The number of calls of each function by each program."""
        calls = self.folder / "calls"
        return Counter(calls.read_text().splitlines() if calls.exists() else ())

    async def reached(self, name: str) -> None:
        """Wait until a function that waits is called."""
        await until((self.folder / f"{name}.reached").exists)

    def let_go(self, name: str) -> None:
        """Let a function that waits go on, in every process."""
        (self.folder / f"{name}.go").touch()

    async def end_of(self, run: str) -> RunInfo:
        """A run that has ended."""
        async with asyncio.timeout(PATIENCE):
            return await self.runs.wait(run)

    async def close(self) -> None:
        """End all programs."""
        for name in list(self._running):
            await self.ends(name, signal.SIGTERM)
        await self.runs.close()


@asynccontextmanager
async def staged(store: str, folder: Path) -> AsyncGenerator[Stage]:
    """A stage for one test."""
    stage = Stage(store, folder)
    try:
        yield stage
    finally:
        await stage.close()
