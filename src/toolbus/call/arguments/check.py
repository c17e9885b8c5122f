"""Check arguments before they are sent: valid ones pass untouched, mistakes are repaired or described.

The code that validates and repairs is imported with the first call, because a catalog does not need it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
class Checked:
    """Arguments that can be sent, or the problem that prevents it."""

    arguments: Mapping[str, JSON]
    """The object that was passed in, unless something was repaired."""
    repairs: tuple[str, ...] = ()
    """One sentence for each repair: `limit: '5' became 5`."""
    problem: str | None = None
    """A mistake that cannot be repaired, for the model: which argument, the expected value, an example."""


class ArgumentCheck:
    """The check of one tool's arguments, to be reused; compiled when first needed. Never raises."""

    def __init__(self, schema: JSONObject, warn: Callable[[str], None] | None = None) -> None:
        """`warn` is called if the arguments cannot be checked."""
        self._schema: JSON = schema
        self._warn = warn

    @cached_property
    def _validator(self) -> "Validator | None":
        from toolbus.schema.validator import InvalidSchema, TooCostly, Validator

        try:
            return Validator(self._schema)
        except InvalidSchema as error:
            # One that is plainly wrong was reported when it was listed.
            if isinstance(error, TooCostly):
                self._report_unchecked(f"its schema cannot be used: {error}")
            return None

    def _report_unchecked(self, reason: str) -> None:
        if self._warn is not None:
            self._warn(f"its arguments are not checked: {reason}")

    def accepts(self, arguments: Mapping[str, JSON]) -> bool:
        """Whether the arguments are valid, or the schema cannot be checked."""
        return (validator := self._validator) is None or validator.accepts(arguments) is True

    def checked(self, arguments: Mapping[str, JSON]) -> Checked:
        """The arguments, repaired if needed; unchanged if they or the schema cannot be checked."""
        validator = self._validator
        is_valid = True if validator is None else validator.accepts(arguments)
        if validator is None or is_valid:
            return Checked(arguments=arguments)
        if is_larger(arguments, _MOST_VALUES):
            if is_valid is None:
                self._report_unchecked(_TOO_LARGE)
            return Checked(arguments=arguments, problem=None if is_valid is None else _MISMATCH)
        try:
            given = json_copy(arguments)
        except ValueError:  # not JSON, or nested too deeply: the server decides
            return Checked(arguments=arguments)
        if (is_valid := validator.accepts(given)) is not False:
            if is_valid is None:
                self._report_unchecked(_TOO_LARGE)
            return Checked(arguments=arguments)
        if validator.is_large:
            reason = validator.first_fault(given) or "the reason is unknown"
            return Checked(arguments=arguments, problem=f"{_MISMATCH}: {reason:.500}")
        return _repaired(validator, arguments, given)


def _repaired(validator: "Validator", arguments: Mapping[str, JSON], given: dict[str, JSON]) -> Checked:
    from toolbus.call.arguments.problem import described_problem
    from toolbus.call.arguments.repairer import Repairer

    repaired = Repairer(validator).repaired(given)
    if repaired.is_valid and is_object(repaired.value):
        return Checked(arguments=repaired.value, repairs=_shortened(repaired.notes))
    nearest = repaired.value if is_object(repaired.value) else given
    return Checked(arguments=arguments, problem=described_problem(validator, nearest, given))


def _shortened(notes: tuple[str, ...]) -> tuple[str, ...]:
    more = len(notes) - _MOST_REPAIRS
    return notes if more <= 0 else (*notes[:_MOST_REPAIRS], f"and {more} more")
