"""Layers around a call: each sees the call on its way in and the result on its way out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from toolbus.records import JSON, Progress, ToolResult, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call on its way; a hook may pass a changed copy on."""

    spec: ToolSpec
    arguments: Mapping[str, JSON] = field(repr=False)
    timeout: float | None = None
    on_progress: Progress | None = None


Next: TypeAlias = Callable[[Call], Awaitable[ToolResult]]
Hook: TypeAlias = Callable[[Call, Next], Awaitable[ToolResult]]


def onion(hooks: Sequence[Hook], core: Next) -> Next:
    """One function out of many layers; the first hook is the outermost."""
    for hook in reversed(hooks):
        core = partial(_layer, hook, core)
    return core


def _layer(hook: Hook, inner: Next, call: Call) -> Awaitable[ToolResult]:
    return hook(call, inner)
