"""Validation: which values common keywords accept, and that it is only loaded when needed."""

import subprocess
import sys

import pytest

from tests.call.tools import CLOSED, INTEGER, POINT, STRING, STRINGS, tool
from tests.inside.schema import Validator
from tests.patience import PATIENCE
from toolbus.records import JSON

NODE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
VALID: list[tuple[JSON, JSON]] = [
    (STRING, "x"),
    ({"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^x"}, "xy"),
    ({"type": "string", "enum": ["r", "w"], "description": "Mode", "x-order": 1}, "r"),
    ({"enum": [1, None, True]}, True),
    ({"const": "x"}, "x"),
    (INTEGER, 5.0),
    ({"type": "integer", "minimum": 1, "maximum": 5}, 5),
    ({"type": "number", "exclusiveMinimum": 0}, 0.5),
    ({"type": "boolean"}, False),
    ({"type": ["string", "null"]}, None),
    ({"anyOf": [INTEGER, {"type": "null"}]}, None),
    ({"allOf": [INTEGER, {"minimum": 1}]}, 1),
    (STRINGS, ["x", "y"]),
    ({"type": "array", "minItems": 1, "maxItems": 2}, [{}]),
    (CLOSED, {"x": 1}),
    ({"type": "array", "items": POINT}, [{"x": 1, "z": 2}]),
    ({"type": "object", "additionalProperties": STRING}, {"k": "x"}),
    ({"$ref": "#/$defs/node"}, {"next": {"next": None}}),
    ({"oneOf": [INTEGER, STRING]}, 1),
    ({"not": INTEGER}, "x"),
    ({"type": "integer", "multipleOf": 2}, 2),
    ({"type": "integer", "unheard": 1}, 2),
    ({"$id": "https://example.com/a", "type": "integer"}, 2),
    (STRINGS, ("x",)),
    ({"type": "string", "pattern": "("}, "x"),
]
INVALID: list[tuple[JSON, JSON]] = [
    (INTEGER, True),
    (INTEGER, "5"),
    ({"type": "boolean"}, 1),
    ({"enum": [1]}, True),
    ({"enum": [True]}, 1),
    ({"type": "integer", "minimum": 1}, 0),
    ({"type": "number", "exclusiveMaximum": 1}, 1),
    (CLOSED, {"x": 1, "z": 2}),
    (POINT, {"y": 1}),
    ({"oneOf": [INTEGER, {"minimum": 1}]}, 1),
    ({"not": INTEGER}, 1),
    ({"type": "integer", "multipleOf": 2}, 3),
]


def accepts(schema: JSON, value: JSON) -> bool | None:
    return Validator({**tool(["a"], a=schema), "$defs": {"node": NODE}}).accepts({"a": value})


@pytest.mark.parametrize(("schema", "value"), VALID)
def test_a_valid_value_is_accepted(schema: JSON, value: JSON) -> None:
    assert accepts(schema, value) is True


@pytest.mark.parametrize(("schema", "value"), INVALID)
def test_an_invalid_value_is_not_accepted(schema: JSON, value: JSON) -> None:
    assert accepts(schema, value) is False


@pytest.mark.parametrize(
    "imported", ["toolbus", "toolbus.call", "toolbus.call.arguments", "toolbus.schema.validator"]
)
def test_the_validator_is_loaded_only_when_something_is_checked(imported: str) -> None:
    program = f"import sys, {imported}; print(*{{'jsonschema', 'jsonschema_rs'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.split() == []
