"""A tool as a model sees it can be changed, and every tool records its changes."""

from dataclasses import replace

import pytest

from tests.inside.core import ArgumentMap, JSONObject
from tests.inside.shape import cleaned_texts, marked, named, prefixed, selected, shaped, unmatched
from toolbus import ShaperFailed
from toolbus.records import Change, Origin, ToolSpec
from toolbus.shape import Shaper, each, excluding, including, overridden

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "user": {"type": "string"}},
    "required": ["path", "user"],
}


def tool(origin: str, **more: object) -> ToolSpec:
    server, name = origin.split("/")
    return replace(ToolSpec(name=name, origin=Origin(server, name), input_schema=SCHEMA), **more)


READ = tool("files/read", annotations={"readOnlyHint": True})
WRITE = tool("files/write", annotations={"readOnlyHint": False, "destructiveHint": False})
SILENT = tool("git/log")
ALL = [READ, WRITE, SILENT]


@pytest.mark.parametrize(
    ("shaper", "kept"),
    [
        (selected({"files": (["re*"], [])}), [READ, SILENT]),
        (selected({"files": ([], ["re*"])}), [WRITE, SILENT]),
        (selected({"files": ([{"readOnlyHint": True}], [])}), [READ, SILENT]),
        (selected({"files": (["write", {"readOnlyHint": True}], [])}), ALL),
        (including("files/*"), [READ, WRITE]),
        (including("*/log"), [SILENT]),
        (including({"readOnlyHint": True}), [READ]),
        (excluding("git/*", "*/write"), [READ]),
        # A tool that says nothing may destroy: so the protocol has it.
        (excluding({"destructiveHint": True, "readOnlyHint": False}), [READ, WRITE]),
        (excluding(), ALL),
    ],
)
def test_tools_are_left_out_by_name_server_and_annotation(shaper: Shaper, kept: list[ToolSpec]) -> None:
    assert shaper(ALL) == kept


def test_a_pattern_that_no_tool_fits_is_told() -> None:
    assert unmatched(ALL, ["read", "raed", {"readOnlyHint": True}, {"openWorldHint": False}]) == [
        "raed",
        {"openWorldHint": False},
    ]


def test_arguments_are_hidden_fixed_renamed_described_and_mapped_back() -> None:
    rule = {
        "name": "open_file",
        "description": "Open a file.",
        "append": "Only small ones.",
        "arguments": {
            "path": {"name": "file", "description": "Where it is."},
            "limit": {"hide": True},
            "user": {"value": "ann"},
        },
        "options": {"openai": {"strict": True}},
    }

    [spec] = overridden({"files/re*": rule})([READ])

    assert (spec.name, spec.description) == ("open_file", "Open a file. Only small ones.")
    assert spec.input_schema == {
        "type": "object",
        "properties": {"file": {"type": "string", "description": "Where it is."}},
        "required": ["file"],
    }
    assert spec.options == {"openai": {"strict": True}}
    given = {"file": "a", "limit": 5, "user": "eve", "other": 1}
    assert spec.to_server(given) == {"path": "a", "user": "ann", "other": 1}
    assert READ.input_schema == SCHEMA


def test_a_default_makes_an_argument_optional_and_is_sent_unless_given() -> None:
    rules = {"*": {"arguments": {"user": {"default": "ann"}, "limit": {"default": 9, "hide": True}}}}

    [spec] = overridden(rules)([READ])

    assert spec.input_schema["properties"] == {
        "path": {"type": "string"},
        "user": {"type": "string", "default": "ann"},
    }
    assert spec.input_schema["required"] == ["path"]
    assert spec.to_server({"path": "a"}) == {"path": "a", "user": "ann", "limit": 9}
    assert spec.to_server({"path": "a", "user": "bob"}) == {"path": "a", "user": "bob", "limit": 9}


def test_a_required_argument_that_nobody_fills_in_cannot_be_hidden() -> None:
    [spec] = overridden({"*": {"arguments": {"path": {"hide": True}}}})([READ])

    assert spec.input_schema["required"] == ["path", "user"]


def test_two_rules_apply_one_after_the_other_and_are_undone_in_reverse() -> None:
    rules = {
        "files/*": {"arguments": {"path": {"name": "file"}}},
        "*/read": {"arguments": {"file": {"name": "where"}, "limit": {"value": 1}}},
    }

    [spec] = overridden(rules)([READ])

    assert list(spec.input_schema["properties"]) == ["where", "user"]
    assert spec.to_server({"where": "a", "user": "u"}) == {"path": "a", "user": "u", "limit": 1}
    assert spec.maps[0] == ArgumentMap(renamed={"file": "path"})


