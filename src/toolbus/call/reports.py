"""Every call is reported once: its start, its progress, and its end with the reason if it failed."""

import asyncio
import time
from typing import Any, NamedTuple

from toolbus.core.errors import ArgumentsError, ToolNotFound
from toolbus.core.events import CallEnded, CallStarted, Hub, Progressed, Reason
from toolbus.core.records import Origin, ToolResult


class Failure(NamedTuple):
    """Why a call failed. No argument and nothing of a result is quoted: events go to logs and hosts."""

    reason: Reason
    error: str | None = None


TOOL_ERROR = Failure("tool_error")
INVALID = Failure("invalid_arguments", "wrong arguments; nothing was sent")
REFUSED = Failure("refused", "a hook refused the call")


class CallReport:
    """What listeners are told of one call."""

    def __init__(self, hub: Hub, number: int, name: str, origin: Origin) -> None:
        """Reports the start."""
        self._hub = hub
        self._facts: Any = {"id": number, "name": name, "server": origin.server, "tool": origin.tool}
        self._began = time.perf_counter()
        self.failure: Failure | None = None
        """How the way to the server ended, inside of the hooks; they may go it more than once."""
        hub.emit(CallStarted(**self._facts))

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report how far the call has come."""
        facts = self._facts
        self._hub.emit(
            Progressed(id=facts["id"], name=facts["name"], progress=progress, total=total, message=message)
        )

    def end(self, outcome: "ToolResult | BaseException | Failure") -> None:
        """Report the end: a result, or what was raised instead."""
        match outcome:
            case Failure():
                failure = outcome
            case ToolResult():
                failure = (self.failure or REFUSED) if outcome.is_error else None
            case _:
                failure = failure_of(outcome) or self.failure
                failure = failure or Failure("refused", f"a hook raised {type(outcome).__name__}")
        self._hub.emit(
            CallEnded(
                **self._facts,
                elapsed_ms=(time.perf_counter() - self._began) * 1000,
                is_error=failure is not None,
                error=failure.error if failure else None,
                reason=failure.reason if failure else None,
            )
        )


def failure_of(error: BaseException) -> Failure | None:
    """Why the call failed, where the error says it, whoever raised it."""
    match error:
        case asyncio.CancelledError():
            return Failure("cancelled", "cancelled")
        case TimeoutError():
            return Failure("timed_out", str(error) or "timed out")
        case ArgumentsError():
            return Failure("invalid_arguments", str(error))
        case ToolNotFound():
            return Failure("unknown_tool", str(error))
        case _:
            return None
