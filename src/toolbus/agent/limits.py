"""How long an agent may go on."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbus.core.errors import ToolbusError

Limit: TypeAlias = Literal["turns", "tool_calls", "tokens", "seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one run; None is no bound."""

    turns: int | None = 50
    """Requests to the model."""
    tool_calls: int | None = None
    """Calls of tools, also of those that fail."""
    tokens: int | None = None
    """Sent and received, together."""
    seconds: float | None = None
    """From its turn on: a run that waits for another one has not begun."""


class LimitReached(ToolbusError):
    """A run came to one of its limits; `limit` says which, `allowed` how much it was."""

    def __init__(self, limit: Limit, allowed: float) -> None:
        self.limit: Limit = limit
        self.allowed = allowed
        what = {"tool_calls": "tool calls"}.get(limit, limit)
        super().__init__(
            f"the run reached its limit of {allowed:g} {what}; raise it with Limits({limit}=...)"
        )


# What pydantic-ai calls them in its message, which is all that it says.
_THEIRS: dict[str, Limit] = {
    "request_limit": "turns",
    "tool_calls_limit": "tool_calls",
    "total_tokens_limit": "tokens",
}


def reached(message: str, limits: Limits) -> LimitReached:
    """The limit that a message of pydantic-ai's is about."""
    for theirs, limit in _THEIRS.items():
        if theirs in message:
            return LimitReached(limit, getattr(limits, limit))
    raise AssertionError(f"no limit of ours: {message}")
