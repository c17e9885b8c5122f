"""Notify observers of the start, the progress and the end of an operation, with the reason of a failure."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from toolbus.core.ask.people import PEOPLE, PeopleTime
from toolbus.core.operation.events import CallEnded, CallStarted, Hub, Progressed
from toolbus.core.operation.operation import CallRegister, Failure, Observation, Observer, Operation
from toolbus.core.values.errors import ArgumentsError, CallRefused, ToolNotFound
from toolbus.core.values.records import ToolResult

logger = logging.getLogger("toolbus")
T = TypeVar("T")
TOOL_ERROR = Failure("tool_error")
INVALID = Failure("invalid_arguments", "wrong arguments; nothing was sent")
REFUSED_BY_HOOK = Failure("refused", "a hook refused the call")
SERVER_REQUESTS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""Requests from a server; their events are `InputAsked` and `InputAnswered`."""


class Observations:
    """The observations of one operation. An observer that raises is logged and has no effect."""

    def __init__(self, started: Sequence[Observation], is_hooked: bool) -> None:
        """`is_hooked`: whether hooks come between, so that an outcome may be theirs."""
        self._all = started
        self._is_hooked = is_hooked
        self.failure: Failure | None = None
        self.error: BaseException | None = None
        self.people = PeopleTime(PEOPLE.get())

    @property
    def follows_progress(self) -> bool:
        """Whether any of them follows progress."""
        for one in self._all:  # noqa: SIM110 - every observed call is here
            if not getattr(one, "ignores_progress", False):
                return True
        return False

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        for one in self._all:
            _safely(lambda one=one: one.progress(progress, total, message))

    def end(self, outcome: ToolResult | BaseException | Failure) -> None:
        """Report the end of the operation: its result, or the error that it raised."""
        is_plain = isinstance(outcome, ToolResult) and not outcome.is_error
        result = outcome if isinstance(outcome, ToolResult) else None
        failure = None if is_plain else self._failure(outcome)
        if isinstance(outcome, BaseException):
            self.error = outcome
        for one in self._all:  # without `_safely`: every observed call is here
            try:
                one.end(result, failure)
            except Exception:
                logger.exception("an observer raised")

    def _failure(self, outcome: ToolResult | BaseException | Failure) -> Failure | None:
        match outcome:
            case Failure():
                return outcome
            case ToolResult():
                reported = REFUSED_BY_HOOK if self._is_hooked else TOOL_ERROR
                return (self.failure or reported) if outcome.is_error else None
            case _:
                raised = (
                    Failure("refused", f"a hook raised {type(outcome).__name__}")
                    if self._is_hooked
                    else Failure("server_failed", str(outcome))
                )
                return failure_of(outcome) or self.failure or raised


def observe(
    observers: Sequence[Observer], operation: Operation, is_hooked: bool = False
) -> Observations | None:
    """Start observing an operation; None if no observer is interested."""
    started: list[Observation] = []
    for observer in observers:  # without `_safely`: every call is here
        try:
            observation = observer.start(operation)
        except Exception:
            logger.exception("an observer raised")
        else:
            if observation is not None:
                started.append(observation)
    return Observations(started, is_hooked) if started else None


def _safely(notify: Callable[[], T]) -> T | None:
    try:
        return notify()
    except Exception:  # an observer is the user's code; its failure must not affect the operation
        logger.exception("an observer raised")
        return None


class TenantObserver:
    """Tells the tenant of an operation: its register of calls in flight, and its events."""

    def start(self, operation: Operation, /) -> "_CallOfTenant | _Events | None":
        """None if nobody follows it."""
        tenant = operation.tenant
        if tenant is None:
            return None
        follows = tenant.hub.follows_calls and operation.route not in SERVER_REQUESTS
        if tenant.calls is None:
            return _Events(tenant.hub, operation) if follows else None
        tenant.calls.begin(operation.id)
        return _CallOfTenant(tenant.calls, operation.id, _Events(tenant.hub, operation) if follows else None)


class _CallOfTenant:
    """A call of a user or a session, until it has ended."""

    def __init__(self, calls: CallRegister, id_: int, events: "_Events | None") -> None:
        self._calls = calls
        self._id = id_
        self._events = events
        self.ignores_progress = events is None

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._events is not None:
            self._events.progress(progress, total, message)

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self._calls.end(self._id)
        if self._events is not None:
            self._events.end(result, failure)


class _Events:
    def __init__(self, hub: Hub, operation: Operation) -> None:
        self._hub = hub
        self._operation = operation
        spec = operation.spec
        self._facts: dict[str, Any] = {
            "id": operation.id,
            "name": spec.name,
            "server": spec.origin.server,
            "tool": spec.origin.tool,
            "route": spec.route,
        }
        self._began = time.perf_counter()
        hub.emit(CallStarted(**self._facts))

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        facts = self._facts
        self._hub.emit(
            Progressed(id=facts["id"], name=facts["name"], progress=progress, total=total, message=message)
        )

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        people = self._operation.people
        asked = 0.0 if people is None else people.seconds
        self._hub.emit(
            CallEnded(
                **self._facts,
                elapsed_ms=(time.perf_counter() - self._began - asked) * 1000,
                is_error=failure is not None,
                error=failure.error if failure else None,
                reason=failure.reason if failure else None,
            )
        )


def failure_of(error: BaseException) -> Failure | None:
    """The reason why the operation failed, if the class of the error determines it."""
    match error:
        case asyncio.CancelledError():
            return Failure("cancelled", "cancelled")
        case TimeoutError():
            return Failure("timed_out", str(error) or "timed out")
        case ArgumentsError():
            return Failure("invalid_arguments", str(error))
        case CallRefused():
            return Failure("refused", str(error))
        case ToolNotFound():
            return Failure("unknown_tool", str(error))
        case _:
            return None
