"""Stations as an installed package would have them, and what they have seen."""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from toolbus import CallDenied, Operation, ToolResult
from toolbus.records import Text

Next = Callable[[Operation], Awaitable[ToolResult]]
SEEN: list[Any] = []
"""The events so far, in order; a test clears it."""


class Seen:
    """One operation that is followed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        SEEN.append(("progress", progress))

    def end(self, result: ToolResult | None, failure: Any) -> None:
        SEEN.append(("end", self.name, None if failure is None else failure.reason))


class Follows:
    """An observer."""

    def __init__(self, **options: Any) -> None:
        SEEN.append(("made", options))

    def start(self, operation: Operation) -> Seen:
        SEEN.append(("start", operation.spec.name, operation.caller.user))
        return Seen(operation.spec.name)

    async def aclose(self) -> None:
        SEEN.append("closed")


class Fails:
    """An observer that raises whenever it can."""

    def start(self, operation: Operation) -> Any:
        if operation.spec.origin.tool == "quiet":
            raise LookupError("at the start")
        return self

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        raise ValueError("in the middle")

    def end(self, result: ToolResult | None, failure: Any) -> None:
        raise ValueError("at the end")


class Stamps:
    """A hook that marks results."""

    def __init__(self, mark: str = "seen") -> None:
        self._mark = mark

    async def __call__(self, call: Operation, following: Next) -> ToolResult:
        result = await following(call)
        return dataclasses.replace(result, content=(*result.content, Text(text=self._mark)))

    def close(self) -> None:
        SEEN.append(f"closed {self._mark}")


async def breaks(call: Operation, following: Next) -> ToolResult:
    """A hook with a bug, after the call was made."""
    await following(call)
    raise KeyError("user")


async def answers_text(call: Operation, following: Next) -> Any:
    """A hook that forgets to return a result."""
    return "done"


class Most:
    """A guard that allows a number of calls."""

    def __init__(self, calls: int = 1) -> None:
        self.left = calls

    async def __call__(self, operation: Operation) -> None:
        if self.left < 1:
            raise CallDenied(operation.spec.name, "no calls are left")
        self.left -= 1


async def stumbles(operation: Operation) -> None:
    """A guard with a bug."""
    raise ZeroDivisionError


def made(kind: str) -> Any:
    """A factory."""
    return {"hook": Stamps("made"), "guard": Most(1), "text": "nothing"}[kind]


class Both:
    """Something that may be two things."""

    def start(self, operation: Operation) -> None:
        """Start as an observer."""

    async def __call__(self, operation: Operation) -> None:
        """Check as a guard."""


class SaysGuard(Both):
    """The same, which says what it is."""

    station = "guard"

    async def __call__(self, operation: Operation) -> None:
        SEEN.append("guarded")


class SaysNonsense:
    """It says something that is no kind."""

    station = "wall"


def plain(call: Operation, following: Next) -> Awaitable[ToolResult]:
    """A hook that is not async, and looks like a factory."""
    return following(call)


ready = Stamps("ready")
number = 7
