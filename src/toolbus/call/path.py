"""The one path of an operation: observe, hooks, arguments, guard, route."""

from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from toolbus.call.arguments import ArgumentCheck, CheckedArguments
from toolbus.call.hooks import Hook, wrap
from toolbus.call.observe import INVALID, TOOL_ERROR, failure_of, observe
from toolbus.call.results import Warn
from toolbus.core.ask.approval import Approval, ApprovalPending
from toolbus.core.operation.operation import (
    JOURNAL,
    Failure,
    Guard,
    ObservedOperation,
    Observer,
    Operation,
    Route,
)
from toolbus.core.values.errors import ArgumentsError, CallRefused
from toolbus.core.values.records import JSONObject, Origin, ToolResult, ToolSpec
from toolbus.shape.trim import described_schema

T = TypeVar("T")


class PolicyStation(Protocol):
    """The last guard: enforces the policy."""

    async def __call__(self, operation: Operation, /) -> Approval | None:
        """Admit an operation, or raise `CallRefused` or `ApprovalPending`; returns a person's approval."""
        ...

    def admits(self, operation: Operation, /) -> bool:
        """Whether an operation is admitted at once; otherwise it has to be awaited."""
        ...

    def check_offered(self, operation: Operation, /) -> None:
        """Raise `CallRefused` if an operation is denied regardless of its arguments."""
        ...


