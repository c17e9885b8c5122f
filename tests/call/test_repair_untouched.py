"""Arguments that are left alone: valid ones, and those that nobody can judge."""

from types import MappingProxyType
from typing import Any

import pytest

from tests.call.tools import INTEGER, POINT, STRING, STRINGS, checked, tool
from tests.inside.call import CheckedArguments
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
    assert checked(draft7, {"a": 5}) == CheckedArguments(arguments={"a": 5})


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
    assert checked(tool(a=STRING, b=tree, c=steps), arguments) == CheckedArguments(arguments=arguments)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number", "multipleOf": 0.01}, 19.99),
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 4000),
        ({"type": "array", "uniqueItems": True}, [{"x": number} for number in range(20_000)]),
    ],
)
def test_fractions_long_texts_and_long_lists_are_validated(schema: Any, value: Any) -> None:
    assert checked(tool(a=schema), {"a": value}) == CheckedArguments(arguments={"a": value})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)*$"])
def test_a_pattern_that_would_explode_elsewhere_refuses_in_linear_time(pattern: str) -> None:
    answer = checked(tool(a={"type": "string", "pattern": pattern}), {"a": "a" * 4000 + "b"})
    assert answer.problem is not None
    assert answer.problem.startswith(f"argument 'a': expected a string that matches {pattern}, got 'aaa")


@pytest.mark.parametrize("pattern", ["^(?=a)", r"(a)\1", r"^a\Z", "(", "^(a{0,1000}){0,1000}$"])
def test_a_pattern_that_cannot_be_compiled_is_not_checked_and_the_rest_is(pattern: str) -> None:
    schema = tool(a={"type": "string", "pattern": pattern}, b=INTEGER)
    assert checked(schema, {"a": "x", "b": 1}) == CheckedArguments(arguments={"a": "x", "b": 1})
    assert checked(schema, {"a": 5, "b": "1"}) == CheckedArguments(
        arguments={"a": "5", "b": 1}, repairs=("a: 5 became '5'", "b: '1' became 1")
    )


def laughs(levels: int) -> JSON:
    """Definitions of which each refers to the one before twice."""
    one: dict[str, JSON] = {"one0": INTEGER}
    for level in range(levels):
        one[f"one{level + 1}"] = {"allOf": [{"$ref": f"#/$defs/one{level}"}] * 2}
    return {**tool(a={"$ref": f"#/$defs/one{levels}"}), "$defs": one}


def test_references_that_branch_without_bound_are_not_checked() -> None:
    assert checked(laughs(10), {"a": "5"}).repairs == ("a: '5' became 5",)
    for levels in (30, 500, 5000):
        assert checked(laughs(levels), {"a": "x"}) == CheckedArguments(arguments={"a": "x"})


def test_a_deep_value_of_a_schema_that_branches_and_recurses_is_not_checked() -> None:
    twice = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    schema = {**tool(a={"$ref": "#/$defs/tree"}), "$defs": {"tree": {"anyOf": [twice, twice, INTEGER]}}}
    assert checked(schema, {"a": nested(40)}) == CheckedArguments(arguments={"a": nested(40)})
    assert checked(schema, {"a": nested(3)}).problem is not None


class Text(str):
    """A string with a class of its own."""


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"x", float("nan"), float("inf"), "\ud800", {"\ud800": 1}, {1: 1}, 10**5000],
    ids=["object", "set", "bytes", "nan", "inf", "surrogate", "surrogate key", "int key", "too large"],
)
@pytest.mark.parametrize("schema", [{}, STRINGS, {"enum": [[1], "x"]}, {"type": "string", "maxLength": 0}])
def test_a_value_that_is_not_json_never_raises(schema: JSON, value: Any) -> None:
    arguments = {"a": value}
    answer = checked(tool(["a"], a=schema), arguments)
    assert answer.arguments is arguments or answer.repairs


def test_a_class_of_its_own_does_not_matter() -> None:
    arguments = {"a": Text("x")}
    assert checked(tool(a=STRING), arguments).arguments is arguments
    assert checked(tool(a=INTEGER), {"a": Text("5")}).arguments == {"a": 5}


def test_an_unknown_draft_counts_as_the_newest_and_content_is_an_annotation() -> None:
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
    encoded = {"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"}
    arguments = {"a": "no base64"}
    assert checked({**draft7, **tool(a=encoded)}, arguments) == CheckedArguments(arguments=arguments)
    unknown = {"$schema": "https://example.com/mine", **tool(a=INTEGER)}
    assert checked(unknown, {"a": "5"}).repairs == ("a: '5' became 5",)


def test_references_by_id_and_anchor_are_followed() -> None:
    schema = {
        "$id": "https://example.com/root.json",
        **tool(a={"$ref": "count.json"}, b={"$ref": "#count"}),
        "$defs": {"one": {"$id": "count.json", **INTEGER}, "two": {"$anchor": "count", **INTEGER}},
    }
    assert checked(schema, {"a": "5", "b": "6"}).arguments == {"a": 5, "b": 6}
    assert checked(schema, {"a": "x"}).problem == (
        "argument 'a': expected an integer, got 'x'; for example 10"
    )
