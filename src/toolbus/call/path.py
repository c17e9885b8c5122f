"""The call path: stations that every operation passes, in order, down to its route and back.

A station lays itself around the rest of the path. One that has nothing to do lays nothing, so that it costs
calls nothing. `bus/stations.py` lists the stations of a bus.
"""

from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from toolbus.call.arguments import ArgumentCheck, CheckedArguments
from toolbus.call.observe import INVALID, TOOL_ERROR, failure_of, observe
from toolbus.core.ask.approval import Approval, ApprovalPending
from toolbus.core.operation.journal import JOURNAL
from toolbus.core.operation.operation import Failure, Guard, Observer, Operation, OperationTenant, Route
from toolbus.core.values.errors import ArgumentsError, CallRefused
from toolbus.core.values.records import JSONObject, ToolResult
from toolbus.shape.trim import described_schema

T = TypeVar("T")
Next: TypeAlias = Callable[[Operation], Awaitable[ToolResult]]
"""The rest of the path."""
Hook: TypeAlias = Callable[[Operation, Next], Awaitable[ToolResult]]
"""A layer of the user around an operation: sees it, and may change it and its result."""
Run: TypeAlias = Callable[[Operation], Coroutine[Any, Any, ToolResult]]


@dataclass(frozen=True, slots=True)
class Stations:
    """What every operation passes, in this order."""

    journal: "JournalStation"
    observers: "ObserverStation"
    hooks: "HookStation"
    arguments: "ArgumentStation"
    guards: "GuardStation"
    policy: "PolicyStation"
    routes: "RouteStation"


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
        self._observers = observers

    def lay(self, onward: Next, *, is_hooked: bool) -> Run:
        """The path from here on; `is_hooked`: an outcome may be that of a hook."""
        observers = self._observers

        async def run(operation: Operation) -> ToolResult:
            observed = observe(observers, operation, is_hooked)
            if observed is None:
                operation = _accepted(operation)
                return _finished(operation, await onward(operation))
            try:
                # Not a changed copy, which takes longer: nobody but the observers has seen it.
                object.__setattr__(operation, "observed", observed)
                operation = _accepted(operation)
                result = _finished(operation, await onward(operation))
            except BaseException as error:
                observed.end(error)
                raise
            observed.end(result)
            return result

        return run

    async def follow(self, operation: Operation, answer: Callable[[], Awaitable[T]]) -> T:
        """Tell observers of a request of a server."""
        observed = observe(self._observers, operation)
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
        """Raise `CallRefused` if a guard refuses an operation."""
        try:
            for guard in self._guards:
                await guard(operation)
        except (CallRefused, ApprovalPending):
            raise
        except Exception as error:
            raise _failed_guard(operation, error) from error


class TenantPolicy(Protocol):
    """Enforces the policy for one tenant."""

    async def __call__(self, operation: Operation, /) -> Approval | None:
        """Admit an operation, or raise `CallRefused` or `ApprovalPending`; returns a person's approval."""
        ...

    def admits(self, operation: Operation, /) -> bool:
        """Whether an operation is admitted at once; otherwise it has to be awaited."""
        ...

    def check_offered(self, operation: Operation, /) -> None:
        """Raise `CallRefused` if an operation is denied regardless of its arguments."""
        ...


class PolicyStation:
    """The last guard: decides by the policy, asks a person if need be, and records each decision."""

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
                return ToolResult.from_pending(suspended.pending)
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
        except (CallRefused, ApprovalPending):
            raise
        except Exception as error:
            raise _failed_guard(operation, error) from error

    def check_offered(self, operation: Operation) -> None:
        """Raise `CallRefused` if the policy denies an operation regardless of its arguments."""
        if self._policy_of is not None:
            self._policy_of(operation).check_offered(operation)


def _admits(policy: TenantPolicy, operation: Operation) -> bool:
    try:
        return policy.admits(operation)
    except CallRefused:
        raise
    except Exception:  # whatever it is, it is raised again, and then refuses the operation
        return False


def _failed_guard(operation: Operation, error: Exception) -> CallRefused:
    """A guard that fails must not admit the operation."""
    return CallRefused(
        f"{operation.route} of {operation.spec.name!r}", f"a guard raised {type(error).__name__}"
    )


