"""The call path: stations that every operation passes, in order, down to its route and back.

A station lays itself around the rest of the path. One that has nothing to do lays nothing, so that it costs
calls nothing. `bus/stations.py` lists the stations of a bus.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

from toolbus.call.arguments.check import ArgumentStation, CheckedArguments, accepted
from toolbus.core.ask.approval import Approval, ApprovalPending
from toolbus.core.ask.interactions import PEOPLE, PeopleTime
from toolbus.core.operation.events import CallEnded, CallStarted, Hub, Logged, OnLog, Progressed
from toolbus.core.operation.operation import (
    JOURNAL,
    CallRegister,
    Failure,
    Guard,
    Observation,
    ObservedOperation,
    Observer,
    Operation,
    OperationTenant,
    Route,
    sees_servers,
)
from toolbus.core.operation.phases import timed_station
from toolbus.core.values.errors import (
    ArgumentsError,
    BusClosed,
    CallDenied,
    HookFailed,
    ToolNotFound,
)
from toolbus.core.values.records import TaskState, ToolResult, pending_result

logger = logging.getLogger("toolbus")
T = TypeVar("T")
Next: TypeAlias = Callable[[Operation], Awaitable[ToolResult]]
"""The rest of the path."""
Hook: TypeAlias = Callable[[Operation, Next], Awaitable[ToolResult]]
"""A layer of the user around an operation: sees it, and may change it and its result."""
Run: TypeAlias = Callable[[Operation], Coroutine[Any, Any, ToolResult]]


@dataclass(frozen=True, slots=True)
class Stations:
    """The stations of every operation, in this order."""

    journal: "JournalStation"
    observers: "ObserverStation"
    hooks: "HookStation"
    arguments: ArgumentStation
    guards: "GuardStation"
    policy: "PolicyStation"
    quotas: Callable[[Next], Next]
    routes: "RouteStation"
    is_loaded: bool = True
    """Whether the stations of the config are loaded; until then, an operation waits for the links."""


class JournalStation:
    """In a durable run, records operations: one that was made before returns the recorded result."""

    def lay(self, onward: Run) -> Run:
        """The path from here on."""

        def run(operation: Operation) -> Coroutine[Any, Any, ToolResult]:
            journal = JOURNAL.get()
            return onward(operation) if journal is None else journal.run(operation, onward)

        return run


class ObserverStation:
    """Tells observers of the start, the progress and the end of every operation."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = observers
        self._observers = [one for one in observers if not sees_servers(one)]
        self._at_servers = [one for one in observers if sees_servers(one)]

    @property
    def times_stations(self) -> bool:
        """Whether any of them wants to know what the time is spent on."""
        return any(getattr(one, "times_stations", False) for one in self._observers)

    def lay(self, onward: Next, *, is_hooked: bool) -> Run:
        """The path from here on; `is_hooked`: a hook may have decided the outcome."""
        observers = self._observers

        async def run(operation: Operation) -> ToolResult:
            observed = observe(observers, operation, is_hooked)
            if observed is None:
                operation = accepted(operation)
                return _finished(operation, await onward(operation))
            try:
                # Not a changed copy, which takes longer: nobody but the observers has seen it.
                object.__setattr__(operation, "observed", observed)
                operation = accepted(operation)
                result = _finished(operation, await onward(operation))
            except BaseException as error:
                observed.end(error)
                raise
            observed.end(result)
            return result

        return run

    def lay_last(self, onward: Next) -> Next:
        """The path from here on, of observers that see what servers receive and send."""
        observers = self._at_servers
        if not observers:
            return onward

        async def run(operation: Operation) -> ToolResult:
            outer, operation = operation.observed, replace(operation)
            observed = observe(observers, operation)
            if observed is None:
                return await onward(operation)
            observed.within(outer)
            object.__setattr__(operation, "observed", observed)  # as above
            object.__setattr__(operation, "on_log", observed.following_log(operation.on_log))
            try:
                result = await onward(operation)
            except BaseException as error:
                observed.end(error)
                raise
            observed.end(result)
            return result

        return run

    async def follow(self, operation: Operation, answer: Callable[[], Awaitable[T]]) -> T:
        """Tell observers of a request of a server."""
        observed = observe(self._all, operation)
        object.__setattr__(operation, "observed", observed)  # its own time is what the person takes
        try:
            answered = await answer()
        except BaseException as error:
            if observed is not None:
                observed.end(error)
            raise
        if observed is not None:
            # A question that is put to a person later ends as a suspended call.
            observed.end(answered if isinstance(answered, ToolResult) else ToolResult(value=answered))
        return answered

    def report(self, operation: Operation, failure: Callable[[], Failure]) -> None:
        """Tell observers of an operation that failed before it was run."""
        observed = observe(self._observers, operation)
        found = failure()
        if observed is not None:
            observed.end(found)


