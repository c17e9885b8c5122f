"""Arguments that are left alone: valid ones, and those that nobody can judge."""

import time
from types import MappingProxyType
from typing import Any

import pytest

from tests.call.tools import INTEGER, POINT, STRING, STRINGS, checked, tool
from toolbus.call.arguments import ArgumentCheck, Checked
from toolbus.records import JSON

VALID: list[tuple[JSON, JSON]] = [
    (INTEGER, 5.0),
    ({"type": "number"}, 5),
    ({"type": ["string", "integer"]}, "5"),
    (STRING, '{"x": 1}'),
    (STRING, "null"),
    ({"type": "string", "format": "date"}, "no date"),
    ({"type": "string", "nullable": True}, None),
    ({"type": "string", "enum": ["x"], "nullable": True}, None),
    ({"allOf": [{"$ref": "#/$defs/count"}], "nullable": True}, None),
    ({"enum": [True]}, True),
    ({"enum": [1]}, 1.0),
    ({"anyOf": [STRINGS, {"type": "null"}]}, None),
    ({}, {"anything": [None]}),
    (STRINGS, ("x", "y")),
    (POINT, MappingProxyType({"x": 1})),
]


@pytest.mark.parametrize(("schema", "value"), VALID)
def test_a_valid_argument_comes_back_as_the_very_same_object(schema: JSON, value: JSON) -> None:
    arguments = {"a": value}
    answer = checked({**tool(["a"], a=schema), "$defs": {"count": INTEGER}}, arguments)
    assert (answer.arguments is arguments, answer.repairs, answer.problem) == (True, (), None)


UNUSABLE: list[JSON] = [
    {"type": "nonsense"},
    {"type": "string", "pattern": "("},
    {"$ref": "https://example.com/schema.json"},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#/properties/b"},
    {"allOf": [{"$ref": "#/properties/b"}]},
]


@pytest.mark.parametrize("schema", UNUSABLE)
def test_with_a_schema_that_cannot_be_used_nothing_is_checked(schema: JSON) -> None:
    arguments = {"a": "5"}
    assert checked(tool(["c"], a=INTEGER, b=schema), arguments).arguments is arguments


def test_an_older_draft_is_read_as_such() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", **tool(["a"], a=INTEGER)}
    draft7 = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **tool(a={"$ref": "#/definitions/count", "maximum": 3}),
        "definitions": {"count": INTEGER},
    }
    assert checked(draft4, {"a": 5.0}).repairs == ("a: 5.0 became 5",)
    assert checked(draft7, {"a": 5}) == Checked(arguments={"a": 5})


def nested(depth: int) -> JSON:
    value: JSON = "5"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [{"a": nested(5000)}, {"a": 10**5000}, {"a": {1: 2}}, {"b": nested(5000)}, {"c": nested(45)}],
    ids=["too deep", "too large", "no string", "too deep a tree", "too many steps"],
)
def test_what_cannot_be_looked_through_is_left_to_the_server(arguments: dict[str, JSON]) -> None:
    tree = {"type": "array", "items": {"$ref": "#/properties/b"}}
    steps: JSON = {"items": {"$ref": "#/properties/c"}}
    for _ in range(30):
        steps = {"allOf": [steps]}
    assert checked(tool(a=STRING, b=tree, c=steps), arguments) == Checked(arguments=arguments)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number", "multipleOf": 0.01}, 19.99),
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 40 + "b"),
        ({"type": "string", "pattern": "^(a|aa)*$"}, "a" * 60 + "b"),
        ({"type": "array", "uniqueItems": True}, [{"x": number} for number in range(20_000)]),
    ],
)
def test_what_is_judged_wrong_or_without_end_is_left_to_the_server(schema: Any, value: Any) -> None:
    began = time.thread_time()
    arguments = {"a": value}
    checked = ArgumentCheck({"type": "object", "properties": {"a": schema}}).checked(arguments)
    assert (checked.arguments is arguments, checked.problem) == (True, None)
    assert time.thread_time() - began < 1
