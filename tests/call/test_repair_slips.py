"""Slips that are repaired, and slips that are not."""

import pytest

from tests.call.tools import CLOSED, INTEGER, POINT, STRING, STRINGS, TAG_A, TAG_B, TAGGED, checked, tool
from tests.inside.call import CheckedArguments
from toolbus.records import JSON

# What stands at the argument `a`, what is given for it, what becomes of it, and how that is told.
READ: list[tuple[JSON, JSON, JSON, str]] = [
    (INTEGER, "5", 5, "a: '5' became 5"),
    (INTEGER, " -12 ", -12, "a: ' -12 ' became -12"),
    (INTEGER, "3.0", 3, "a: '3.0' became 3"),
    (INTEGER, "1e3", 1000, "a: '1e3' became 1000"),
    ({"type": "number"}, "2.5", 2.5, "a: '2.5' became 2.5"),
    ({"type": "number"}, "2", 2, "a: '2' became 2"),
    ({"type": "boolean"}, "true", True, "a: 'true' became true"),
    ({"type": "boolean"}, "False", False, "a: 'False' became false"),
    ({"type": ["integer", "null"]}, "null", None, "a: 'null' became null"),
    ({"enum": [5, 10]}, "5", 5, "a: '5' became 5"),
    (STRING, 5, "5", "a: 5 became '5'"),
    ({"type": "string", "enum": ["5", "6"]}, 5, "5", "a: 5 became '5'"),
    (STRING, ["x"], "x", "a: [\"x\"] became 'x'"),
    (INTEGER, [7], 7, "a: [7] became 7"),
    (STRINGS, "x", ["x"], "a: 'x' became [\"x\"]"),
    ({"type": "array", "items": POINT}, {"x": 1}, [{"x": 1}], 'a: {"x": 1} became [{"x": 1}]'),
    ({"type": "array"}, 5, [5], "a: 5 became [5]"),
    (STRINGS, '["x", "y"]', ["x", "y"], 'a: \'["x", "y"]\' became ["x", "y"]'),
    (POINT, '{"x": 1}', {"x": 1}, 'a: \'{"x": 1}\' became {"x": 1}'),
    (POINT, ' \n{"x": 1} ', {"x": 1}, 'a: \' \\n{"x": 1} \' became {"x": 1}'),
    (POINT, '```json\n{"x": 1}\n```', {"x": 1}, 'a: \'```json\\n{"x": 1}\\n```\' became {"x": 1}'),
    ({"enum": ["Read", "write"]}, "read", "Read", "a: 'read' became 'Read'"),
    ({"type": "string", "enum": ["read", "write"]}, " WRITE ", "write", "a: ' WRITE ' became 'write'"),
    ({"const": "on"}, "ON", "on", "a: 'ON' became 'on'"),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5, "a: '5' became 5"),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "None", None, "a: 'None' became null"),
    ({"anyOf": [STRING, {"type": "null"}]}, 5, "5", "a: 5 became '5'"),
    ({"anyOf": [INTEGER, {"type": "array", "items": INTEGER}]}, "5", 5, "a: '5' became 5"),
    ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "B", "b", "a: 'B' became 'b'"),
    ({"allOf": [INTEGER, {"minimum": 3}]}, "5", 5, "a: '5' became 5"),
    ({"$ref": "#/$defs/count"}, "5", 5, "a: '5' became 5"),
    ({"allOf": [{"$ref": "#/$defs/count"}], "description": "How many"}, "5", 5, "a: '5' became 5"),
    (TAGGED, {"kind": "a", "n": "5"}, {"kind": "a", "n": 5}, "a.n: '5' became 5"),
    (TAGGED, {"kind": "B", "s": "x"}, {"kind": "b", "s": "x"}, "a.kind: 'B' became 'b'"),
    ({"type": "array", "items": INTEGER}, [1, "2"], [1, 2], "a[1]: '2' became 2"),
    ({"type": "array", "prefixItems": [STRING, INTEGER]}, ["x", "2"], ["x", 2], "a[1]: '2' became 2"),
    ({"type": "array", "items": POINT}, [{"x": "1"}], [{"x": 1}], "a[0].x: '1' became 1"),
    ({"type": "object", "additionalProperties": INTEGER}, {"k": "1"}, {"k": 1}, "a.k: '1' became 1"),
    ({"type": "object", "patternProperties": {"^k": INTEGER}}, {"k": "1"}, {"k": 1}, "a.k: '1' became 1"),
    (CLOSED, {"x": 1, "z": 2}, {"x": 1}, "a.z: dropped, there is no such argument"),
    (CLOSED, {"X": 1}, {"x": 1}, "a.X: renamed to x"),
    (POINT, {"x": 1, "y": None}, {"x": 1}, "a.y: null was left out"),
]


