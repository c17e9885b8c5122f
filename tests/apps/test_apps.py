"""Tools for the user interfaces of servers (MCP Apps) reach no model; clients that show these get them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.freshness.growing_bus import over_http, over_stdio, text_of
from tests.gateway.driving import ModernClient, client_of, gateway_over
from tests.gateway.driving import text_of as text_for_client
from tests.inside.bus import calls_of
from tests.inside.core import is_app_only
from tests.inside.gateway import LOCAL, ProtocolError
from toolbus import Toolbus, ToolNotFound
from toolbus.adapters import anthropic, openai

pytestmark = pytest.mark.anyio

UI = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
PLAIN = ["g_grow", "g_break", "g_stall", "g_counts", "g_declared", "g_show"]
EVERY = sorted([*PLAIN, "g_refresh"])
FLAT = {"ui/visibility": ["app"], "ui/resourceUri": "ui://dash"}
ERAS: list[Any] = ["modern", "legacy"]


def config(server: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"servers": {"g": server or over_stdio(apps=True)}, **more}


@pytest.mark.parametrize(
    ("meta", "hidden"),
    [
        ({"ui": {"visibility": ["app"]}}, True),
        ({"ui": {"visibility": []}}, True),
        ({"ui": {"visibility": "app"}}, True),
        (FLAT, True),
        ({"ui": {"resourceUri": "ui://x"}, "ui/visibility": ["app"]}, True),
        ({"ui": {"visibility": ["model", "app"]}}, False),
        ({"ui": {"visibility": ["model"]}, "ui/visibility": ["app"]}, False),
        ({"ui": {"visibility": None}}, False),
        ({"ui": {"visibility": {"app": True}}}, False),
        ({"ui": "app"}, False),
        ({"ui": {}}, False),
        ({}, False),
    ],
)
def test_a_tool_is_hidden_if_its_visibility_does_not_name_models(meta: dict[str, Any], hidden: bool) -> None:
    assert is_app_only(meta) is hidden


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_servers_are_told_that_user_interfaces_are_supported(
    era: str, transport: str, tmp_path: Path
) -> None:
    async def declared(entry: dict[str, Any]) -> None:
        async with Toolbus(config(entry)) as bus:
            assert sorted(bus.catalog.names) == EVERY
            said = json.loads(text_of(await bus.call("g_declared")))
            assert said["extensions"]["io.modelcontextprotocol/ui"] == {
                "mimeTypes": ["text/html;profile=mcp-app"]
            }

    if transport == "stdio":
        await declared(over_stdio(era=era, apps=True))
    else:
        with over_http(tmp_path, era=era, apps=True) as entry:
            await declared(entry)


@pytest.mark.parametrize("visibility", [{"ui": {"visibility": ["app"]}}, FLAT], ids=["ui", "flat"])
@pytest.mark.parametrize("era", ERAS)
async def test_no_list_for_a_model_has_them(era: str, visibility: dict[str, Any]) -> None:
    server = over_stdio(era=era, apps=True, visibility=visibility)
    async with Toolbus(config(server)) as bus:
        for view in (bus, bus.view(servers="g"), bus.as_user("ann"), bus.view(include="g_*")):
            assert sorted(tool.name for tool in view.tools()) == sorted(PLAIN)
            assert sorted(calls_of(view).exposed.names) == sorted(PLAIN)
            assert [tool.name for tool in view.tools(loadable=True)] == [t.name for t in view.tools()]
            assert "g_refresh" not in [hit.name for hit in view.search(["refresh the dashboard"], limit=50)]
        registry = Registry()
        bus.register_into(registry)
        bus.register_into(registry, tools=["g_refresh", "g_show"])
        assert sorted(registry.tools) == sorted(PLAIN)
        assert "g_refresh" in bus.catalog, "a program can still call it"
        assert text_of(await bus.call("g_refresh")) == "called refresh"
        assert text_of(await bus.call("g/refresh")) == "called refresh"


class Registry:
    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}

    def add_tool(self, tool: Any) -> None:
        self.tools[tool.name] = tool


async def test_a_model_cannot_reach_them_by_search_or_call_tool() -> None:
    async with Toolbus(config(expose="search")) as bus:
        found = text_of(await bus.call("search_tools", {"queries": ["refresh dashboard", "g_refresh"]}))
        assert "g_refresh" not in found
        assert "g_show" in found
        (search,) = (tool for tool in bus.tools() if tool.name == "search_tools")
        assert "6 tools are available" in search.description
        for name in ("g_refresh", "g/refresh"):
            with pytest.raises(ToolNotFound) as failed:
                await bus.call("call_tool", {"name": name, "arguments": {}})
            assert "g_refresh" not in failed.value.close_matches
        (call,) = (tool for tool in bus.tools() if tool.name == "call_tool")
        said = await call.execute(name="g_refresh", arguments={})
        assert said.text.startswith("MCP error: no tool named 'g_refresh'")
        assert text_of(await call.execute(name="g_show", arguments={})) == "called show"
        hidden = bus.catalog["g_refresh"]
        with pytest.raises(ToolNotFound):
            await calls_of(bus).run(hidden, {})


async def test_a_model_cannot_reach_them_by_scripts() -> None:
    async with Toolbus(config(expose="code")) as bus:
        assert "refresh" not in bus.scripts.stubs()
        functions = text_of(await bus.call("search_tools", {"queries": ["refresh dashboard"]}))
        assert "g_refresh" not in functions
        assert "g_show" in functions
        failed = await bus.call("run_code", {"script": "await g_refresh()"})
        assert failed.is_error
        done = await bus.call("run_code", {"script": "await g_show()"})
        assert "called show" in text_of(done)


@pytest.mark.parametrize("expose", ["all", "search"])
async def test_adapters_neither_show_nor_call_them(expose: Any) -> None:
    async with Toolbus(config(expose=expose)) as bus:
        for tools in (openai.tools(bus), openai.tools(bus, dialect="openai-responses"), anthropic.tools(bus)):
            assert "g_refresh" not in json.dumps(list(tools))
        use: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "g_refresh", "input": {}}
        replies = await anthropic.tools(bus).replies({"role": "assistant", "content": [use]})
        (answer,) = replies.answers
        assert answer.result.is_error
        assert "no tool named 'g_refresh'" in answer.result.text


async def test_names_of_other_tools_are_the_same_with_and_without_them() -> None:
    servers = {
        "g": {**over_stdio(apps=True), "prefix": ""},
        "h": {**over_stdio(apps=True, visibility={}), "prefix": ""},
    }
    async with Toolbus({"servers": servers, "naming": "{tool}"}) as bus:
        assert bus.catalog["refresh"].origin.server == "g"
        assert bus.catalog["refresh"].is_app_only
        named = {str(tool.origin): tool.name for tool in bus.tools()}
        assert "g/refresh" not in named
        assert named["h/refresh"] == bus.catalog["h/refresh"].name != "refresh"


# The gateway


async def listed(client: Any) -> dict[str, dict[str, Any]]:
    found = await client.request("tools/list")
    return {tool["name"]: tool for tool in found["tools"]}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_clients_with_the_extension_get_them_and_others_beside_them_do_not(
    era: Any, server_era: str
) -> None:
    async with gateway_over(config(over_stdio(era=server_era, apps=True))) as gateway:
        rich, poor = (
            await client_of(era, gateway, capabilities=UI),
            await client_of(era, gateway, capabilities={}),
        )
        assert sorted(await listed(rich)) == EVERY
        assert sorted(await listed(poor)) == sorted(PLAIN)
        assert sorted(await listed(rich)) == EVERY
        assert text_for_client(await rich.request("tools/call", {"name": "g_refresh"})) == "called refresh"
        for name in ("g_refresh", "g/refresh"):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await poor.request("tools/call", {"name": name})
        assert text_for_client(await poor.request("tools/call", {"name": "g_show"})) == "called show"


@pytest.mark.parametrize("era", ERAS)
async def test_in_search_mode_clients_get_them_for_their_interfaces_and_models_do_not(era: Any) -> None:
    async with gateway_over(config(expose="search")) as gateway:
        rich, poor = (
            await client_of(era, gateway, capabilities=UI),
            await client_of(era, gateway, capabilities={}),
        )
        assert list(await listed(rich)) == ["search_tools", "call_tool", "g_refresh"]
        assert list(await listed(poor)) == ["search_tools", "call_tool"]
        for client in (rich, poor):
            inner: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "g_refresh", "arguments": {}}}
            said = await client.request("tools/call", inner)
            assert said["isError"]
            assert "no tool named 'g_refresh'" in text_for_client(said)


@pytest.mark.parametrize("era", ERAS)
async def test_metadata_and_interfaces_pass_unharmed(era: Any) -> None:
    async with gateway_over(config()) as gateway:
        client = await client_of(era, gateway, capabilities=UI)
        tools = await listed(client)
        assert tools["g_show"]["_meta"] == {
            "ui": {"resourceUri": "ui://dash", "visibility": ["model", "app"]}
        }
        assert tools["g_refresh"]["_meta"] == {"ui": {"visibility": ["app"], "resourceUri": "ui://dash"}}
        read = await client.request("resources/read", {"uri": "ui://dash"})
        (part,) = read["contents"]
        assert part == {
            "uri": "ui://dash",
            "text": "ui://dash 1",
            "mimeType": "text/html;profile=mcp-app",
            "_meta": {"ui": {"csp": {}}},
        }


OTHERS: list[Any] = [
    {},
    {"extensions": {"io.modelcontextprotocol/ui": {}}},
    {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/uri-list"]}}},
    {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": "text/html;profile=mcp-app"}}},
    {"extensions": {"io.modelcontextprotocol/ui": True}},
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("capabilities", OTHERS, ids=["none", "no type", "other type", "text", "true"])
async def test_nobody_else_gets_interfaces_or_what_leads_to_them(era: Any, capabilities: Any) -> None:
    server = over_stdio(apps=True, lists_apps=True)
    async with gateway_over(config(server)) as gateway:
        rich = await client_of(era, gateway, capabilities=UI)
        poor = await client_of(era, gateway, capabilities=capabilities)
        for client, expected in ((poor, False), (rich, True), (poor, False)):
            tools = await listed(client)
            assert ("_meta" in tools["g_show"]) is expected
            assert ("g_refresh" in tools) is expected
            resources = (await client.request("resources/list"))["resources"]
            assert ("ui://dash" in [one["uri"] for one in resources]) is expected
            assert "data://r0" in [one["uri"] for one in resources]
            templates = (await client.request("resources/templates/list"))["resourceTemplates"]
            assert ("ui://dash/{day}" in [one["uriTemplate"] for one in templates]) is expected
        for uri in ("ui://dash", "ui://dash/monday", "g+ui://dash", "g+ui://a+b", "UI://dash"):
            with pytest.raises(ProtocolError, match="not found"):
                await poor.request("resources/read", {"uri": uri})
        for uri in ("ui://dash", "ui://dash/monday"):
            assert (await rich.request("resources/read", {"uri": uri}))["contents"][0]["uri"] == uri


async def test_a_client_that_declares_the_extension_is_told_that_it_is_known() -> None:
    async with gateway_over(config()) as gateway:
        offered = (await ModernClient(gateway).request("server/discover"))["capabilities"]
        settings = {"mimeTypes": ["text/html;profile=mcp-app"]}
        assert offered["extensions"]["io.modelcontextprotocol/ui"] == settings
        about: dict[str, Any] = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "1"}}
        for capabilities, expected in ((UI, UI["extensions"]), ({}, None)):
            _, opened = await gateway.initialize(LOCAL, {**about, "capabilities": capabilities})
            assert dict(opened)["capabilities"].get("extensions") == expected


async def test_interfaces_that_two_servers_do_not_list_stay_apart() -> None:
    servers = {"g": over_stdio(apps=True), "h": over_stdio(apps=True)}
    async with gateway_over({"servers": servers}) as gateway:
        client = ModernClient(gateway, capabilities=UI)
        tools = await listed(client)
        uris = [tools[f"{alias}_show"]["_meta"]["ui"]["resourceUri"] for alias in ("g", "h")]
        assert uris == ["ui://g/dash", "ui://h/dash"]
        for uri in uris:
            (part,) = (await client.request("resources/read", {"uri": uri}))["contents"]
            assert (part["uri"], part["text"]) == (uri, "ui://dash 1")


async def test_a_modern_server_sees_what_the_client_of_a_call_declared() -> None:
    async with gateway_over(config()) as gateway:
        for capabilities, expected in ((UI, True), ({}, False)):
            client = ModernClient(gateway, capabilities=capabilities)
            said = json.loads(text_for_client(await client.request("tools/call", {"name": "g_declared"})))
            assert ("io.modelcontextprotocol/ui" in said.get("extensions", {})) is expected
