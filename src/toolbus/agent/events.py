"""The events of a run."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from toolbus.core.ask.approval import ApprovalAnswer
from toolbus.core.values.records import JSON, Image


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More text from the model."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """More thinking from the model, if its provider shows it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """The model called a tool."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    server: str | None = None
    """None for your own function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgressed:
    """A server reported the progress of a call."""

    id: str
    name: str
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A call ended; `text` is what the model reads."""

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
    """A call waits for your decision: call `approve()`, `deny()` or `settle()`."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    """If a rule asks, exactly as they will be sent; show them whole."""
    server: str | None = None
    digest: str | None = None
    """A digest of the tool's definition, to remember an answer with; None for your own function."""
    rule: str | None = None
    """The rule of the policy that asks, such as `policy[2]`; None if only `approve=` asks."""
    reason: str = ""
    """The reason that the rule gives."""
    answer: "asyncio.Future[ApprovalAnswer]" = field(repr=False, compare=False)

    def approve(self) -> None:
        """Allow the call."""
        self.settle(True)

    def deny(self, reason: str = "") -> None:
        """Deny the call; the model gets the reason."""
        self.settle(reason or False)

    def settle(self, answer: ApprovalAnswer) -> None:
        """Allow or deny the call; `session`, `always` and `never` also answer the rule that asks."""
        if not self.answer.done():
            self.answer.set_result(answer)


RunEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCalled | ToolProgressed | ToolReturned | ApprovalAsked
"""Any event of a run."""