@pytest.mark.parametrize(("schema", "given", "meant", "told"), READ)
def test_a_slip_is_repaired_and_told(schema: JSON, given: JSON, meant: JSON, told: str) -> None:
    whole = {**tool(["a"], a=schema), "$defs": {"count": INTEGER}}
    assert checked(whole, {"a": given}) == CheckedArguments(arguments={"a": meant}, repairs=(told,))


KEPT: list[tuple[JSON, JSON]] = [
    (INTEGER, "five"),
    (INTEGER, "5.5"),
    (INTEGER, "1_000"),
    (INTEGER, "\u0665"),  # a five in Arabic
    (INTEGER, "9" * 5000),
    ({"type": "number"}, "NaN"),
    ({"type": "number"}, "1e999"),
    (INTEGER, True),
    ({"type": "boolean"}, "yes"),
    ({"type": "boolean"}, 1),
    (STRING, 1.5),
    (STRING, True),
    (STRING, {"x": 1}),
    (STRING, ["x", "y"]),
    (STRINGS, "x, y"),
    (STRINGS, '["x", '),
    (STRINGS, 1.5),
    (STRINGS, ""),
    (STRINGS, None),
    (POINT, "x=1"),
    (POINT, "[" * 100_000),
    (POINT, '{"x": NaN}'),
    ({"enum": ["read", "READ"]}, "Read"),
    ({"enum": [1]}, True),
    ({"type": "integer", "minimum": 10}, "5"),
    ({"anyOf": [TAG_A, TAG_B]}, {}),
    ({"oneOf": [{"required": ["s"]}, {"required": ["n"]}], "type": "object"}, {}),
]


@pytest.mark.parametrize(("schema", "given"), KEPT)
def test_what_is_not_clear_is_a_problem_and_nothing_is_changed(schema: JSON, given: JSON) -> None:
    arguments = {"a": given}
    answer = checked(tool(["a"], a=schema), arguments)
    assert (answer.arguments is arguments, answer.repairs) == (True, ())
    assert answer.problem
    assert answer.problem.startswith("argument 'a")


ABSENT: list[tuple[JSON, JSON, str]] = [
    (STRING, None, "a: null was left out"),
    (INTEGER, None, "a: null was left out"),
    (INTEGER, "null", "a: 'null' was left out"),
    (INTEGER, "None", "a: 'None' was left out"),
    (STRINGS, "", "a: '' was left out"),
    (POINT, " ", "a: ' ' was left out"),
]


@pytest.mark.parametrize(("schema", "given", "told"), ABSENT)
def test_nothing_for_an_optional_argument_is_left_out(schema: JSON, given: JSON, told: str) -> None:
    arguments = {"a": given, "b": 1}
    assert checked(tool(a=schema), arguments) == CheckedArguments(arguments={"b": 1}, repairs=(told,))
    assert checked(tool(["a"], a=schema), arguments).problem is not None