class HookStation:
    """The hooks of the user, the first one outermost."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self.hooks = tuple(hooks)

    def lay(self, onward: Next) -> Next:
        """The path from here on."""
        if not self.hooks:
            return onward

        def run(operation: Operation) -> Awaitable[ToolResult]:
            through: Next = partial(_within_hooks, onward, operation.tenant)
            for hook in reversed(self.hooks):
                through = partial(_through_hook, hook, through)
            return through(operation)

        return run


def _through_hook(hook: Hook, inner: Next, operation: Operation) -> Awaitable[ToolResult]:
    return hook(operation, inner)


async def _within_hooks(onward: Next, tenant: OperationTenant | None, operation: Operation) -> ToolResult:
    """Go on within hooks, which may hide how it ended; whose operation it is, they cannot change."""
    if operation.tenant is not tenant:
        operation = replace(operation, tenant=tenant)
    observed = operation.observed
    if observed is None:
        return await onward(operation)
    observed.failure = None
    try:
        result = await onward(operation)
    except BaseException as error:
        observed.failure = failure_of(error) or observed.failure or Failure("server_failed", str(error))
        raise
    if result.is_error and observed.failure is None:
        observed.failure = TOOL_ERROR
    return result


class GuardStation:
    """The guards of the user: each sees an operation exactly as it will be sent, and may refuse it."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._guards = tuple(guards)

    def lay(self, onward: Next) -> Next:
        """The path from here on."""
        if not self._guards:
            return onward

        async def run(operation: Operation) -> ToolResult:
            await self.check(operation)
            return await onward(operation)

        return run

    async def check(self, operation: Operation) -> None:
        """Raise `CallDenied` if a guard refuses an operation."""
        try:
            for guard in self._guards:
                await guard(operation)
        except (CallDenied, ApprovalPending):
            raise
        except Exception as error:
            raise _failed_guard(operation, error) from error


class TenantPolicy(Protocol):
    """Enforces the policy for one tenant."""

    async def __call__(self, operation: Operation, /) -> Approval | None:
        """Admit an operation, or raise `CallDenied` or `ApprovalPending`; returns a person's approval."""
        ...

    def admits(self, operation: Operation, /) -> bool:
        """Whether an operation is admitted at once; otherwise it has to be awaited."""
        ...

    def check_offered(self, operation: Operation, /) -> None:
        """Raise `CallDenied` if an operation is denied regardless of its arguments."""
        ...


class PolicyStation:
    """The last guard: decides by the policy, asks a person if necessary, and records each decision."""

    def __init__(self, policy_of: Callable[[Operation], TenantPolicy] | None) -> None:
        """Without a policy and an audit trail, there is nothing to do."""
        self._policy_of = policy_of

    def lay(self, onward: Next) -> Next:
        """The path from here on."""
        policy_of = self._policy_of
        if policy_of is None:
            return onward

        # A plain function: a coroutine less on the way of every call.
        def run(operation: Operation) -> Awaitable[ToolResult]:
            return onward(operation) if _admits(policy_of(operation), operation) else asked(operation)

        async def asked(operation: Operation) -> ToolResult:
            try:
                approval = await self.check(operation)
            except ApprovalPending as suspended:
                return replace(pending_result(suspended.pending), sent=False)
            result = await onward(operation)
            if approval is not None and result.pending is not None:
                approved = replace(result.pending, approved=approval.call, approved_by=approval.by)
                return replace(result, pending=approved)
            return result

        return run

    async def check(self, operation: Operation) -> Approval | None:
        """Admit an operation, or raise why not; returns the approval of a person, if there was one."""
        if self._policy_of is None:
            return None
        try:
            return await self._policy_of(operation)(operation)
        except (CallDenied, ApprovalPending):
            raise
        except Exception as error:
            raise _failed_guard(operation, error) from error

    def check_offered(self, operation: Operation) -> None:
        """Raise `CallDenied` if the policy denies an operation regardless of its arguments."""
        if self._policy_of is not None:
            self._policy_of(operation).check_offered(operation)


def _admits(policy: TenantPolicy, operation: Operation) -> bool:
    try:
        return policy.admits(operation)
    except CallDenied:
        raise
    except Exception:  # whatever it is, it is raised again, and then refuses the operation
        return False


def _failed_guard(operation: Operation, error: Exception) -> CallDenied:
    """A guard that fails must not admit the operation."""
    return CallDenied(
        f"{operation.route} of {operation.spec.name!r}", f"a guard raised {type(error).__name__}"
    )


