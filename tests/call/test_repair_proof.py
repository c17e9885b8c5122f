"""The fast path: common schemas are proven without jsonschema, and it keeps silent about the rest."""

import subprocess
import sys

import pytest

from tests.call.tools import CLOSED, INTEGER, POINT, STRING, STRINGS, tool
from toolbus.call.arguments.proof import proof
from toolbus.records import JSON

NODE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
PROVEN: list[tuple[JSON, JSON]] = [
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
    ({}, object()),
]
SILENT: list[tuple[JSON, JSON]] = [
    (INTEGER, True),
    (INTEGER, "5"),
    ({"type": "boolean"}, 1),
    ({"enum": [1]}, True),
    ({"enum": [True]}, 1),
    ({"type": "integer", "minimum": 1}, 0),
    ({"type": "number", "exclusiveMaximum": 1}, 1),
    ({"type": "number", "maximum": 1}, float("nan")),
    (CLOSED, {"x": 1, "z": 2}),
    (POINT, {"y": 1}),
    ({"oneOf": [INTEGER, STRING]}, 1),
    ({"not": INTEGER}, "x"),
    ({"type": "integer", "multipleOf": 2}, 2),
    ({"type": "integer", "unheard": 1}, 2),
    ({"$id": "https://example.com/a", "type": "integer"}, 2),
    ({"$ref": "other.json"}, 2),
    (STRINGS, ("x",)),
    ({"type": "string", "pattern": "("}, "x"),
]


def proven(schema: JSON, value: JSON) -> bool:
    return proof({**tool(["a"], a=schema), "$defs": {"node": NODE}})({"a": value})


@pytest.mark.parametrize(("schema", "value"), PROVEN)
def test_a_common_schema_is_proven(schema: JSON, value: JSON) -> None:
    assert proven(schema, value)


@pytest.mark.parametrize(("schema", "value"), SILENT)
def test_what_is_wrong_or_rare_is_not_proven(schema: JSON, value: JSON) -> None:
    assert not proven(schema, value)


def test_an_argument_whose_schema_is_rare_does_not_slow_down_calls_without_it() -> None:
    assert proof(tool(["a"], a=INTEGER, b={"not": INTEGER}))({"a": 1})


def test_a_valid_call_does_not_even_import_jsonschema() -> None:
    program = (
        "import sys; from toolbus.call.arguments import ArgumentCheck; schema = {'type': 'object'}; "
        "ArgumentCheck(schema).checked({'a': 1}); print('jsonschema' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "False"
