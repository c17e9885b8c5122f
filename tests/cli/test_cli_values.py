"""Typed text becomes a value for the tool's schema: the rules, without a process."""

from typing import Any

import pytest

from tests.inside.cli import Usage, typed
from tests.inside.schema import Schema, type_words

INTEGER, NUMBER, BOOLEAN, STRING, LIST, OBJECT = (
    {"type": kind} for kind in ("integer", "number", "boolean", "string", "array", "object")
)
COLOUR = {"enum": ["red", "green"], "type": "string"}
DOCUMENT = {
    "$defs": {
        "Size": INTEGER,
        "Chain": {"$ref": "#/$defs/Size"},
        "Loop": {"$ref": "#/$defs/Loop"},
        "a/b": NUMBER,
    }
}

TAKEN: list[tuple[dict[str, Any], str, Any]] = [
    (INTEGER, "5", 5),
    (INTEGER, "-5", -5),
    (INTEGER, "5.0", 5),
    (INTEGER, "1e3", 1000),
    (NUMBER, "5", 5),
    (NUMBER, "2.5", 2.5),
    (BOOLEAN, "true", True),
    (BOOLEAN, "Yes", True),
    (BOOLEAN, "on", True),
    (BOOLEAN, "1", True),
    (BOOLEAN, "FALSE", False),
    (BOOLEAN, "no", False),
    (BOOLEAN, "off", False),
    (BOOLEAN, "0", False),
    (STRING, "5", "5"),
    (STRING, "true", "true"),
    (STRING, "null", "null"),
    (STRING, "", ""),
    (STRING, '{"a": 1}', '{"a": 1}'),
    (STRING, "a,b", "a,b"),
    (LIST, "a,b", ["a", "b"]),
    (LIST, "1,b", [1, "b"]),
    (LIST, "", []),
    (LIST, '["a,b", 1]', ["a,b", 1]),
    (LIST | {"items": STRING}, "1,2", ["1", "2"]),
    (LIST | {"items": INTEGER}, "1,2", [1, 2]),
    (LIST | {"items": COLOUR}, "red,green", ["red", "green"]),
    (LIST | {"items": OBJECT}, '{"a": 1, "b": 2}', [{"a": 1, "b": 2}]),
    (OBJECT, '{"a": [1]}', {"a": [1]}),
    (COLOUR, "red", "red"),
    ({"enum": [1, 2]}, "2", 2),
    ({"enum": ["1", 1]}, "1", "1"),
    ({"const": "only"}, "only", "only"),
    ({"enum": [None, "a"]}, "null", None),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "integer"]}, "5", 5),
    ({"type": ["string", "integer"]}, "five", "five"),
    ({"type": ["string", "boolean"]}, "yes", "yes"),
    ({"type": ["string", "boolean"]}, "true", True),
    ({"type": ["string", "array"]}, "a,b", "a,b"),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "7", 7),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "null", None),
    ({"anyOf": [INTEGER, STRING]}, "x", "x"),
    ({"anyOf": [LIST | {"items": INTEGER}, {"type": "null"}]}, "[1]", [1]),
    ({"anyOf": [LIST | {"items": STRING}, {"type": "null"}]}, "1,2", ["1", "2"]),
    ({"oneOf": [COLOUR, {"const": "none"}]}, "none", "none"),
    ({"$ref": "#/$defs/Size"}, "7", 7),
    ({"$ref": "#/$defs/Chain"}, "7", 7),
    ({"$ref": "#/$defs/a~1b"}, "7.5", 7.5),
    ({"$ref": "#/$defs/Loop"}, "7", 7),
    ({"$ref": "#/$defs/Missing"}, "text", "text"),
    ({"$ref": "https://example.com/schema"}, "text", "text"),
    ({}, "5", 5),
    ({}, "[1, 2]", [1, 2]),
    ({}, "null", None),
    ({}, "true", True),
    ({}, "plain text", "plain text"),
    ({}, "NaN", "NaN"),
    ({"type": 7, "enum": "no list", "anyOf": {}}, "5", 5),
]


