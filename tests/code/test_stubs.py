"""Stubs: valid Python for any input of a server, and only for tools that the script names."""

import ast
from typing import Any

import pytest

from tests.inside.code import Library, argument_names, identifiers, joined, stub
from tests.inside.core import Catalog, Origin, ToolSpec


def spec(name: str, properties: dict[str, Any] | None = None, **fields: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties or {}, "required": [*(properties or {})][:1]}
    return ToolSpec(name=name, origin=Origin("s", name), input_schema=schema, **fields)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"enum": ["a", "b'c"]}, "Literal['a', \"b'c\"]"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "str | bool"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {"x-y": {"type": "string"}}}, "FindA"),
        ({}, "Any"),
    ],
)
def test_types_are_those_of_the_schema(schema: dict[str, Any], kind: str) -> None:
    text = stub("find", spec("find", {"a": schema})).text
    assert f"async def find(*, a: {kind}) -> Any:" in text
    ast.parse(text)


def test_a_schema_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}
    made = stub("walk", ToolSpec(name="walk", origin=Origin("s", "walk"), input_schema=schema))
    ast.parse(made.text)
    assert len(made.text) < 5_000


def test_text_of_a_server_stays_a_text() -> None:
    hostile = 'x"""\n\'\nimport os\nos.system("id")\n' + "y" * 100_000
    made = stub("t", spec("t", {"a": {"type": "string", "description": hostile}}, description=hostile))
    tree = ast.parse(made.text)
    assert [type(node).__name__ for node in tree.body] == ["AsyncFunctionDef"]
    assert len(made.text) < 2_000


def test_names_become_identifiers_and_stay_apart() -> None:
    found = identifiers(["get-user", "get_user", "get.user", "class", "9lives", "print", "über"])
    assert found["get_user"] == "get_user"
    assert len(found) == 7
    assert {"class_", "tool_9lives", "print_"} <= found.keys()
    assert all(name.isidentifier() for name in found)
    assert identifiers(["get.user", "get-user", "get_user"]).items() <= found.items()


def test_arguments_get_their_own_names_back() -> None:
    made = stub("t", spec("t", {"from": {}, "user-id": {}, "user_id": {}}))
    assert argument_names({"from": 1, "user-id": 1, "user_id": 1}) == made.arguments
    assert made.tool_arguments({"from_": 1, "user_id_": 2, "user_id": 3}) == {
        "from": 1,
        "user-id": 2,
        "user_id": 3,
    }


def test_of_ten_thousand_tools_only_those_that_are_named_have_stubs() -> None:
    library = Library(Catalog([spec(f"tool_{number}") for number in range(10_000)]))
    stubs = library.stubs("await tool_17()\nawait tool_9999()  # not tool_42x")
    assert sorted(stubs) == ["tool_17", "tool_9999"]
    assert len(joined(stubs.values())) < 300
