"""The limits of a run."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic_ai.usage import UsageLimits

from toolbus.core.ask.interactions import ANSWER_WITHIN
from toolbus.core.values.errors import ToolbusError

Limit: TypeAlias = Literal["turns", "tool_calls", "tokens", "seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; None means unlimited."""

    turns: int | None = 50
    """Requests to the model."""
    tool_calls: int | None = None
    """Tool calls, including failed ones."""
    tokens: int | None = None
    """Input and output together."""
    seconds: float | None = None
    """Without the time that the run waits for earlier runs."""
    answer_within: float | None = ANSWER_WITHIN
    """Seconds to wait for the answer to `ApprovalAsked`; then the call is refused, and the run continues."""


class LimitReached(ToolbusError):
    """A run reached one of its limits; `limit` names it, `allowed` is its value."""

    def __init__(self, limit: Limit, allowed: float) -> None:
        self.limit: Limit = limit
        self.allowed = allowed
        unit = {"tool_calls": "tool calls"}.get(limit, limit)
        super().__init__(
            f"the run reached its limit of {allowed:g} {unit}; raise it with Limits({limit}=...)"
        )


def usage_limits(limits: Limits) -> UsageLimits:
    """The limits that Pydantic AI checks, in its type."""
    return UsageLimits(
        request_limit=limits.turns,
        tool_calls_limit=limits.tool_calls,
        total_tokens_limit=limits.tokens,
    )


# Pydantic AI's names; it reports a limit only in its message.
_PYDANTIC_NAMES: dict[str, Limit] = {
    "request_limit": "turns",
    "tool_calls_limit": "tool_calls",
    "total_tokens_limit": "tokens",
}


def limit_error(message: str, limits: Limits) -> LimitReached:
    """The limit that Pydantic AI's message names."""
    for name, limit in _PYDANTIC_NAMES.items():
        if name in message:
            return LimitReached(limit, getattr(limits, limit))
    raise AssertionError(f"unknown limit: {message}")