class RouteStation:
    """The end of the path: carries an operation to its target, by MCP method."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes

    def run(self, operation: Operation) -> Awaitable[ToolResult]:
        """Carry out an operation."""
        return self._routes[operation.spec.route](operation)


class CallPath:
    """Runs operations; independent of servers and the catalog."""

    run: Run
    """Run an operation; raises `ToolbusError` if that was not possible."""

    def __init__(self, stations: Callable[[], Stations]) -> None:
        """`stations` lists them; it is called again by `lay`."""
        self._list = stations
        self._laying = Lock()
        self.lay()

    def lay(self) -> None:
        """Lay the path through the stations of now; operations that are on their way stay on theirs."""
        with self._laying:  # from several threads: the path that stays is the one that was listed last
            stations = self._stations = self._list()
            timed = timed_station if stations.observers.times_stations else _untimed
            end = timed("connection", stations.observers.lay_last(stations.routes.run), None)
            end = timed("policy", stations.policy.lay(stations.quotas(end)), end)
            end = timed("guards", stations.guards.lay(end), end)
            end = timed("arguments", stations.arguments.lay(end, stations.policy.check_offered), end)
            end = timed("hooks", stations.hooks.lay(end), end)
            end = stations.observers.lay(end, is_hooked=bool(stations.hooks.hooks))
            self.run = stations.journal.lay(end) if stations.is_loaded else self._run_later

    async def _run_later(self, operation: Operation) -> ToolResult:
        """Run an operation that came before the stations of the config; it has waited for the links since."""
        if not self._stations.is_loaded:
            raise BusClosed()
        return await self.run(operation)

    async def admit(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
        """Answer a request of a server, with its observers and guards."""
        stations = self._stations

        async def admitted() -> T:
            await stations.guards.check(operation)
            await stations.policy.check(operation)
            return await answer()

        return await stations.observers.follow(operation, admitted)

    def report(self, operation: Operation, failure: Failure, *, is_denied: bool = False) -> None:
        """Report an operation to the observers that failed before it was run; `is_denied` by the policy."""
        stations = self._stations

        def found() -> Failure:
            try:
                if is_denied:
                    stations.policy.check_offered(operation)
            except CallDenied as refusal:
                return failure_of(refusal) or failure
            return failure

        stations.observers.report(operation, found)

    def prepared(self, operation: Operation) -> Operation | None:
        """The operation as it would be sent without hooks; None if its arguments are wrong."""
        return self._stations.arguments.prepared(operation)

    def checked(self, operation: Operation) -> CheckedArguments:
        """The arguments as they would be sent without hooks, or their mistakes."""
        operation = accepted(operation)
        found = self._stations.arguments.checked(operation)
        return CheckedArguments(arguments=operation.arguments) if found is None else found


def _untimed(phase: str, laid: Next, onward: Next | None) -> Next:
    return laid


def _finished(operation: Operation, result: ToolResult) -> ToolResult:
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance]  # a hook may return anything
        raise TypeError(f"a hook returned {type(result).__name__}, not a ToolResult")
    if result.pending is not None:
        # The original arguments: hooks and overrides apply to them again on resume.
        return replace(result, pending=replace(result.pending, arguments=dict(operation.arguments)))
    return replace(result, tool=operation.spec.name) if result.is_error else result


# Observers

TOOL_ERROR = Failure("tool_error")
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

        self._outer: ObservedOperation | None = None

    def within(self, outer: ObservedOperation | None) -> None:
        """Share the progress with the outer observers of the same operation."""
        self._outer = outer
        if outer is not None:
            self.people = outer.people

    @property
    def follows_progress(self) -> bool:
        """Whether any of them follows progress."""
        for one in self._all:
            if not getattr(one, "ignores_progress", False):
                return True
        return self._outer is not None and self._outer.follows_progress

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        for one in self._all:
            _safely(lambda one=one: one.progress(progress, total, message))
        if self._outer is not None:
            self._outer.progress(progress, total, message)

    def task(self, state: TaskState) -> None:
        """The call became a task, or its task was polled."""
        for one in self._all:
            if (tell := getattr(one, "task", None)) is not None:
                _safely(lambda tell=tell: tell(state))

    def following_log(self, on_log: OnLog | None) -> OnLog:
        """Pass a log message to the observers, and then to the caller."""
        tell = [told for one in self._all if (told := getattr(one, "log", None)) is not None]

        def log(event: Logged) -> Awaitable[None] | None:
            for one in tell:
                _safely(lambda one=one: one(event))
            return None if on_log is None else on_log(event)

        return log

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


class EventObserver:
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
        case CallDenied() | HookFailed():
            return Failure("refused", str(error))
        case ToolNotFound():
            return Failure("unknown_tool", str(error))
        case _:
            return None