class RouteStation:
    """The end of the path: carries an operation to its target, by MCP method."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes

    def run(self, operation: Operation) -> Awaitable[ToolResult]:
        """Carry out an operation."""
        return self._routes[operation.spec.route](operation)


_MOST_CHECKS = 50_000
"""Tools whose compiled checks are kept."""


class ArgumentStation:
    """Checks arguments against the schemas of the tool, repairs slips, and describes the other mistakes."""

    def __init__(self, repairing: Container[str]) -> None:
        """`repairing` are the servers whose arguments are checked and repaired."""
        self._repairing = repairing
        self._checks: dict[int, ArgumentCheck] = {}
        """By the identity of the schema, which the check keeps alive: schemas are shared by many catalogs."""

    def lay(self, onward: Next, check_offered: Callable[[Operation], None]) -> Next:
        """The path from here on; `check_offered` refuses what is denied, whatever its arguments are."""

        def run(operation: Operation) -> Awaitable[ToolResult]:
            checked = self.checked(operation)
            return onward(operation) if checked is None else changed(operation, checked)

        async def changed(operation: Operation, checked: CheckedArguments) -> ToolResult:
            if checked.problem is not None:
                check_offered(operation)
                if operation.observed is not None:
                    operation.observed.failure = INVALID
                known = described_schema(operation.spec) if operation.is_unlisted else ""
                return ToolResult.failure(checked.problem + known)
            if checked.arguments is not operation.arguments:
                operation = replace(operation, arguments=checked.arguments)
            result = await onward(operation)
            if not checked.repairs or (result.pending is not None and result.pending.call is not None):
                return result  # of a call that waits for approval, nothing was sent yet
            return result.with_notes(repaired=list(checked.repairs))

        return run

    def prepared(self, operation: Operation) -> Operation | None:
        """The operation as it would be sent without hooks; None if its arguments are wrong."""
        try:
            operation = _accepted(operation)
        except ArgumentsError:
            return None
        checked = self.checked(operation)
        if checked is None:
            return operation
        return None if checked.problem is not None else replace(operation, arguments=checked.arguments)

    def checked(self, operation: Operation) -> CheckedArguments | None:
        """The server's arguments, checked and repaired; None if they can be sent as they are.

        A problem is described for a model.
        """
        spec, arguments = operation.spec, operation.arguments
        is_mapped = bool(spec.maps) or spec.server_schema is not None
        if spec.route != "tools/call":
            return self._check_both_schemas(operation) if spec.input_schema else None
        if spec.origin.server not in self._repairing:
            return CheckedArguments(arguments=spec.to_server(arguments)) if spec.maps else None
        if not is_mapped and self._check_of(spec.input_schema, operation).accepts(arguments):
            return None
        checked = self._check_both_schemas(operation)
        if checked.problem is None:
            return checked
        return replace(
            checked, problem=f"wrong arguments for {spec.name!r}, nothing was sent: {checked.problem}"
        )

    def _check_both_schemas(self, operation: Operation) -> CheckedArguments:
        """Check the model's schema, and then the server's if it differs."""
        spec = operation.spec
        first = self._checked(spec.input_schema, operation, operation.arguments)
        if first.problem is not None or (not spec.maps and spec.server_schema is None):
            return first
        schema = spec.input_schema if spec.server_schema is None else spec.server_schema
        last = self._checked(schema, operation, spec.to_server(first.arguments))
        return replace(last, repairs=first.repairs + last.repairs)

    def _checked(
        self, schema: JSONObject, operation: Operation, arguments: Mapping[str, Any]
    ) -> CheckedArguments:
        checked = self._check_of(schema, operation).checked(arguments)
        if checked.unchecked is not None:
            _warn_unchecked(operation, checked.unchecked)
        return checked

    def _check_of(self, schema: JSONObject, operation: Operation) -> ArgumentCheck:
        check = self._checks.get(id(schema))
        if check is None:
            check = ArgumentCheck(schema)
            if check.flaw is not None:
                _warn_unchecked(operation, check.flaw)
            if len(self._checks) >= _MOST_CHECKS:
                self._checks.clear()
            self._checks[id(schema)] = check
        return check


def _warn_unchecked(operation: Operation, reason: str) -> None:
    origin = operation.spec.origin
    if operation.tenant is not None:
        operation.tenant.warn(origin.server, origin.tool, f"its arguments are not checked: {reason}")


class CallPath:
    """Runs operations; independent of servers and the catalog."""

    run: Run
    """Run an operation; raises `ToolbusError` if that was not possible."""

    def __init__(self, stations: Callable[[], Stations]) -> None:
        """`stations` lists them; it is called again by `lay`."""
        self._list = stations
        self.lay()

    def lay(self) -> None:
        """Lay the path through the stations of now; operations that are on their way stay on theirs."""
        stations = self._stations = self._list()
        end = stations.policy.lay(stations.routes.run)
        end = stations.arguments.lay(stations.guards.lay(end), stations.policy.check_offered)
        end = stations.hooks.lay(end)
        end = stations.observers.lay(end, is_hooked=bool(stations.hooks.hooks))
        self.run = stations.journal.lay(end)

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
            except CallRefused as refusal:
                return failure_of(refusal) or failure
            return failure

        stations.observers.report(operation, found)

    def prepared(self, operation: Operation) -> Operation | None:
        """The operation as it would be sent without hooks; None if its arguments are wrong."""
        return self._stations.arguments.prepared(operation)


def _accepted(operation: Operation) -> Operation:
    """The operation with the arguments that hooks see; `ArgumentsError` if they cannot be any."""
    spec, arguments = operation.spec, operation.arguments
    if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        kind = type(arguments).__name__
        raise ArgumentsError(f"tool {spec.name!r}", f"must be a mapping of names to values, not {kind}")
    for key in arguments:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
            raise ArgumentsError(f"tool {spec.name!r}", f"names must be strings, not {key!r}")
    return _with_restored(operation) if spec.definitions else operation


def _with_restored(operation: Operation) -> Operation:
    """The operation without the names and nulls that a dialect added."""
    from toolbus.shape import restored

    return replace(operation, arguments=restored(operation.spec, operation.arguments))


def _finished(operation: Operation, result: ToolResult) -> ToolResult:
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance]  # a hook may return anything
        raise TypeError(f"a hook returned {type(result).__name__}, not a ToolResult")
    if result.pending is not None:
        # The original arguments: hooks and overrides apply to them again on resume.
        return replace(result, pending=replace(result.pending, arguments=dict(operation.arguments)))
    return replace(result, tool=operation.spec.name) if result.is_error else result
