"""Check structured tool output against the tool's output schema; compiled when first needed."""

from functools import cached_property

from toolbus.schema.validator import InvalidSchema, Validator
from toolbus.schema.values import JSON, JSONObject


class OutputCheck:
    """The check of one tool's output."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._warned = False

    @cached_property
    def _validator(self) -> Validator | str:
        try:
            return Validator(self._schema)
        except InvalidSchema as error:
            return str(error)

    def problem(self, output: JSON) -> str | None:
        """What to warn about, in one line; None if the output is valid."""
        if output is None:
            return "the output does not match its schema: there is no structured content"
        if isinstance(self._validator, str):
            return self._unchecked(f"its schema cannot be used: {self._validator}")
        is_valid = self._validator.accepts(output)
        if is_valid is None:
            return self._unchecked("it is too large or too deep for its schema, or has odd numbers")
        if is_valid:
            return None
        fault = self._validator.explanation(output) or "it is not valid"
        return f"the output does not match its schema: {fault}"

    def _unchecked(self, reason: str) -> str | None:
        """The warning about output that was not checked: once, because it says little about one call."""
        warned, self._warned = self._warned, True
        return None if warned else f"the output is not checked: {reason}"
