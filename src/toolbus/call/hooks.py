"""Hooks: functions around an operation that see and may change it and its result."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import ToolResult

Next: TypeAlias = Callable[[Operation], Awaitable[ToolResult]]
Hook: TypeAlias = Callable[[Operation, Next], Awaitable[ToolResult]]


def wrap(hooks: Sequence[Hook], core: Next) -> Next:
    """Wrap a function in hooks; the first hook is the outermost."""
    for hook in reversed(hooks):
        core = partial(_run_hook, hook, core)
    return core


def _run_hook(hook: Hook, inner: Next, operation: Operation) -> Awaitable[ToolResult]:
    return hook(operation, inner)
