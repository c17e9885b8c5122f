"""Other people's registries: a port that tools fit by structure, and an engine that discovers as it goes."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from tests import warm
from tests.conftest import SERVERS, plain
from tests.patience import PATIENCE
from toolbus import (
    ConfigError,
    ConnectFailed,
    ShaperFailed,
    Tool,
    Toolbus,
    ToolResult,
    ToolSpec,
)
from toolbus.events import CatalogChanged
from toolbus.extension import discover_and_register

pytestmark = pytest.mark.anyio


@runtime_checkable
class ToolPort(Protocol):
    """A tool as a bot expects it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    async def execute(self, **kwargs: Any) -> ToolResult: ...


class Registry:
    """Takes every tool once, and lets go only of what it has."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def add_tool(self, tool: Tool) -> None:
        assert tool.name not in self.tools
        self.tools[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        del self.tools[name]


async def test_a_tool_is_a_port_by_structure_and_never_raises() -> None:
    async with Toolbus({"servers": {"a": plain()}}) as bus:
        port: ToolPort = bus.tools()[0]  # pyright holds this line to the protocol
        assert isinstance(port, ToolPort)
        assert (port.name, port.parameters["type"]) == ("a_echo", "object")
        assert (await port.execute(text="hello")).text == "hello"
    failed = await port.execute(text="too late")
    assert (failed.is_error, failed.text) == (True, "MCP error: the bus is closed; create a new one")


async def test_the_bots_json_fills_its_registry_and_a_shutdown_empties_it(
    tmp_path: Path, web_ports: dict[str, int]
) -> None:
    settings = {
        "mcp_servers": {
            "github": {
                "transport": "stdio",
                "command": warm.python(),
                "args": [str(SERVERS / "everyday.py"), "stdio"],
                "env": {"GITHUB_TOKEN": "..."},
            },
            "myapi": {"transport": "http", "url": f"http://127.0.0.1:{web_ports['http']}/mcp"},
            "gone": {"transport": "stdio", "command": "no-such-program"},
        }
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    registry = Registry()
    async with Toolbus(tmp_path / "settings.json") as bus:
        bus.register_into(registry)
        assert {tool.server for tool in registry.tools.values()} == {"github", "myapi"}
        assert (await registry.tools["github_environment"].execute(name="GITHUB_TOKEN")).text == "..."
        assert (await registry.tools["myapi_add"].execute(a=1, b=2)).text == "3"
        assert list(bus.failures) == ["gone"]
    assert registry.tools == {}


async def test_an_unknown_transport_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="unknown transport 'smoke'"):
        Toolbus({"mcp_servers": {"a": {"transport": "smoke", "command": "x"}}})


def aidk(name: str = "desk-mcp", **more: Any) -> dict[str, Any]:
    """A server as AIDK writes it."""
    command = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    return {"serverName": name, "transport": "stdio", "connection": command, **more}


async def test_a_server_is_discovered_and_registered_in_one_call_and_removed_with_its_tools() -> None:
    registry = Registry()
    async with Toolbus({"servers": {}}) as bus:
        await discover_and_register(bus, registry, aidk())
        assert set(registry.tools) == set(bus.catalog.names)
        assert {tool.server for tool in registry.tools.values()} == {"desk-mcp"}
        assert (await registry.tools["desk-mcp_add"].execute(a=2, b=2)).text == "4"
        await bus.remove_server("desk-mcp")
        assert registry.tools == {}
        await discover_and_register(bus, registry, aidk(), select=lambda tool: tool.origin.tool == "echo")
        assert list(registry.tools) == ["desk-mcp_echo"]
    assert registry.tools == {}


async def test_every_transport_of_the_engine_is_understood(web_ports: dict[str, int]) -> None:
    registry = Registry()
    sse = {"url": f"http://127.0.0.1:{web_ports['sse']}/sse"}
    http = {"url": f"http://127.0.0.1:{web_ports['http']}/mcp"}
    async with Toolbus({"servers": {}}) as bus:
        bearer = {"type": "bearer", "token": "your-api-token"}
        await discover_and_register(
            bus, registry, {"serverName": "api", "transport": "sse", "connection": sse, "auth": bearer}
        )
        await discover_and_register(
            bus, registry, {"serverName": "cloud", "transport": "websocket", "connection": http}
        )
        for server in ("api", "cloud"):
            assert (await registry.tools[f"{server}_echo"].execute(text=server)).text == server


def presented(tool: ToolSpec) -> ToolSpec | None:
    if tool.origin.tool not in ("add", "echo"):
        return None
    return replace(
        tool,
        name=f"mcp_{tool.origin.tool}",
        description=f"[MCP] {tool.description}",
        options={"openai": {"strict": True}},
    )


async def test_a_transform_renames_describes_gives_options_and_drops_for_this_registry_alone() -> None:
    registry = Registry()
    async with Toolbus({"servers": {}}) as bus:
        await discover_and_register(bus, registry, aidk(), transform=presented)
        assert sorted(registry.tools) == ["mcp_add", "mcp_echo"]
        definition = registry.tools["mcp_echo"].definition("openai")
        assert definition["function"]["description"] == "[MCP] Say it again."
        assert definition["function"]["strict"] is True
        assert (await registry.tools["mcp_echo"].execute(text="hello")).text == "hello"
        assert "desk-mcp_echo" in bus.catalog


async def test_a_changed_schema_reaches_the_model_and_the_server_still_gets_its_own() -> None:
    def narrowed(tool: ToolSpec) -> ToolSpec:
        schema = {"type": "object", "properties": {"text": {"enum": ["yes", "no"]}}, "required": ["text"]}
        return replace(tool, input_schema=schema)

    registry = Registry()
    async with Toolbus({"servers": {}}) as bus:
        await discover_and_register(
            bus, registry, aidk(), select=lambda tool: tool.origin.tool == "echo", transform=narrowed
        )
        [tool] = registry.tools.values()
        assert tool.parameters["properties"]["text"] == {"enum": ["yes", "no"]}
        assert (await tool.execute(text="yes")).text == "yes"
        assert (await tool.execute(text="perhaps")).is_error


async def test_two_tools_that_are_given_one_name_both_stay_callable() -> None:
    registry = Registry()
    async with Toolbus({"servers": {}}) as bus:
        for name in ("one", "two"):
            await discover_and_register(bus, registry, aidk(name), transform=presented)
        names = sorted(registry.tools)
        assert [name for name in names if len(name) < 10] == ["mcp_add", "mcp_echo"]
        assert len(names) == 4
        assert {tool.server for tool in registry.tools.values()} == {"one", "two"}
        await bus.remove_server("one")
        assert sorted(registry.tools) == ["mcp_add", "mcp_echo"]
        assert {tool.server for tool in registry.tools.values()} == {"two"}


async def test_a_registered_server_is_followed_through_the_same_transform(web_ports: dict[str, int]) -> None:
    def marked(tool: ToolSpec) -> ToolSpec:
        return replace(tool, description=f"[MCP] {tool.description}")

    registry = Registry()
    async with Toolbus({"servers": {"other": plain()}}) as bus:
        await discover_and_register(bus, registry, aidk("desk"), transform=marked)
        events = bus.events()
        await bus.call("desk_grow", {"name": "fresh"})
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                if isinstance(event, CatalogChanged):
                    break
        assert registry.tools["desk_fresh"].description == "[MCP] Grown at run time."
        assert "other_echo" not in registry.tools


async def test_a_cut_result_can_be_read_on_in_every_registry_once_and_under_its_own_name() -> None:
    registry = Registry()
    async with Toolbus({"servers": {}, "budget": 1000}) as bus:
        for name in ("one", "two"):
            await discover_and_register(
                bus, registry, aidk(name), select=lambda tool: tool.origin.tool == "big"
            )
        result = await registry.tools["one_big"].execute(size=5000)
        assert sorted(registry.tools) == ["one_big", "read_result", "two_big"]
        kept = result.meta["toolbus"]["kept_as"]
        assert not (await registry.tools["read_result"].execute(id=kept)).is_error
    assert registry.tools == {}


async def test_a_server_that_cannot_be_connected_is_an_error_and_leaves_nothing() -> None:
    registry = Registry()
    broken = {"serverName": "broken", "transport": "stdio", "connection": {"command": "no-such-program"}}
    async with Toolbus({"servers": {}}) as bus:
        with pytest.raises(ConnectFailed, match="'no-such-program' not found"):
            await discover_and_register(bus, registry, broken)
        with pytest.raises(ConfigError, match="comand: unknown key; did you mean 'command'"):
            await discover_and_register(bus, registry, {"serverName": "x", "connection": {"comand": "y"}})
        assert (registry.tools, bus.servers) == ({}, {})


async def test_a_transform_that_raises_is_an_error_and_leaves_nothing() -> None:
    def careless(tool: ToolSpec) -> ToolSpec:
        raise KeyError("missing")

    registry = Registry()
    async with Toolbus({"servers": {}}) as bus:
        with pytest.raises(ShaperFailed, match="KeyError: 'missing'"):
            await discover_and_register(bus, registry, aidk(), transform=careless)
        assert (registry.tools, bus.servers) == ({}, {})
