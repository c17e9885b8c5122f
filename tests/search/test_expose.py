"""`expose`: what a model is shown of a catalog, and how it reaches the rest."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from tests.gateway.driving import client_of, gateway_over, text_of
from tests.inside.bus import CALL_TOOL, Exposure, calls_of, definition_cost
from tests.inside.core import Catalog
from tests.inside.schema import InvalidSchema, Validator
from tests.inside.shape import trimmed_schema
from tests.properties import modest
from tests.servers.everyday import everyday
from tests.shape.corpus import specs
from tests.shape.schemas import sane_tops
from tests.shape.table import many
from toolbus import Toolbus
from toolbus.adapters.tool_list import ToolList
from toolbus.errors import ConfigError, ToolNotFound
from toolbus.events import CallStarted, Event
from toolbus.records import JSON

pytestmark = pytest.mark.anyio


def _config(**settings: Any) -> dict[str, Any]:
    return {"servers": {"a": {"server": everyday()}, "b": {"server": everyday()}}, **settings}


async def test_a_model_is_shown_two_tools_and_those_that_are_always_shown() -> None:
    async with Toolbus(_config(expose="search", always=["a/add"])) as bus:
        assert [tool.name for tool in bus.tools()] == ["a_add", "search_tools", "call_tool"]
        search = bus.tools()[1]
        assert search.description.endswith("numbers of tools: a (15), b (16).")
        assert len(bus.catalog) == 32
        assert [tool.name for tool in ToolList(bus, lambda tool: tool, "b")] == ["search_tools", "call_tool"]
        everything = bus.view(expose="all")
        assert len(everything.tools()) == 32
        assert len(bus.view(always="*").tools()) == 32
        with pytest.raises(ToolNotFound):
            await everything.call("call_tool", {"name": "a_add", "arguments": {"a": 1, "b": 2}})


async def test_a_model_searches_and_calls_what_it_found() -> None:
    events: list[Event] = []
    async with Toolbus(_config(expose="search"), on_event=events.append) as bus:
        search, call = bus.tools("a")
        first, *found = (await search.execute(queries=["add two numbers"])).text.splitlines()
        assert "call_tool" in first
        assert json.loads(found[0]) == {
            "name": "a_add",
            "description": "Add two numbers.",
            "input_schema": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        }
        assert not any('"b_' in line for line in found)
        assert (await call.execute(name="a_add", arguments={"a": 1, "b": 2})).text == "3"
        assert (await call.execute(name="a_add", a=1, b=2)).text == "3"
        assert (await bus.call("call_tool", {"name": "a_add", "arguments": '{"a": 2, "b": 2}'})).text == "4"
        assert (await bus.call("a_add", {"a": 5, "b": 2})).text == "7"
        # Of one server's view, the tools of others cannot be reached.
        assert (await call.execute(name="b_add", arguments={"a": 1, "b": 2})).is_error
    started = [event.tool for event in events if isinstance(event, CallStarted)]
    assert started[:2] == ["search_tools", "add"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "a_ad", "arguments": {}}, "did you mean 'a_add'"),
        ({"name": "a_add", "arguments": {"a": "x"}}, 'The input_schema of \'a_add\': {"type":"object"'),
        ({"arguments": {"a": 1}}, "'name' is missing"),
        ({"name": "call_tool", "arguments": {}}, "cannot call itself"),
        ({"name": 7, "arguments": {}}, "no tool named '7'"),
    ],
)
async def test_a_mistake_is_answered_with_the_next_step(arguments: dict[str, JSON], expected: str) -> None:
    async with Toolbus(_config(expose="search")) as bus:
        result = await bus.tools()[-1].run(arguments)
    assert result.is_error
    assert expected in result.text


@pytest.mark.parametrize("queries", [[], [""], [" \n"], None])
async def test_an_empty_query_is_answered(queries: JSON) -> None:
    async with Toolbus(_config(expose="search")) as bus:
        result = await bus.tools()[0].run({"queries": queries})
    assert result.is_error
    assert "quer" in result.text


async def test_a_huge_query_and_one_without_a_tool_are_answered() -> None:
    async with Toolbus(_config(expose="search")) as bus:
        search = bus.tools()[0]
        assert '"a_add"' in (await search.execute(queries=["add two numbers " * 7_000])).text
        assert "no tool fits 'zzz'" in (await search.execute(queries=["zzz"])).text


async def test_a_tool_that_vanished_is_answered() -> None:
    async with Toolbus(_config(expose="search")) as bus:
        call = bus.tools()[-1]
        await bus.remove_server("a")
        result = await call.execute(name="a_add", arguments={"a": 1, "b": 2})
    assert result.is_error
    assert "no tool named 'a_add' among 16; did you mean" in result.text


async def test_policy_decides_about_the_tool_that_is_called() -> None:
    rules = [{"tools": "a/add", "do": "deny"}, {"tools": "b/add", "do": "ask"}]
    async with Toolbus(_config(expose="search", policy=rules)) as bus:
        search, call = bus.tools()
        assert '"a_add"' not in (await search.execute(queries=["a_add"])).text
        denied = await call.execute(name="a_add", arguments={"a": 1, "b": 2})
        assert denied.is_error
        assert "policy[0]" in denied.text
        request = calls_of(bus).approval_needed(CALL_TOOL, {"name": "b_add", "arguments": {"a": 1, "b": 2}})
        assert request is not None
        assert request.name == "b_add"
        approved = request.approved("test", "once")
        given: Mapping[str, JSON] = {"name": "b_add", "arguments": {"a": 1, "b": 2}}
        assert (await call.run(given, approval=approved)).text == "3"
        other: Mapping[str, JSON] = {"name": "b_add", "arguments": {"a": 1, "b": 3}}
        assert (await call.run(other, approval=approved)).is_error


async def test_auto_decides_by_the_cost_of_definitions() -> None:
    async with Toolbus(_config(expose="auto")) as bus:
        cost = sum(definition_cost(spec) for spec in bus.catalog)
        assert len(bus.tools()) == 32
        assert Exposure(mode="auto", budget=cost).shown(bus.catalog) is bus.catalog
        assert len(Exposure(mode="auto", budget=cost - 1).shown(bus.catalog)) == 2


async def test_the_names_are_reserved() -> None:
    server = everyday()

    @server.tool()
    def call_tool() -> str:
        """Ours."""
        return "the server's own"

    async with Toolbus({"servers": {"a": {"server": server, "prefix": ""}}}) as bus:
        name = next(spec.name for spec in bus.catalog if spec.origin.tool == "call_tool")
        assert name.startswith("call_tool_")
        assert (await bus.call("a/call_tool")).text == "the server's own"


def test_mistakes_in_the_config_are_named() -> None:
    for settings, key in (({"expose": "some"}, "expose"), ({"expose_budget": -1}, "expose_budget")):
        with pytest.raises(ConfigError, match=key):
            Toolbus(_config(**settings))
    with pytest.raises(ValueError, match="expose must be one of all, search, code, auto"):
        Toolbus(_config()).view(expose="some")  # pyright: ignore[reportArgumentType]  # that is the point


async def test_a_registry_gets_the_two_tools() -> None:
    class Registry:
        def __init__(self) -> None:
            self.tools: list[str] = []

        def add_tool(self, tool: Any) -> None:
            self.tools.append(tool.name)

    async with Toolbus(_config(expose="search")) as bus:
        registry = Registry()
        bus.register_into(registry)
        assert registry.tools == ["search_tools", "call_tool"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_clients_of_the_gateway_search_and_call(era: Any) -> None:
    async with gateway_over(_config(expose="search")) as gateway:
        client = await client_of(era, gateway, {})
        listed = await client.request("tools/list", {})
        assert [tool["name"] for tool in listed["tools"]] == ["search_tools", "call_tool"]
        found = await client.request(
            "tools/call", {"name": "search_tools", "arguments": {"queries": ["add numbers"]}}
        )
        assert '"a_add"' in text_of(found)
        inner = {"name": "a_add", "arguments": {"a": 1, "b": 2}}
        called = await client.request("tools/call", {"name": "call_tool", "arguments": inner})
        assert text_of(called) == "3"
        wrong = await client.request(
            "tools/call", {"name": "call_tool", "arguments": {"name": "a_add", "arguments": {"a": 1}}}
        )
        assert wrong["isError"]
        assert "The input_schema of 'a_add'" in text_of(wrong)
        unknown = await client.request(
            "tools/call", {"name": "call_tool", "arguments": {"name": "a_ad", "arguments": {}}}
        )
        assert unknown["isError"]
        assert "did you mean 'a_add'" in text_of(unknown)
        direct = await client.request("tools/call", inner)
        assert text_of(direct) == "3"


def test_the_first_request_costs_a_twentieth_at_most() -> None:
    catalog = Catalog(many(500))
    assert len(catalog) == 500
    shown = Exposure(mode="search").shown(catalog)
    cost = sum(map(definition_cost, shown))
    assert cost <= 0.05 * sum(map(definition_cost, catalog))
    again = Exposure(mode="search").shown(Catalog(many(500)))
    assert [(one.name, one.description, one.input_schema) for one in again] == [
        (one.name, one.description, one.input_schema) for one in shown
    ]


@modest
@given(sane_tops())
def test_a_trimmed_schema_accepts_the_same_values(schema: Any) -> None:
    lean = trimmed_schema(schema)
    before, after = Validator(schema), Validator(lean)
    values: list[JSON] = [{}, {"a": 1}, {"a": None}, {"a": "x", "b": []}, {"b": {"a": [1]}}]
    for value in values:
        assert before.accepts(value) == after.accepts(value)


def test_real_schemas_are_trimmed_and_accept_the_same() -> None:
    saved = 0
    for spec in specs():
        lean = trimmed_schema(spec.input_schema)
        saved += len(json.dumps(spec.input_schema)) - len(json.dumps(lean))
        try:
            before = Validator(spec.input_schema)
        except InvalidSchema:
            continue
        after = Validator(lean)
        names = list(spec.input_schema.get("properties", {}))
        for value in ({}, dict.fromkeys(names, 1), dict.fromkeys(names, "x"), dict.fromkeys(names, None)):
            assert before.accepts(value) == after.accepts(value)
    assert saved > 0