@pytest.mark.parametrize(("schema", "text", "value"), TAKEN)
def test_text_is_read_as_its_schema_asks(schema: dict[str, Any], text: str, value: Any) -> None:
    read = typed(text, Schema(schema, DOCUMENT), "key")
    assert (type(read), read) == (type(value), value)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (INTEGER, "five", "key: expected integer, not 'five'"),
    (INTEGER, "1.5", "key: expected integer, not '1.5'"),
    (INTEGER, "true", "key: expected integer, not 'true'"),
    (INTEGER, "", "key: expected integer, not ''"),
    (INTEGER, "1e999", "key: expected integer, not '1e999'"),
    (NUMBER, "NaN", "key: expected number, not 'NaN'"),
    (NUMBER, "Infinity", "key: expected number, not 'Infinity'"),
    (BOOLEAN, "maybe", "key: expected boolean, not 'maybe'"),
    (OBJECT, "[1]", "key: expected object, not '[1]'"),
    (OBJECT, "{'a': 1}", "key: expected object, not \"{'a': 1}\""),
    (LIST | {"items": INTEGER}, "1,x", "key: expected integer, not 'x'"),
    (COLOUR, "blue", "key: 'blue' is not allowed; expected red or green"),
    ({"enum": ["a", 1, None]}, "b", "key: 'b' is not allowed; expected a, 1 or null"),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "x", "key: expected integer, not 'x'"),
    ({"anyOf": [LIST | {"items": INTEGER}, {"type": "null"}]}, "x", "key: expected integer, not 'x'"),
    ({"$ref": "#/$defs/Chain"}, "x", "key: expected integer, not 'x'"),
]


@pytest.mark.parametrize(("schema", "text", "message"), REFUSED)
def test_text_that_the_schema_does_not_allow_is_refused(
    schema: dict[str, Any], text: str, message: str
) -> None:
    with pytest.raises(Usage) as caught:
        typed(text, Schema(schema, DOCUMENT), "key")
    assert str(caught.value) == message


IN_WORDS: list[tuple[dict[str, Any], str]] = [
    ({}, "any"),
    (INTEGER, "integer"),
    ({"type": ["integer", "null"]}, "integer"),
    ({"type": ["integer", "string", "boolean"]}, "integer, string or boolean"),
    (LIST, "array"),
    (LIST | {"items": INTEGER}, "list of integer"),
    (LIST | {"items": LIST | {"items": COLOUR}}, "list of list of red or green"),
    ({"properties": {"a": {}}}, "object"),
    ({"anyOf": [INTEGER, STRING]}, "integer or string"),
]


@pytest.mark.parametrize(("schema", "words"), IN_WORDS)
def test_a_schema_can_be_said_in_words(schema: dict[str, Any], words: str) -> None:
    assert type_words(Schema(schema, DOCUMENT)) == words


def test_a_schema_that_contains_itself_is_followed_only_so_far() -> None:
    document: dict[str, Any] = {"$defs": {"Tree": {"anyOf": [{"$ref": "#/$defs/Tree"}, INTEGER]}}}
    assert typed("7", Schema({"$ref": "#/$defs/Tree"}, document), "key") == 7
    nested: dict[str, Any] = {"$defs": {"List": LIST | {"items": {"$ref": "#/$defs/List"}}}}
    assert type_words(Schema({"$ref": "#/$defs/List"}, nested)).startswith("list of list of list of")


@pytest.mark.timeout(20, func_only=True)
def test_a_schema_whose_alternatives_double_at_each_step_is_read_at_once() -> None:
    # 2 to the power of 32 ways through it.
    twice = {"anyOf": [{"$ref": "#/$defs/Both"}, {"$ref": "#/$defs/Both"}]}
    assert typed("x", Schema({"$ref": "#/$defs/Both"}, {"$defs": {"Both": twice}}), "key") == "x"