MISSING: list[tuple[JSON, JSON, str]] = [
    ({"type": "string", "default": "r"}, "r", "a: missing, filled in with 'r'"),
    ({"const": 3}, 3, "a: missing, filled in with 3"),
    ({"type": "string", "enum": ["only"]}, "only", "a: missing, filled in with 'only'"),
    ({"type": "array", "default": []}, [], "a: missing, filled in with []"),
]


@pytest.mark.parametrize(("schema", "filling", "told"), MISSING)
def test_a_missing_argument_is_filled_in_only_if_it_has_to_be_there(
    schema: JSON, filling: JSON, told: str
) -> None:
    assert checked(tool(["a"], a=schema), {}) == CheckedArguments(arguments={"a": filling}, repairs=(told,))
    assert checked(tool(a=schema), {}) == CheckedArguments(arguments={})


def test_a_default_that_does_not_fit_is_not_filled_in() -> None:
    assert checked(tool(["a"], a={"type": "string", "default": None}), {}).problem is not None


def test_a_default_is_filled_in_where_another_argument_asks_for_it() -> None:
    schema = {**tool(a=STRING, b={"type": "integer", "default": 3}), "dependentRequired": {"a": ["b"]}}
    assert checked(schema, {"a": "x"}).arguments == {"a": "x", "b": 3}


@pytest.mark.parametrize("name", ["File_Path", "file-path", "filePath", "FILEPATH"])
def test_a_name_spelt_another_way_is_renamed_not_dropped(name: str) -> None:
    closed = {**tool(["file_path"], file_path=STRING), "additionalProperties": False}
    repaired = CheckedArguments(arguments={"file_path": "x"}, repairs=(f"{name}: renamed to file_path",))
    assert checked(closed, {name: "x"}) == repaired
    assert checked(tool(["file_path"], file_path=STRING), {name: "x"}) == repaired


def test_a_free_name_is_not_taken_for_an_optional_one_and_a_forbidden_one_is() -> None:
    free = tool(file_path=STRING)
    assert checked(free, {"filePath": "x"}) == CheckedArguments(arguments={"filePath": "x"})
    assert checked({**free, "additionalProperties": False}, {"filePath": "x"}).arguments == {"file_path": "x"}


def test_of_two_alternatives_the_one_that_loses_nothing_is_taken() -> None:
    other = {"type": "object", "properties": {"z": INTEGER}, "additionalProperties": False}
    answer = checked(tool(a={"anyOf": [other, CLOSED]}), {"a": {"x": "1"}})
    assert answer == CheckedArguments(arguments={"a": {"x": 1}}, repairs=("a.x: '1' became 1",))


def test_repairs_go_through_json_in_a_string_and_down_to_every_place() -> None:
    schema = {
        **tool(["l", "n"], l={"type": "array", "items": CLOSED}, n=INTEGER),
        "additionalProperties": False,
    }
    assert checked(schema, {"l": '[{"x": "1", "z": 0}]', "n": ["2"], "Q": 1}) == CheckedArguments(
        arguments={"l": [{"x": 1}], "n": 2},
        repairs=(
            'l: \'[{"x": "1", "z": 0}]\' became [{"x": "1", "z": 0}]',
            "l[0].x: '1' became 1",
            "l[0].z: dropped, there is no such argument",
            "n: [\"2\"] became '2'",
            "n: '2' became 2",
            "Q: dropped, there is no such argument",
        ),
    )


def test_many_repairs_are_all_made_and_the_first_ones_told() -> None:
    answer = checked(tool(a={"type": "array", "items": INTEGER}), {"a": ["7"] * 100})
    assert answer.arguments == {"a": [7] * 100}
    assert (len(answer.repairs), answer.repairs[-1]) == (21, "and 80 more")


def test_what_was_given_is_not_changed_by_a_repair() -> None:
    arguments = {"a": {"x": "1", "z": ["2"]}}
    assert checked(tool(a=CLOSED), arguments).arguments == {"a": {"x": 1}}
    assert arguments == {"a": {"x": "1", "z": ["2"]}}
