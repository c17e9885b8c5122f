"""Runs of frameworks that block, each in a thread: who cancels the wait for one also ends its calls."""

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from toolbus.bus.tool import Tool
from toolbus.core.errors import ToolbusError
from toolbus.core.records import JSON, ToolResult

P = ParamSpec("P")
T = TypeVar("T")


class Run:
    """What one thread does for one that waits."""

    def __init__(self) -> None:
        self.cancelled = False
        self._calls: set[asyncio.Task[Any]] = set()

    async def made(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        """The result of a call of this run."""
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        try:
            return await tool.run(arguments)
        finally:
            self._calls.discard(call)

    def cancel(self) -> None:
        """End the calls under way."""
        self.cancelled = True
        for call in list(self._calls):
            call.get_loop().call_soon_threadsafe(call.cancel)


_RUN: ContextVar[Run | None] = ContextVar("toolbus_run", default=None)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` gives, in a thread. Cancelling this cancels the calls it makes, and it ends at the next."""
    run = Run()
    before = _RUN.set(run)
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except asyncio.CancelledError:
        run.cancel()
        raise
    finally:
        _RUN.reset(before)


def waited(tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
    """As `Tool.execute_sync`; raises `asyncio.CancelledError` once the run is cancelled.

    That is no `Exception`, which a framework would tell to the model and go on.
    """
    run = _RUN.get()
    if run is not None and run.cancelled:
        raise asyncio.CancelledError
    try:
        return tool.runner.wait(tool.run(arguments) if run is None else run.made(tool, arguments))
    except ToolbusError as error:
        return ToolResult.failure(str(error))
    except CancelledError:
        raise asyncio.CancelledError from None
