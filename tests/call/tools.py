"""Small schemas, and the check of arguments against them, for the tables of slips."""

from tests.inside.call import ArgumentCheck, CheckedArguments
from tests.inside.core import JSONObject
from toolbus.records import JSON

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}
POINT = {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}, "required": ["x"]}
CLOSED = {**POINT, "additionalProperties": False}
TAG_A = {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}
TAG_B = {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}
TAGGED = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "n": INTEGER}, "required": ["kind", "n"]},
        {"type": "object", "properties": {"kind": {"const": "b"}, "s": STRING}, "required": ["kind", "s"]},
    ]
}


def tool(required: list[str] | None = None, **properties: JSON) -> dict[str, JSON]:
    return {"type": "object", "properties": properties, "required": required or []}


def checked(schema: JSONObject, arguments: JSONObject) -> CheckedArguments:
    return ArgumentCheck(schema).checked(arguments)
