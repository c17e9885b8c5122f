"""Check arguments before they are sent: valid ones pass untouched, mistakes are repaired or described.

The code that validates and repairs is imported with the first call, because a catalog does not need it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from toolbus.schema.values import JSON, JSONObject, is_larger, is_object, json_copy

if TYPE_CHECKING:
    from toolbus.schema.validator import Validator

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
    """Why they could not be checked."""
    problem: str | None = None
    """A mistake that cannot be repaired, for the model: which argument, the expected value, an example."""


class ArgumentCheck:
    """The check of one tool's arguments, to be reused; compiled when first needed. Never raises."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema: JSON = schema
        self._flaw: str | None = None

    @property
    def flaw(self) -> str | None:
        """Why arguments cannot be checked, unless that was reported when the schema was listed."""
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
    from toolbus.call.arguments.problem import described_problem
    from toolbus.call.arguments.repairer import Repairer

    repaired = Repairer(validator).repaired(given)
    if repaired.is_valid and is_object(repaired.value):
        return CheckedArguments(arguments=repaired.value, repairs=_shortened(repaired.notes))
    nearest = repaired.value if is_object(repaired.value) else given
    return CheckedArguments(arguments=arguments, problem=described_problem(validator, nearest, given))


def _shortened(notes: tuple[str, ...]) -> tuple[str, ...]:
    more = len(notes) - _MOST_REPAIRS
    return notes if more <= 0 else (*notes[:_MOST_REPAIRS], f"and {more} more")
