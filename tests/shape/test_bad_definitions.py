"""No definition of a tool, however odd, raises on its way to a model, and its neighbor always arrives."""

import json
from copy import deepcopy
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.inside.bus import CatalogShaper
from tests.inside.cli import described
from tests.inside.core import Catalog, tool_spec
from tests.inside.shape import DIALECTS
from tests.properties import modest
from toolbus.config import load_config
from toolbus.records import JSON, Inventory, Quarantined, ToolSpec
from toolbus.shape import converted

SCHEMA: dict[str, JSON] = {
    "type": "object",
    "properties": {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"$ref": "#/$defs/b"}},
    "required": ["a"],
    "$defs": {"b": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "A number."}},
}
TOOL: dict[str, JSON] = {
    "name": "odd",
    "title": "Odd",
    "description": "Does things.",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object"},
    "annotations": {"title": "Odd", "readOnlyHint": True},
    "_meta": {"a": 1},
    "icons": [{"src": "x"}],
}
GOOD: dict[str, JSON] = {"name": "good", "inputSchema": SCHEMA}

texts = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["\ud800", "a\udfff", "\x1b[0m\u202e", ""]
)
scalars = st.none() | st.booleans() | st.integers() | st.just(10**4000) | st.floats() | texts
keywords = st.sampled_from(
    ["type", "properties", "required", "enum", "anyOf", "$ref", "items", "default", "$defs"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords | texts, inner, max_size=4),
    max_leaves=8,
)


def deep(levels: int, leaf: JSON, key: str) -> JSON:
    for _ in range(levels):
        leaf = {key: leaf} if key else [leaf]
    return leaf


nested = st.builds(deep, st.sampled_from([90, 99, 101, 300]), scalars, keywords | st.just(""))


def paths(value: JSON, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, JSON]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[Any, JSON]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[JSON]", value)))
    return [at, *(path for key, item in inner for path in paths(item, (*at, key)))]


@st.composite
def mutated(draw: st.DrawFn) -> JSON:
    """The tool with one place replaced, or a key added there."""
    tool: JSON = deepcopy(TOOL)
    *way, last = draw(st.sampled_from(paths(TOOL)[1:]))
    holder = tool
    for step in way:
        holder = holder[step]
    if isinstance(holder, dict) and draw(st.booleans()):
        last = draw(keywords | texts)
    holder[last] = draw(values | nested)
    return tool


def shaping() -> CatalogShaper:
    override = {"*": {"append": "More.", "arguments": {"a": {"name": "z"}, "b": {"hide": True}}}}
    server = {"command": "x", "override": override, "mark": True, "exclude": [{"openWorldHint": False}]}
    return CatalogShaper(load_config({"servers": {"s": server}}), [])


def arrived(*tools: JSON) -> tuple[Catalog, list[Quarantined]]:
    """The way of a listing to the catalog, as the bus goes it."""
    records = [tool_spec("s", tool) for tool in tools]
    stock = Inventory(tools=tuple(record for record in records if isinstance(record, ToolSpec)))
    bad = [record for record in records if isinstance(record, Quarantined)]
    shapes, left_out = shaping(), dict[str, list[Quarantined]]()
    catalog = Catalog(shapes.tools({"s": stock}, left_out))
    for _, _, message in shapes.warnings({"s": stock}, catalog.specs, left_out):
        message.encode()
    return catalog, [*bad, *left_out.get("s", [])]


@modest
@given(mutated())
@example({**TOOL, "annotations": {"title": 5}})
@example({**TOOL, "name": "bad\ud800"})
@example({**TOOL, "inputSchema": {"properties": 5, "required": 7}})
def test_no_definition_raises_and_the_neighbour_always_survives(tool: JSON) -> None:
    catalog, quarantined = arrived(tool, GOOD)

    assert "s/good" in catalog
    # A definition that now has the neighbour's name, or that no longer fits, is the exclusion at work.
    assert len(catalog) + len(quarantined) <= 2
    catalog.changes_since(arrived(GOOD)[0])
    for spec in catalog:
        for dialect in DIALECTS:
            definition = deepcopy(converted(spec, dialect).value)
            json.dumps(definition, ensure_ascii=False, allow_nan=False).encode()
        str(described(spec)).encode()
    for bad in quarantined:
        f"{bad.tool}: {bad.reason}".encode()


@modest
@given(values | nested)
def test_what_is_no_definition_at_all_is_quarantined(value: JSON) -> None:
    catalog, [bad] = arrived(value, GOOD)

    assert catalog.names == ("s_good",)
    json.dumps([bad.tool, bad.reason], ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "value", [10**5000, deep(5000, 1, "properties"), deep(5000, 1, "")], ids=["long", "deep", "list"]
)
def test_a_value_that_python_itself_cannot_write_costs_one_tool(value: JSON) -> None:
    catalog, [bad] = arrived({**TOOL, "inputSchema": {"default": value}}, GOOD)
    assert (catalog.names, bad.tool) == (("s_good",), "odd")

    catalog, quarantined = arrived({**TOOL, "_meta": {"x": value}, "annotations": {"x": value}}, GOOD)
    assert (catalog["s/odd"].meta, catalog["s/odd"].annotations, quarantined) == ({}, {}, [])
