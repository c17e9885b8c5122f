"""Layers around an operation: each sees it on its way in and the result on its way out."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from toolbus.core.operation import Operation
from toolbus.core.records import ToolResult

Next: TypeAlias = Callable[[Operation], Awaitable[ToolResult]]
Hook: TypeAlias = Callable[[Operation, Next], Awaitable[ToolResult]]


def onion(hooks: Sequence[Hook], core: Next) -> Next:
    """One function out of many layers; the first hook is the outermost."""
    for hook in reversed(hooks):
        core = partial(_layer, hook, core)
    return core


def _layer(hook: Hook, inner: Next, operation: Operation) -> Awaitable[ToolResult]:
    return hook(operation, inner)
