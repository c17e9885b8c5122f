"""The model's message when its arguments cannot be repaired."""

import json
import re

import pytest
from hypothesis import given

from tests.call.schemas import documents, modest, validator_of, verdict
from tests.inside.call import ArgumentCheck, Examples
from tests.inside.schema import Schema
from toolbus.records import JSON

TAGGED = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}},
            "required": ["n"],
        },
        {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
    ]
}


def problem(schema: JSON, arguments: dict[str, JSON]) -> str | None:
    return ArgumentCheck({"type": "object", **schema}).checked(arguments).problem


WRONG: list[tuple[JSON, JSON, str]] = [
    (
        {"type": "integer", "minimum": 1, "maximum": 100},
        "many",
        "expected an integer from 1 to 100, got 'many'; for example 10",
    ),
    ({"type": "integer", "minimum": 20}, 5, "expected an integer of at least 20, got 5; for example 20"),
    ({"type": "integer", "maximum": 5}, 6, "expected an integer of at most 5, got 6; for example 5"),
    (
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        2,
        "expected a number above 0 and below 1, got 2; for example 0.01",
    ),
    (
        {"type": "integer", "multipleOf": 7},
        8,
        "expected an integer that is a multiple of 7, got 8; for example 7",
    ),
    ({"type": "string"}, 1.5, 'expected a string, got 1.5; for example "text"'),
    (
        {"type": "string", "minLength": 5, "maxLength": 8},
        "x",
        "expected a string of 5 to 8 characters, got 'x'; for example \"textt\"",
    ),
    (
        {"type": "string", "minLength": 1},
        "",
        "expected a string of at least 1 character, got ''; for example \"text\"",
    ),
    (
        {"type": "string", "pattern": "^[0-9]{4}-"},
        "x",
        "expected a string that matches ^[0-9]{4}-, got 'x'; for example \"2026-01-31\"",
    ),
    (
        {"type": "string", "format": "email"},
        True,
        'expected a string in the format email, got true; for example "ada@example.com"',
    ),
    ({"type": "boolean"}, "yes", "expected true or false, got 'yes'; for example true"),
    ({"enum": ["read", "write"]}, "x", 'expected one of "read", "write", got \'x\'; for example "read"'),
    ({"const": 3}, 4, "expected 3, got 4; for example 3"),
    (
        {"enum": list(range(50))},
        "x",
        "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 (50 in all), got 'x'; for example 0",
    ),
    (
        {"type": "array", "items": {"type": "string"}},
        1.5,
        'expected a list of strings, got 1.5; for example ["text"]',
    ),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        [1],
        "expected a list of exactly 2 items, all integers, got [1]; for example [10, 10]",
    ),
    (
        {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True},
        ["x", "x"],
        'expected a list, each one of "x", "y" that all differ, got ["x", "x"]; for example ["x"]',
    ),
    (
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        3,
        'expected an object with \'path\', got 3; for example {"path": "notes.txt"}',
    ),
    (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "x",
        "expected an integer or null, got 'x'; for example 10",
    ),
    ({"type": "integer", "examples": ["bad", 42]}, "x", "expected an integer, got 'x'; for example 42"),
    ({"type": "integer", "default": 7}, "x", "expected an integer, got 'x'; for example 7"),
    (
        {"type": "integer", "minimum": 5, "default": 1},
        "x",
        "expected an integer of at least 5, got 'x'; for example 10",
    ),
    ({"not": {"type": "string"}}, "x", "expected anything but a string, got 'x'"),
    (
        {"type": "string", "pattern": "^never.$"},
        "x" * 500,
        f"expected a string that matches ^never.$, got '{'x' * 79}…'",
    ),
]


@pytest.mark.parametrize(("schema", "value", "told"), WRONG)
def test_a_wrong_argument_is_told_with_what_was_expected_and_an_example(
    schema: JSON, value: JSON, told: str
) -> None:
    assert problem({"properties": {"a": schema}, "required": ["a"]}, {"a": value}) == f"argument 'a': {told}"


