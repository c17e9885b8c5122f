"""Check what a tool gives back against the schema it promised; compiled when first needed."""

from importlib import import_module
from typing import Any

from toolbus.core.records import JSON, JSONObject


class OutputCheck:
    """The promise of one tool."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._validator: Any = None

    def fault(self, output: JSON) -> str | None:
        """What is wrong with the output, in one line; None if nothing is."""
        if output is None:
            return "there is no structured content"
        # Here, because most programs call no tool that has such a schema; untyped upstream.
        exceptions: Any = import_module("jsonschema.exceptions")
        unresolvable: Any = import_module("referencing.exceptions").Unresolvable
        try:
            if self._validator is None:
                self._validator = self._compiled()
            error = exceptions.best_match(self._validator.iter_errors(output))
        except (exceptions.SchemaError, unresolvable) as bad:
            return f"the schema itself is invalid: {str(bad).splitlines()[0]}"
        return None if error is None else str(error.message).splitlines()[0]

    def _compiled(self) -> Any:
        kind: Any = import_module("jsonschema.validators").validator_for(self._schema)
        kind.check_schema(self._schema)
        # An empty registry: a reference never makes us ask the network.
        return kind(self._schema, registry=import_module("referencing").Registry())
