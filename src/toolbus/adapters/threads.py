"""Run a blocking framework in a thread, so that cancelling the wait also cancels its calls."""

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from toolbus.bus.catalog.tool import Tool
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, ToolResult

P = ParamSpec("P")
T = TypeVar("T")


class ThreadCalls:
    """The calls that one thread makes."""

    def __init__(self) -> None:
        self.cancelled = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        """Run a call that `cancel` can cancel."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await tool.run(arguments)
        finally:
            self._tasks.discard(task)

    def cancel(self) -> None:
        """Cancel the calls in flight."""
        self.cancelled = True
        for task in list(self._tasks):
            task.get_loop().call_soon_threadsafe(task.cancel)


_CALLS: ContextVar[ThreadCalls | None] = ContextVar("toolbus_thread_calls", default=None)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread. Cancelling this cancels the calls in flight; `work` ends at its next call."""
    calls = ThreadCalls()
    token = _CALLS.set(calls)
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except asyncio.CancelledError:
        calls.cancel()
        raise
    finally:
        _CALLS.reset(token)


def run_tool_sync(tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
    """Like `Tool.execute_sync`, but raises `asyncio.CancelledError` once `in_thread` is cancelled.

    It is not an `Exception`, which a framework would report to the model and continue.
    """
    calls = _CALLS.get()
    if calls is not None and calls.cancelled:
        raise asyncio.CancelledError
    try:
        return tool.runner.wait(tool.run(arguments) if calls is None else calls.run(tool, arguments))
    except ToolbusError as error:
        return ToolResult.failure(str(error))
    except CancelledError:
        raise asyncio.CancelledError from None
