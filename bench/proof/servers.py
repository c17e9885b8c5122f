"""The backends of a benchmark as stdio servers, which a measuring program tells its tasks."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.proof.traces import Task, TaskOutcome

BACKEND = Path(__file__).with_name("sides") / "backend.py"
LINE = 2**26
"""Characters in the longest answer of a server's control."""
PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark that is installed, with its tasks."""

    name: str
    side: str
    python: Path
    servers: Sequence[str]
    tasks: Sequence[Task]
    environment: Mapping[str, str]

    def entry(self, server: str, control: Path) -> dict[str, Any]:
        """One of its servers in a config."""
        command = {"command": str(self.python), "env": dict(self.environment), "required": True}
        return {**command, "args": [str(BACKEND), self.side, server, str(control)]}

    def direct(self, tasks: Sequence[Task]) -> dict[str, TaskOutcome]:
        """The outcome of each task if its calls are made directly, as the benchmark does."""
        orders = [
            {"id": task.id, "scenarios": task.scenarios, "calls": [asdict(one) for one in task.calls]}
            for task in tasks
        ]
        given = "".join(f"{json.dumps(order)}\n" for order in orders)
        told = [json.loads(line) for line in self._run("run", given=given).splitlines()]
        return {
            one["id"]: TaskOutcome(
                results=[(text, failed) for text, failed in one["results"]], states=one["states"]
            )
            for one in told
        }

    def definitions(self) -> dict[str, list[dict[str, Any]]]:
        """The tools of each server, as it lists them."""
        return json.loads(self._run("list", *self.servers))

    def written(self) -> list[dict[str, Any]]:
        """The tasks, if the benchmark has them as code."""
        return json.loads(self._run("tasks"))

    def _run(self, *words: str, given: str = "") -> str:
        command = [str(self.python), str(BACKEND), self.side, *words]
        environment = dict(self.environment)
        done = subprocess.run(
            command, input=given, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout


class Controls:
    """The second way to the servers, beside MCP: sets their tasks and reads their states."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    def path(self, server: str) -> Path:
        """The socket of a server."""
        return self._folder / f"{server}.sock"

    async def order(self, server: str, order: Mapping[str, Any]) -> Any:
        """Tell a server to do something."""
        if server not in self._open:
            self._open[server] = await asyncio.open_unix_connection(str(self.path(server)), limit=LINE)
        reader, writer = self._open[server]
        writer.write(json.dumps(order).encode() + b"\n")
        await writer.drain()
        async with asyncio.timeout(PATIENCE):
            return json.loads(await reader.readline())

    async def begin(self, task: Task) -> None:
        """Open a task on its servers."""
        for server, scenario in task.scenarios.items():
            await self.order(server, {"open": scenario})

    async def states(self, task: Task) -> dict[str, Any]:
        """The states of its servers."""
        return {server: await self.order(server, {"state": True}) for server in task.scenarios}

    async def close(self) -> None:
        for _, writer in self._open.values():
            writer.close()


@asynccontextmanager
async def controls(folder: Path) -> AsyncGenerator[Controls]:
    """The controls of the servers whose sockets are in the folder."""
    opened = Controls(folder)
    try:
        yield opened
    finally:
        await opened.close()
