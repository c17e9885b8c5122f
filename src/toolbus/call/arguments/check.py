"""Check arguments before they are sent: valid ones pass untouched, mistakes are repaired or described.

The code that validates and repairs is imported with the first call, because a catalog does not need it.
"""

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from toolbus.core.operation.operation import Failure, Operation, Route
from toolbus.core.values.errors import ArgumentsError
from toolbus.core.values.records import ToolResult, with_notes
from toolbus.schema.values import JSON, JSONObject, is_larger, is_object, json_copy
from toolbus.shape.trim import described_schema

if TYPE_CHECKING:
    from toolbus.schema.validator import Validator

INVALID = Failure("invalid_arguments", "wrong arguments; nothing was sent")
_MOST_REPAIRS = 20
_MOST_VALUES = 500
"""More than these are not repaired, nor is the problem described."""
_TOO_LARGE = "they are too large or too deep for its schema"
_MISMATCH = "they do not match its schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedArguments:
    """Arguments that can be sent, or the problem that prevents it."""

    arguments: Mapping[str, JSON]
    """The object that was passed in, unless something was repaired."""
    repairs: tuple[str, ...] = ()
    """One sentence for each repair: `limit: '5' became 5`."""
    unchecked: str | None = field(default=None, compare=False)
    """The reason if they could not be checked."""
    problem: str | None = None
    """A mistake that cannot be repaired, for the model: which argument, the expected value, an example."""
    places: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """The same by the place of each mistake, such as `filter.limit`; only the first are worded."""


class ArgumentCheck:
    """The check of one tool's arguments, to be reused; compiled when first needed. Never raises."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema: JSON = schema
        self._flaw: str | None = None

    @property
    def flaw(self) -> str | None:
        """The reason if arguments cannot be checked and the listing did not report that."""
        _ = self._validator
        return self._flaw

    @cached_property
    def _validator(self) -> "Validator | None":
        from toolbus.schema.validator import InvalidSchema, TooCostly, Validator

        try:
            return Validator(self._schema)
        except InvalidSchema as error:
            # One that is plainly wrong was reported when it was listed.
            if isinstance(error, TooCostly):
                self._flaw = f"its schema cannot be used: {error}"
            return None

    def accepts(self, arguments: Mapping[str, JSON]) -> bool:
        """Whether the arguments are valid, or the schema cannot be checked."""
        return (validator := self._validator) is None or validator.accepts(arguments) is True

    def checked(self, arguments: Mapping[str, JSON]) -> CheckedArguments:
        """The arguments, repaired if needed; unchanged if they or the schema cannot be checked."""
        validator = self._validator
        is_valid = True if validator is None else validator.accepts(arguments)
        if validator is None or is_valid:
            return CheckedArguments(arguments=arguments)
        if is_larger(arguments, _MOST_VALUES):
            if is_valid is None:
                return CheckedArguments(arguments=arguments, unchecked=_TOO_LARGE)
            return CheckedArguments(arguments=arguments, problem=_MISMATCH)
        try:
            given = json_copy(arguments)
        except ValueError:  # not JSON, or nested too deeply: the server decides
            return CheckedArguments(arguments=arguments)
        if (is_valid := validator.accepts(given)) is not False:
            return CheckedArguments(arguments=arguments, unchecked=_TOO_LARGE if is_valid is None else None)
        if validator.is_large:
            reason = validator.first_fault(given) or "the reason is unknown"
            return CheckedArguments(arguments=arguments, problem=f"{_MISMATCH}: {reason:.500}")
        return _repaired(validator, arguments, given)


def _repaired(
    validator: "Validator", arguments: Mapping[str, JSON], given: dict[str, JSON]
) -> CheckedArguments:
    from toolbus.call.arguments.problem import described_problem, problems_by_place
    from toolbus.call.arguments.repairer import Repairer

    repaired = Repairer(validator).repaired(given)
    if repaired.is_valid and is_object(repaired.value):
        return CheckedArguments(arguments=repaired.value, repairs=_shortened(repaired.notes))
    nearest = repaired.value if is_object(repaired.value) else given
    places = problems_by_place(validator, nearest, given)
    return CheckedArguments(arguments=arguments, problem=described_problem(places), places=places)


def _shortened(notes: tuple[str, ...]) -> tuple[str, ...]:
    more = len(notes) - _MOST_REPAIRS
    return notes if more <= 0 else (*notes[:_MOST_REPAIRS], f"and {more} more")


_MOST_CHECKS = 50_000
"""Tools whose compiled checks are kept."""


class ArgumentStation:
    """Checks arguments against the schemas of the tool, repairs slips, and describes the other mistakes."""

    def __init__(self, repairing: Container[str]) -> None:
        """`repairing` are the servers whose arguments are checked and repaired."""
        self._repairing = repairing
        self._checks: dict[int, ArgumentCheck] = {}
        """By the identity of the schema, which the check keeps alive: schemas are shared by many catalogs."""

    def lay(self, onward: Route, check_offered: Callable[[Operation], None]) -> Route:
        """The path from here on; `check_offered` raises for a tool that is denied as a whole."""

        def run(operation: Operation) -> Awaitable[ToolResult]:
            checked = self.checked(operation)
            return onward(operation) if checked is None else changed(operation, checked)

        async def changed(operation: Operation, checked: CheckedArguments) -> ToolResult:
            if checked.problem is not None:
                check_offered(operation)
                if operation.observed is not None:
                    operation.observed.failure = INVALID
                known = described_schema(operation.spec) if operation.is_unlisted else ""
                return ToolResult.failure(checked.problem + known, sent=False)
            if checked.arguments is not operation.arguments:
                operation = replace(operation, arguments=checked.arguments)
            result = await onward(operation)
            if not checked.repairs or (result.pending is not None and result.pending.call is not None):
                return result  # of a call that waits for approval, nothing was sent yet
            return with_notes(result, repaired=list(checked.repairs))

        return run

    def prepared(self, operation: Operation) -> Operation | None:
        """The operation as it would be sent without hooks; None if its arguments are wrong."""
        try:
            operation = accepted(operation)
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
        if not is_mapped:
            check = self._checks.get(id(spec.input_schema)) or self._check_of(spec.input_schema, operation)
            if check.accepts(arguments):
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
        self, schema: JSONObject, operation: Operation, arguments: Mapping[str, JSON]
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


def accepted(operation: Operation) -> Operation:
    """The operation with the arguments that hooks see; `ArgumentsError` if they cannot be any."""
    spec, arguments = operation.spec, operation.arguments
    # First the type of nearly all of them: asking an abstract class takes longer than all the rest.
    if arguments.__class__ is not dict and not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        kind = type(arguments).__name__
        raise ArgumentsError(f"tool {spec.name!r}", f"must be a mapping of names to values, not {kind}")
    for key in arguments:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
            raise ArgumentsError(f"tool {spec.name!r}", f"names must be strings, not {key!r}")
    return _with_restored(operation) if spec.definitions else operation


def _with_restored(operation: Operation) -> Operation:
    """The operation without the names and nulls that a dialect added."""
    from toolbus.shape.dialects import restored

    return replace(operation, arguments=restored(operation.spec, operation.arguments))
