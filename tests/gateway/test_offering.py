"""The offers of a gateway: discovery, lists and calls, for clients of both eras."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer

from tests.gateway.driving import LegacyClient, ModernClient, gateway_over, text_of
from tests.inside.gateway import LOCAL, Gateway, GatewayLimits, Principal, ProtocolError
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
INFO = "io.modelcontextprotocol/serverInfo"


def servers(**more: Any) -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}, "ask": {"server": asking(), "era": "legacy"}}, **more}


async def test_discovery_shows_what_the_gateway_can_do() -> None:
    async with gateway_over(servers()) as gateway:
        found = await ModernClient(gateway).request("server/discover")
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
        "extensions": {
            "io.modelcontextprotocol/tasks": {},
            "io.modelcontextprotocol/skills": {},
            "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
        },
    }
    assert found["_meta"][INFO]["name"] == "toolbus"
    assert found["resultType"] == "complete"
    assert "# day\nBe kind." in found["instructions"]
    assert "# ask\nAsk before you book." in found["instructions"]


@pytest.mark.parametrize(
    ("wanted", "negotiated"),
    [("2025-11-25", "2025-11-25"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")],
)
async def test_the_handshake_negotiates_a_version(wanted: str, negotiated: str) -> None:
    async with gateway_over(servers()) as gateway:
        session, result = await gateway.initialize(LOCAL, {"protocolVersion": wanted, "capabilities": {}})
    assert (session.version, result["protocolVersion"]) == (negotiated, negotiated)
    assert result["serverInfo"]["name"] == "toolbus"
    assert ("tasks" in result["capabilities"]) is (negotiated == "2025-11-25")
    assert "extensions" not in result["capabilities"]


async def test_methods_of_the_other_era_are_unknown() -> None:
    async with gateway_over(servers()) as gateway:
        modern, legacy = ModernClient(gateway), await LegacyClient.opened(gateway)
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"):
            with pytest.raises(ProtocolError) as failed:
                await modern.request(method, {})
            assert failed.value.code == -32601
        for method in ("server/discover", "subscriptions/listen", "tasks/update", "made/up"):
            with pytest.raises(ProtocolError) as failed:
                await legacy.request(method, {})
            assert failed.value.code == -32601
        assert await legacy.request("ping") == {}


async def test_tools_are_listed_as_servers_sent_them() -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"who": {"$anchor": "who", "type": "string"}},
        "properties": {"who": {"$ref": "#/$defs/who"}, "odd": {"x-mcp-header": "Odd", "type": "string"}},
        "additionalProperties": False,
    }
    server: MCPServer = MCPServer("s")

    @server.tool(structured_output=False)
    def greet(who: str) -> str:
        """Greet someone."""
        return f"Hello, {who}!"

    low: Any = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        icon = types.Icon(src="https://example.com/i.png")
        tool = types.Tool(
            name="greet", input_schema=schema, icons=[icon], title="Greet", _meta={"com.example/x": [1]}
        )
        return types.ListToolsResult(tools=[tool], ttl_ms=0, cache_scope="public")

    low.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    async with gateway_over({"servers": {"s": {"server": server}}}) as gateway:
        modern = await ModernClient(gateway).request("tools/list")
        legacy = await (await LegacyClient.opened(gateway)).request("tools/list")
    (tool,) = modern["tools"]
    assert tool == {
        "name": "s_greet",
        "title": "Greet",
        "inputSchema": schema,
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"com.example/x": [1]},
    }
    assert legacy == {"tools": [tool]}
    assert (modern["cacheScope"], isinstance(modern["ttlMs"], int)) == ("private", True)


async def test_results_are_passed_on_as_servers_sent_them() -> None:
    async with gateway_over(servers()) as gateway:
        modern = await ModernClient(gateway).request("tools/call", {"name": "day_many"})
        legacy = await (await LegacyClient.opened(gateway)).request("tools/call", {"name": "day_many"})
    assert modern["content"] == legacy["content"]
    kinds = {"text", "image", "audio", "resource_link", "resource"}
    assert {block["type"] for block in modern["content"]} == kinds
    assert modern["resultType"] == "complete"
    assert "resultType" not in legacy
    assert INFO not in legacy.get("_meta", {})
    assert modern["_meta"][INFO]["name"] == "toolbus"


async def test_lists_come_in_pages() -> None:
    async with gateway_over(servers(), GatewayLimits(page=5)) as gateway:
        client = ModernClient(gateway)
        names: list[str] = []
        params: dict[str, Any] = {}
        while True:
            found = await client.request("tools/list", params)
            assert len(found["tools"]) <= 5
            names += [tool["name"] for tool in found["tools"]]
            if "nextCursor" not in found:
                break
            params = {"cursor": found["nextCursor"]}
        assert names == list(gateway.bus.catalog.names)
        with pytest.raises(ProtocolError) as failed:
            await client.request("tools/list", {"cursor": "yesterday"})
        assert failed.value.code == -32602


async def test_a_list_waits_until_the_bus_has_started() -> None:
    bus = Toolbus({"servers": {"day": {"server": everyday()}}})
    try:
        async with Gateway(bus) as gateway:  # which has only begun to start it
            found, called = await asyncio.gather(
                ModernClient(gateway).request("tools/list"),
                ModernClient(gateway).request(
                    "tools/call", {"name": "day_add", "arguments": {"a": 1, "b": 2}}
                ),
            )
        assert "day_add" in [tool["name"] for tool in found["tools"]]
        assert called["structuredContent"] == {"result": 3}
    finally:
        await bus.stop()


async def test_an_unknown_tool_is_an_invalid_parameter() -> None:
    async with gateway_over(servers()) as gateway:
        client = ModernClient(gateway)
        with pytest.raises(ProtocolError) as failed:
            await client.request("tools/call", {"name": "day_ad", "arguments": {}})
        assert failed.value.code == -32602
        assert "did you mean 'day_add'" in failed.value.message
        for params in ({"name": 7}, {"name": "day_add", "arguments": [1]}, {}):
            with pytest.raises(ProtocolError) as failed:
                await client.request("tools/call", params)
            assert failed.value.code == -32602


async def test_a_server_that_is_down_is_a_result_that_a_model_can_read() -> None:
    config = {
        "servers": {"day": {"server": everyday()}, "gone": {"command": "/nowhere/at-all"}},
        "timeouts": {"reconnect": 0.1, "connect": 20},
    }
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway)
        assert (await client.request("tools/call", {"name": "day_echo", "arguments": {"text": "x"}}))[
            "content"
        ]
        result = await client.request("tools/call", {"name": "day_fail", "arguments": {"reason": "rain"}})
        assert result["isError"]
        with pytest.raises(ProtocolError) as failed:
            await client.request("tools/call", {"name": "gone_tool", "arguments": {}})
        assert "gone" in failed.value.message


async def test_a_refusal_and_a_timeout_are_results() -> None:
    config = servers(
        policy=[{"tools": "day/echo", "do": "deny", "reason": "not today"}], timeouts={"call": 0.3}
    )
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway)
        assert "day_echo" not in [t["name"] for t in (await client.request("tools/list"))["tools"]]
        refused = await client.request("tools/call", {"name": "day_echo", "arguments": {"text": "x"}})
        assert refused["isError"]
        assert "not today" in text_of(refused)
        late = await client.request("tools/call", {"name": "day_hang", "arguments": {}})
        assert late["isError"]
        assert "timed out" in text_of(late)


async def test_the_client_is_the_caller() -> None:
    callers: list[Any] = []

    async def guard(operation: Any) -> None:
        callers.append(operation.caller)

    async with gateway_over(servers(), guards=[guard]) as gateway:
        await ModernClient(gateway, principal=Principal(name="ci")).request(
            "tools/call", {"name": "day_add", "arguments": {"a": 1, "b": 2}}
        )
        legacy = await LegacyClient.opened(gateway)
        await legacy.request("tools/call", {"name": "day_add", "arguments": {"a": 1, "b": 2}})
    assert [(one.face, one.session) for one in callers] == [
        ("gateway", "ci"),
        ("gateway", legacy.session.id),
    ]


async def test_prompts_are_named_as_tools_and_filled_in() -> None:
    async with gateway_over(servers()) as gateway:
        for client in (ModernClient(gateway), await LegacyClient.opened(gateway)):
            listed = await client.request("prompts/list")
            assert [prompt["name"] for prompt in listed["prompts"]] == ["day_summarise", "ask_review"]
            assert listed["prompts"][0]["arguments"] == [{"name": "text", "required": True}]
            params = {"name": "day_summarise", "arguments": {"text": "it"}}
            found = await client.request("prompts/get", params)
            assert found["messages"] == [
                {"role": "user", "content": {"type": "text", "text": "Summarise: it"}}
            ]
            with pytest.raises(ProtocolError) as failed:
                await client.request("prompts/get", {"name": "summarise"})
            assert failed.value.code == -32602


async def test_arguments_of_prompts_and_templates_are_completed() -> None:
    async with gateway_over(servers()) as gateway:
        for client in (ModernClient(gateway), await LegacyClient.opened(gateway)):
            prompt = {"type": "ref/prompt", "name": "ask_review"}
            found = await client.request(
                "completion/complete", {"ref": prompt, "argument": {"name": "language", "value": "py"}}
            )
            assert found["completion"]["values"] == ["python"]
            template = {"type": "ref/resource", "uri": "code://{language}/{+path}"}
            context = {"arguments": {"language": "rust"}}
            argument = {"name": "path", "value": "s"}
            found = await client.request(
                "completion/complete", {"ref": template, "argument": argument, "context": context}
            )
            assert found["completion"]["values"] == ["src/main.rust"]
            none = {"type": "ref/prompt", "name": "day_summarise"}
            found = await client.request(
                "completion/complete", {"ref": none, "argument": {"name": "text", "value": ""}}
            )
            assert found["completion"]["values"] == []
