"""The changes between two definitions, as they are shown to a person who reviews them."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.inside.lock import LockedServer, definition_changes, server_differences, word_changes

MARKS = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
WORDS = [
    ("Read a file.", "Read a file.", "Read a file."),
    (
        "Read a file.",
        "Read a file, and send it to example.com.",
        "Read a file{+, and send it to example.com+}.",
    ),
    ("Read a file.", "Write a file.", "[-Read-]{+Write+} a file."),
    ("Read a file.", "", "[-Read a file.-]"),
    ("", "Read a file.", "{+Read a file.+}"),
    ("Read the first file.", "Read the last two files.", "Read the [-first file-]{+last two files+}."),
    ("a b c d e f g h", "a X c d e f Y h", "a [-b-]{+X+} c d e f [-g-]{+Y+} h"),
    ("one two", "one  two", "one[- -]{+  +}two"),
    ("Reads.\n\nFast.", "Reads it.\n\nVery fast.", "Reads{+ it+}.\n\n[-Fast-]{+Very fast+}."),
    ("\u8bfb\u53d6\u6587\u4ef6", "\u8bfb\u53d6", "[-\u8bfb\u53d6\u6587\u4ef6-]{+\u8bfb\u53d6+}"),
]


@pytest.mark.parametrize(("before", "after", "shown"), WORDS, ids=[shown[:40] for *_, shown in WORDS])
def test_the_changes_of_a_text(before: str, after: str, shown: str) -> None:
    parts = word_changes(before, after)
    assert "".join(MARKS[kind].format(text) for kind, text in parts) == shown
    assert "".join(text for kind, text in parts if kind != "added") == before
    assert "".join(text for kind, text in parts if kind != "removed") == after


def schema(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "same": (schema(a=TEXT), schema(a=TEXT), []),
    "order of required": (schema(["a", "b"], a=TEXT, b=TEXT), schema(["b", "a"], b=TEXT, a=TEXT), []),
    "added": (schema(a=TEXT), schema(a=TEXT, b=TEXT), [("argument b", "added")]),
    "added, required": (schema(a=TEXT), schema(["b"], a=TEXT, b=TEXT), [("argument b", "required")]),
    "removed": (schema(["a"], a=TEXT, b=TEXT), schema(["a"], a=TEXT), [("argument b", "removed")]),
    "required": (schema(a=TEXT), schema(["a"], a=TEXT), [("argument a", "required")]),
    "optional": (schema(["a"], a=TEXT), schema(a=TEXT), [("argument a", "optional")]),
    "type widened": (
        schema(a=TEXT),
        schema(a={"type": ["null", "string"]}),
        [("argument a: type", "widened")],
    ),
    "type narrowed": (
        schema(a={"type": ["null", "string"]}),
        schema(a=TEXT),
        [("argument a: type", "narrowed")],
    ),
    "type changed": (schema(a=TEXT), schema(a=NUMBER), [("argument a: type", "changed")]),
    "any type": (schema(a=TEXT), schema(a={}), [("argument a: type", "widened")]),
    "enum widened": (
        schema(a={"enum": [1, 2]}),
        schema(a={"enum": [3, 2, 1]}),
        [("argument a: enum", "widened")],
    ),
    "enum narrowed": (
        schema(a={"enum": [1, 2]}),
        schema(a={"enum": [2]}),
        [("argument a: enum", "narrowed")],
    ),
    "enum added": (schema(a=TEXT), schema(a=TEXT | {"enum": ["x"]}), [("argument a: enum", "narrowed")]),
    "description": (
        schema(a=TEXT | {"description": "One."}),
        schema(a=TEXT | {"description": "Two."}),
        [("argument a: description", "changed")],
    ),
    "default": (
        schema(a=TEXT),
        schema(a=TEXT | {"default": "x"}),
        [("argument a: default", "added")],
    ),
    "nested": (
        schema(a=schema(b=schema(c=TEXT))),
        schema(a=schema(b=schema(["c"], c=TEXT))),
        [("argument a.b.c", "required")],
    ),
    "in a list": (
        schema(a={"type": "array", "items": schema(b=TEXT)}),
        schema(a={"type": "array", "items": schema(b=TEXT, c=TEXT)}),
        [("argument a[].c", "added")],
    ),
    "closed": (
        schema(a=TEXT),
        schema(a=TEXT) | {"additionalProperties": False},
        [("arguments: additionalProperties", "added")],
    ),
    "required without a schema": (schema(a=TEXT), schema(["b"], a=TEXT), [("argument b", "required")]),
    "boolean schema": (schema(a=True), schema(a=TEXT), [("argument a", "changed")]),
}


@pytest.mark.parametrize(("old", "new", "expected"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_changes_of_a_schema(
    old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    changes = definition_changes({"name": "x", "inputSchema": old}, {"name": "x", "inputSchema": new})
    assert [(change.at, change.effect) for change in changes] == expected


def test_the_changes_of_other_fields() -> None:
    old = {
        "name": "x",
        "inputSchema": {},
        "annotations": {"readOnlyHint": True, "title": "X"},
        "_meta": {"ui": {"resourceUri": "ui://a"}, "other": 1},
        "icons": [{"src": "a"}],
    }
    new = {
        "name": "x",
        "inputSchema": {},
        "annotations": {"readOnlyHint": False, "destructiveHint": True},
        "_meta": {"ui": {"resourceUri": "ui://b"}, "other": 2},
        "icons": [{"src": "b"}],
        "outputSchema": {"type": "object"},
    }
    assert [(change.at, change.effect) for change in definition_changes(old, new)] == [
        ("_meta.ui.resourceUri", "changed"),
        ("annotations.destructiveHint", "added"),
        ("annotations.readOnlyHint", "changed"),
        ("annotations.title", "removed"),
        ("icons[0].src", "changed"),
        ("outputSchema", "added"),
    ]


def server(**tools: Mapping[str, Any]) -> LockedServer:
    empty = dict[str, Any]()
    definitions = {name: {"name": name, "inputSchema": empty, **tool} for name, tool in tools.items()}
    return LockedServer(
        launch={"command": "x", "args": ["a", "b"]},
        definitions={"tools": definitions, "prompts": {}, "templates": {}},
    )


def test_the_differences_of_a_server() -> None:
    old = server(same={}, gone={}, changed={"title": "A"})
    new = server(same={}, changed={"title": "B"}, fresh={"description": "New."})
    found = server_differences("s", old, new)
    assert [(one.label, one.status) for one in found] == [
        ("s/changed", "changed"),
        ("s/fresh", "added"),
        ("s/gone", "removed"),
    ]
    assert [(change.at, change.after) for change in found[1].changes if change.after == "New."] == [
        ("description", "New.")
    ]
    everything = server_differences("s", None, new)
    assert [one.label for one in everything] == ["s: launch", "s/changed", "s/fresh", "s/same"]
    assert server_differences("s", new, new) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"enum": [1]}, {"enum": [1, 1]}),
        ({"type": "string"}, {"type": ["string"]}),
    ],
)
def test_a_change_that_changes_no_meaning_is_shown_all_the_same(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    tools = [server(x={"inputSchema": schema(a=one)}) for one in (old, new)]
    [found] = server_differences("s", *tools)
    assert [(change.at, change.before, change.after) for change in found.changes] == [
        ("inputSchema", schema(a=old), schema(a=new))
    ]


def test_a_change_deep_inside_a_schema_is_shown() -> None:
    old: dict[str, Any] = TEXT
    new: dict[str, Any] = NUMBER
    for _ in range(90):
        old, new = schema(a=old), schema(a=new)
    [change] = definition_changes({"inputSchema": old}, {"inputSchema": new})
    assert (change.before, change.after) == ("string", "number")
