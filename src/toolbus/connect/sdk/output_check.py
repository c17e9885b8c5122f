"""Check structured tool output against the tool's output schema; compiled when first needed."""

from functools import cached_property

from toolbus.schema.validator import InvalidSchema, Validator
from toolbus.schema.values import JSON, JSONObject


class OutputCheck:
    """The check of one tool's output."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema

    @cached_property
    def _validator(self) -> Validator | str:
        """The validator, or why there is none."""
        try:
            return Validator(self._schema)
        except InvalidSchema as error:
            return str(error)

    def fault(self, output: JSON) -> str | None:
        """What is wrong with the output, in one line; None if nothing is, or it cannot be checked."""
        if output is None:
            return "there is no structured content"
        if isinstance(self._validator, str):
            return f"the schema itself is invalid: {self._validator}"
        if self._validator.accepts(output) is not False:
            return None
        if self._validator.is_large:
            return self._validator.first_fault(output) or "it is not valid"
        # The least specific one: others may only follow from it.
        found = sorted(self._validator.faults(output), key=lambda fault: len(fault.path))
        return found[0].message if found else "it is not valid"