def test_a_missing_argument_is_told_with_its_description() -> None:
    path = {"type": "string", "description": "Path\n of the file"}
    told = "argument 'path' is missing: expected a string (Path of the file); for example \"notes.txt\""
    assert problem({"properties": {"path": path}, "required": ["path"]}, {}) == told


def test_an_unknown_name_beside_a_missing_one_is_told_with_the_known_ones() -> None:
    schema = {"properties": {"path": {"type": "string"}, "limit": {}}, "required": ["path"]}
    told = (
        "argument 'path' is missing: expected a string; for example \"notes.txt\"\n"
        "argument 'pth' is unknown: did you mean 'path'? known: 'path', 'limit'"
    )
    assert problem(schema, {"pth": "x"}) == told
    assert problem({**schema, "additionalProperties": False}, {"pth": "x"}) == told


def test_only_what_could_not_be_repaired_is_told() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    told = "argument 'b': expected an integer, got 'x'; for example 10"
    assert problem(schema, {"a": "5", "b": "x"}) == told


def test_a_place_deep_inside_is_named() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    schema = {"properties": {"l": {"type": "array", "items": inner}}}
    assert problem(schema, {"l": [{"x": 1}, {"x": "q"}, {}]}) == (
        "argument 'l[1].x': expected an integer, got 'q'; for example 10\n"
        "argument 'l[2].x' is missing: expected an integer; for example 10"
    )


def test_of_alternatives_the_one_that_was_meant_is_told() -> None:
    assert problem({"properties": {"a": TAGGED}}, {"a": {"kind": "a", "n": "x"}}) == (
        "argument 'a.n': expected an integer, got 'x'; for example 10"
    )


def test_a_value_that_two_alternatives_accept_and_a_name_that_is_refused_are_told() -> None:
    both = {"oneOf": [{"type": "integer"}, {"minimum": 1}]}
    told = "argument 'a': expected an integer or another value, got 5"
    assert (problem({"properties": {"a": both}}, {"a": 5}) or "").startswith(told)
    names: JSON = {"propertyNames": {"type": "string", "maxLength": 2}, "properties": {"a": {}}}
    told = "the arguments: expected a string of at most 2 characters, got 'long'"
    assert (problem(names, {"long": 1}) or "").startswith(told)


def test_an_argument_asked_for_by_a_condition_is_described_all_the_same() -> None:
    schema = {
        "properties": {"mode": {}, "text": {"type": "string", "description": "What to write"}},
        "if": {"properties": {"mode": {"const": "write"}}},
        "then": {"required": ["text"]},
    }
    told = "argument 'text' is missing: expected a string (What to write); for example \"text\""
    assert problem(schema, {"mode": "write"}) == told


def test_five_problems_are_told_and_the_others_named() -> None:
    names = [f"n{index}" for index in range(8)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names}
    lines = [f"argument 'n{index}' is missing: expected an integer; for example 10" for index in range(5)]
    assert problem(schema, {}) == "\n".join([*lines, "and 3 more: 'n5', 'n6', 'n7'"])


def test_values_names_and_descriptions_are_cut() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "description": "d" * 500}},
        "required": ["b"],
        "additionalProperties": False,
    }
    told = problem(schema, {"a": ["v" * 500, "w"], "n" * 500: 1})
    assert told is not None
    assert not re.search(r"(.)\1{80}", told)


@modest
@given(documents())
def test_every_example_is_valid(schema: dict[str, JSON]) -> None:
    validator = validator_of(schema)
    if validator is None:
        return
    root = Schema(validator.schema)
    for inner in root.properties.values():
        told = Examples(validator).hint(root, inner)
        if told:
            value = json.loads(told.removeprefix("; for example "))
            one = {key: schema[key] for key in ("$schema", "$defs") if key in schema}
            if '"$ref": "#"' not in json.dumps(inner):
                assert verdict({"properties": {"one": inner}, **one}, {"one": value}) is True