class CallPath:
    """Runs operations; independent of servers and the catalog."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        repairing: Container[str],
        observers: Sequence[Observer],
        hooks: Sequence[Hook] = (),
        guards: Sequence[Guard] = (),
        warn: Warn | None = None,
        base: "Callable[[], CallPath | None]" = lambda: None,
    ) -> None:
        """`repairing` are the servers whose arguments are checked and repaired; `warn` if they cannot be.

        `base` returns the path of another engine with the same catalog, whose checks are used.
        """
        self._warn = warn
        self._base = base
        self._routes = routes
        self._repairing = repairing
        self._observers = observers
        self._own_observers = observers
        self._guards = guards
        self._policy: PolicyStation | None = None
        self._guarded = bool(guards)
        self._checks: dict[tuple[str, str, bool], tuple[JSONObject, ArgumentCheck]] = {}
        self._is_hooked = bool(hooks)
        self._through_hooks = wrap(hooks, self._run_inner)

    def use_policy(self, policy: "PolicyStation | None", observers: Sequence[Observer] = ()) -> None:
        """Enforce a policy after all guards, if there is one; these observers also follow every operation."""
        self._policy = policy
        self._guarded = policy is not None or bool(self._guards)
        self._observers = [*self._own_observers, *observers]

    def run(self, operation: Operation) -> Coroutine[Any, Any, ToolResult]:
        """Run an operation; raises `ToolbusError` if that was not possible.

        In a durable run, its journal runs it, or returns the recorded result.
        """
        journal = JOURNAL.get()
        return self._run(operation) if journal is None else journal.run(operation, self._run)

    async def _run(self, operation: Operation) -> ToolResult:
        observed = observe(self._observers, operation, self._is_hooked)
        if observed is None:
            operation = _accepted(operation)
            return _finished(operation, await self._through_hooks(operation))
        try:
            # Not a changed copy, which takes longer: nobody but the observers has seen it.
            object.__setattr__(operation, "observed", observed)
            operation = _accepted(operation)
            result = _finished(operation, await self._through_hooks(operation))
        except BaseException as error:
            observed.end(error)
            raise
        observed.end(result)
        return result

    async def admit(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
        """Answer a request of a server, with its observers and guards."""
        observed = observe(self._observers, operation)
        object.__setattr__(operation, "observed", observed)  # its own time is what the person takes
        try:
            await self._guard(operation)
            answered = await answer()
        except BaseException as error:
            if observed is not None:
                observed.end(error)
            raise
        if observed is not None:
            # A question that is put to a person later ends as a suspended call.
            observed.end(answered if isinstance(answered, ToolResult) else ToolResult(value=answered))
        return answered

    def report(self, operation: Operation, failure: Failure, *, is_denied: bool = False) -> None:
        """Report an operation to the observers that failed before it was run; `is_denied` by the policy."""
        observed = observe(self._observers, operation)
        try:
            if is_denied:
                self._check_offered(operation)
        except CallRefused as refusal:
            failure = failure_of(refusal) or failure
        if observed is not None:
            observed.end(failure)

    def prepared(self, operation: Operation) -> Operation | None:
        """The operation as it would be sent without hooks; None if its arguments are wrong."""
        try:
            operation = _accepted(operation)
        except ArgumentsError:
            return None
        checked = self._prepare(operation)
        if checked is None:
            return operation
        return None if checked.problem is not None else replace(operation, arguments=checked.arguments)

    # Plain functions, here and below: a coroutine less on the way of every call.
    def _run_inner(self, operation: Operation) -> Awaitable[ToolResult]:
        """Run the part inside the hooks: arguments, guards, route."""
        observed = operation.observed
        if observed is None or not self._is_hooked:
            return self._send(operation)
        return self._send_observed(operation, observed)

    async def _send_observed(self, operation: Operation, observed: ObservedOperation) -> ToolResult:
        """Send within hooks, which may hide how it ended."""
        observed.failure = None
        try:
            result = await self._send(operation)
        except BaseException as error:
            observed.failure = failure_of(error) or observed.failure or Failure("server_failed", str(error))
            raise
        if result.is_error and observed.failure is None:
            observed.failure = TOOL_ERROR
        return result

    def _send(self, operation: Operation) -> Awaitable[ToolResult]:
        checked = self._prepare(operation)
        if checked is None and (not self._guarded or self._admits(operation)):
            return self._routes[operation.spec.route](operation)
        return self._send_checked(operation, checked or CheckedArguments(arguments=operation.arguments))

    async def _send_checked(self, operation: Operation, checked: CheckedArguments) -> ToolResult:
        if checked.problem is not None:
            self._check_offered(operation)
            if operation.observed is not None:
                operation.observed.failure = INVALID
            known = described_schema(operation.spec) if operation.is_unlisted else ""
            return ToolResult.failure(checked.problem + known)
        if checked.arguments is not operation.arguments:
            operation = replace(operation, arguments=checked.arguments)
        try:
            approval = await self._guard(operation)
        except ApprovalPending as suspended:
            return ToolResult.from_pending(suspended.pending)
        result = await self._routes[operation.spec.route](operation)
        if approval is not None and result.pending is not None:
            approved = replace(result.pending, approved=approval.call, approved_by=approval.by)
            result = replace(result, pending=approved)
        return result.with_notes(repaired=list(checked.repairs)) if checked.repairs else result

    def _admits(self, operation: Operation) -> bool:
        """Whether an operation is admitted at once: there is only the policy, and it asks nobody."""
        if self._guards or self._policy is None:
            return False
        try:
            return self._policy.admits(operation)
        except CallRefused:
            raise
        except Exception:  # whatever it is, it is raised again, and then refuses the operation
            return False

    def _check_offered(self, operation: Operation) -> None:
        """Raise `CallRefused` if the policy denies an operation regardless of its arguments."""
        if self._policy is not None:
            self._policy.check_offered(operation)

    async def _guard(self, operation: Operation) -> Approval | None:
        """Admit an operation; returns the approval of a person, if there was one."""
        try:
            for guard in self._guards:
                await guard(operation)
            return None if self._policy is None else await self._policy(operation)
        except (CallRefused, ApprovalPending):
            raise
        except Exception as error:
            # A guard that fails must not admit the operation.
            reason = f"a guard raised {type(error).__name__}"
            raise CallRefused(f"{operation.route} of {operation.spec.name!r}", reason) from error

    # Arguments

    def _prepare(self, operation: Operation) -> CheckedArguments | None:
        """The server's arguments, checked and repaired; None if they can be sent as they are.

        A problem is described for a model.
        """
        spec, arguments = operation.spec, operation.arguments
        is_mapped = bool(spec.maps) or spec.server_schema is not None
        if spec.route != "tools/call":
            return self._check_both_schemas(spec, arguments) if spec.input_schema else None
        if spec.origin.server not in self._repairing:
            return CheckedArguments(arguments=spec.to_server(arguments)) if spec.maps else None
        if not is_mapped and self._check_of(spec.input_schema, spec.origin).accepts(arguments):
            return None
        checked = self._check_both_schemas(spec, arguments)
        if checked.problem is None:
            return checked
        return replace(
            checked, problem=f"wrong arguments for {spec.name!r}, nothing was sent: {checked.problem}"
        )

    def _check_both_schemas(self, spec: ToolSpec, arguments: JSONObject) -> CheckedArguments:
        """Check the model's schema, and then the server's if it differs."""
        first = self._check_of(spec.input_schema, spec.origin).checked(arguments)
        if first.problem is not None or (not spec.maps and spec.server_schema is None):
            return first
        schema = spec.input_schema if spec.server_schema is None else spec.server_schema
        check = self._check_of(schema, spec.origin, of_server=True)
        last = check.checked(spec.to_server(first.arguments))
        return replace(last, repairs=first.repairs + last.repairs)

    def _check_of(self, schema: JSONObject, origin: Origin, *, of_server: bool = False) -> ArgumentCheck:
        key = origin.server, origin.tool, of_server  # not the origin itself, whose hash is slow
        known, check = self._checks.get(key, (None, None))
        if check is None or known is not schema:
            base = self._base()
            if base is not None:
                check = base._check_of(schema, origin, of_server=of_server)
            else:
                warn = None if self._warn is None else partial(self._warn, origin.server, origin.tool)
                check = ArgumentCheck(schema, warn)
            self._checks[key] = schema, check
        return check


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