def test_a_schema_can_be_replaced_and_the_servers_own_is_kept() -> None:
    own: JSONObject = {"type": "object", "properties": {"path": {"enum": ["a"]}}}

    [spec] = shaped([READ], [overridden({"*": {"schema": own}})])

    assert spec.input_schema == own
    assert spec.server_schema is SCHEMA


def test_descriptions_say_whose_the_tool_is_where_that_is_asked_for() -> None:
    described = replace(READ, description="Read a file.")

    marked_tools = marked({"files": True, "git": False})([described, WRITE, SILENT])

    assert [spec.description for spec in marked_tools] == ["[MCP: files] Read a file.", "[MCP: files]", ""]


def test_a_function_for_one_tool_is_a_shaper_and_may_drop_it() -> None:
    def only_reading(spec: ToolSpec) -> ToolSpec | None:
        return replace(spec, title="Reader") if spec.annotations.get("readOnlyHint") else None

    [spec] = shaped(ALL, [each(only_reading)])

    assert (spec.origin, spec.title) == (READ.origin, "Reader")
    assert spec.history[0].shaper.endswith("only_reading")


def test_a_tool_tells_what_was_done_to_it_and_by_whom() -> None:
    def louder(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [replace(spec, description=spec.description.upper(), title="T") for spec in tools]

    rules = {"files/read": {"description": "read"}}
    specs = shaped([READ, SILENT], [overridden(rules), louder, named("auto", {"files": None, "git": None})])

    assert [spec.history for spec in specs] == [
        (
            Change(shaper="overridden", fields=("description",)),
            Change(shaper=louder.__qualname__, fields=("description", "title")),
        ),
        (Change(shaper=louder.__qualname__, fields=("title",)),),
    ]


def test_a_tool_that_nobody_touched_is_the_same_object() -> None:
    assert shaped([READ], [selected({}), overridden({"no/*": {"name": "x"}}), cleaned_texts()])[0] is READ


def test_a_shaper_that_raises_is_named() -> None:
    def broken(tools: list[ToolSpec]) -> list[ToolSpec]:
        raise KeyError("x")

    with pytest.raises(ShaperFailed, match="broken"):
        shaped(ALL, [broken])


def test_a_name_given_by_a_shaper_is_taken_to_the_letter_and_first() -> None:
    renamed = replace(tool("files/find"), name="git_log")
    name = named("auto", {"files": None, "git": None})

    given, rightful = name([renamed, SILENT])

    assert given.name == "git_log"
    assert rightful.name.startswith("git_log_")
    assert [spec.name for spec in name([replace(READ, name="not legal!")])] == ["not_legal_"]


def test_a_prefix_counts_for_a_given_name_too_and_not_for_the_one_the_bus_gave() -> None:
    specs = shaped(
        [tool("files/a.b"), READ],
        [overridden({"*/read": {"name": "open"}}), named("{tool}", {"files": None})],
    )

    assert [spec.name for spec in specs] == ["a_b", "open"]
    assert [spec.name for spec in prefixed("fs")(specs)] == ["fs_a_b", "fs_open"]


def test_all_texts_are_cleaned_and_a_call_has_the_servers_own_names_and_values() -> None:
    hidden = "\u200b\u202e\U000e0041"
    schema: JSONObject = {
        "properties": {f"p{hidden}": {"description": f"a{hidden}b", "enum": [f"v{hidden}"]}},
        "anyOf": [{"title": f"t{hidden}"}],
    }
    dirty = tool("files/x", description=f"Reads{hidden} \x1b[31mred\x1b[0m", input_schema=schema)

    [spec] = shaped([dirty], [cleaned_texts()])

    assert spec.description == "Reads red"
    assert spec.input_schema == {
        "properties": {"p": {"description": "ab", "enum": ["v"]}},
        "anyOf": [{"title": "t"}],
    }
    assert spec.to_server({"p": "v"}) == {f"p{hidden}": f"v{hidden}"}
    assert spec.history == (Change(shaper="cleaned_texts", fields=("description", "input_schema", "maps")),)
    assert spec.server_schema is schema


def test_an_argument_cannot_take_the_name_of_another() -> None:
    [spec] = overridden({"*": {"arguments": {"path": {"name": "user"}}}})([READ])

    assert list(spec.input_schema["properties"]) == ["path", "limit", "user"]
    assert spec.to_server({"path": "a", "user": "u"}) == {"path": "a", "user": "u"}


def test_null_stands_for_the_default_too() -> None:
    [spec] = overridden({"*": {"arguments": {"limit": {"default": 7}}}})([READ])

    assert spec.to_server({"path": "a", "user": "u", "limit": None})["limit"] == 7
