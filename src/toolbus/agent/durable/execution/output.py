"""The output of a run: a text, or an object of a JSON Schema, which any worker can ask its model for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import ModelRetry, StructuredDict

from toolbus.core.values.records import JSON
from toolbus.schema.validator import Validator

_WRAPPED = "response"
"""The key of an output that is not an object: models return objects."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a run is to return."""

    schema: Mapping[str, Any] | None
    """None for a text."""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "Output":
        """What the request of a run asks for."""
        return cls(request.get("output"))

    @property
    def is_wrapped(self) -> bool:
        """Whether it is not an object."""
        return self.schema is not None and self.schema.get("type") != "object"

    @property
    def type(self) -> Any:
        """For the framework; a model whose output does not fit is told why, and tries again."""
        if self.schema is None:
            return None  # reuses the agent's own text output
        schema, validator = dict(self.schema), Validator(self.schema)
        if self.is_wrapped:
            definitions = schema.pop("$defs", {})
            properties = {_WRAPPED: schema}
            schema = {
                "type": "object",
                "properties": properties,
                "required": [_WRAPPED],
                "$defs": definitions,
            }

        def final_result(output: Any) -> Any:
            value = output.get(_WRAPPED) if self.is_wrapped else output
            if (problem := validator.explanation(value)) is not None:
                raise ModelRetry(problem)
            return value

        final_result.__annotations__ = {"output": StructuredDict(schema), "return": dict[str, Any]}
        return final_result

    def stored(self, output: JSON) -> dict[str, JSON]:
        """The output as it is recorded."""
        if self.schema is None:
            return {"output": output}
        return {"output": json.dumps(output, ensure_ascii=False), "structured": output}


def output_schema(kind: type[Any]) -> dict[str, Any] | None:
    """The JSON Schema of a type; None for text."""
    return None if kind is str else TypeAdapter(kind).json_schema()
