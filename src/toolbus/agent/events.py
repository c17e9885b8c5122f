"""What happens in a run, as it happens."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from toolbus.adapters.approval import Decision
from toolbus.core.records import JSON, Image


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The model said some more."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """The model thought some more, where its provider shows that."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """The model wants a tool to be run."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    server: str | None = None
    """None for a function of yours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgressed:
    """A server told how far a call has come."""

    id: str
    name: str
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A call came to its end; what the model is told of it."""

    id: str
    name: str
    text: str
    is_error: bool
    seconds: float
    server: str | None = None
    images: tuple[Image, ...] = field(default=(), repr=False)
    structured: JSON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked:
    """A call waits for your decision: call `approve()` or `deny()`."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    server: str | None = None
    answer: "asyncio.Future[Decision]" = field(repr=False, compare=False)

    def approve(self) -> None:
        """Let it run."""
        self._settle(True)

    def deny(self, reason: str = "") -> None:
        """Do not run it; the model is told, with the reason."""
        self._settle(reason or False)

    def _settle(self, decision: Decision) -> None:
        if not self.answer.done():
            self.answer.set_result(decision)


RunEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCalled | ToolProgressed | ToolReturned | ApprovalAsked
