"""Shared parts of the tests of durable runs: short settings, a server with counted effects, bounded waits."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.mcpserver import MCPServer

from tests.patience import PATIENCE
from toolbus.agent.durable import Durable, DurableRun, RunInfo, RunNotFound, Runs

T = TypeVar("T")


def settings(folder: Path, **more: Any) -> Durable:
    """A store in a folder, with short waits."""
    values: dict[str, Any] = {"store": str(folder / "runs.db"), "beat": 0.2, "poll": 0.05, "drain": 10.0}
    return Durable(**values | more)


class Ledger:
    """A server with a write, a read, and a write that waits until it may end."""

    def __init__(self, about: str = "Write a line.", *, hold: str = "Write a line, and wait.") -> None:
        """`about` and `hold` are the descriptions of the writes: another one is another definition."""
        self.lines: list[str] = []
        self.reached = asyncio.Event()
        self.may_end = asyncio.Event()
        self._about = about
        self._hold = hold

    def server(self) -> MCPServer:
        """The server, in this process."""
        built: MCPServer = MCPServer("ledger")

        @built.tool(structured_output=False, description=self._about)
        def write(line: str) -> str:
            self.lines.append(line)
            return f"wrote {line}"

        @built.tool(structured_output=False, description=self._hold)
        async def hold(line: str) -> str:
            self.lines.append(line)
            self.reached.set()
            await self.may_end.wait()
            return f"held {line}"

        @built.tool(structured_output=False, annotations=types.ToolAnnotations(read_only_hint=True))
        def count() -> str:
            """Count the lines."""
            return str(len(self.lines))

        return built


async def ended(run: DurableRun[str]) -> str:
    """The output of a run, in time."""
    async with asyncio.timeout(PATIENCE):
        return await run.final


async def run_when(runs: Runs, run: str, is_so: Callable[[RunInfo], bool]) -> RunInfo:
    """A run once it is recorded, and something holds of it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(RunNotFound):
                if is_so(info := await runs.get(run)):
                    return info
            await asyncio.sleep(0.05)


def is_waiting(info: RunInfo) -> bool:
    """Whether a run waits for a person."""
    return info.question is not None
