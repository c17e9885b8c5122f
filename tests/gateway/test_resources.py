"""Resources of several servers behind one gateway: URIs, reads, and what clients learn unasked."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.mcpserver import Context, MCPServer

from tests.gateway.driving import Era, Heard, LegacyClient, ModernClient, client_of, gateway_over
from tests.inside.core import within
from tests.inside.gateway import ProtocolError, ResourceOrigin, Uris, fits_template
from tests.patience import PATIENCE
from tests.properties import modest
from tests.servers.asking import asking
from tests.servers.everyday import everyday

pytestmark = pytest.mark.anyio
APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture(params=["modern", "legacy"], ids=["client-modern", "client-legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


def notes(name: str) -> MCPServer:
    """Servers of this kind have the same URIs."""
    server: MCPServer = MCPServer(name)

    @server.resource("note://today")
    def today() -> str:
        return f"today at {name}"

    @server.resource(f"note://{name}")
    def own() -> str:
        return f"only at {name}"

    @server.resource("note://of/{who}")
    def of(who: str) -> str:
        return f"{who} at {name}"

    @server.resource("ui://board", mime_type="text/html")
    def board() -> str:
        return f"<p>{name}</p>"

    @server.tool(structured_output=False, meta={"ui": {"resourceUri": "ui://board"}})
    def show() -> types.CallToolResult:
        text = types.TextResourceContents(uri="note://today", text="x")
        return types.CallToolResult(
            content=[
                types.ResourceLink(uri="note://today", name="today"),
                types.ResourceLink(uri="note://of/ann", name="ann"),
                types.ResourceLink(uri=f"note://{name}", name="own"),
                types.EmbeddedResource(resource=text),
            ]
        )

    return server


def two() -> dict[str, Any]:
    return {"servers": {"a": {"server": notes("a")}, "b": {"server": notes("b"), "era": "legacy"}}}


async def test_uris_that_two_servers_share_are_told_apart(era: Era) -> None:
    async with gateway_over(two()) as gateway:
        client = await client_of(era, gateway, capabilities=APPS)
        listed = await client.request("resources/list")
        assert [one["uri"] for one in listed["resources"]] == [
            "a+note://today",
            "note://a",
            "ui://a/board",
            "b+note://today",
            "note://b",
            "ui://b/board",
        ]
        for uri, text in (
            ("a+note://today", "today at a"),
            ("b+note://today", "today at b"),
            ("note://b", "only at b"),
            ("a+note://a", "only at a"),
            ("ui://b/board", "<p>b</p>"),
            ("b+note://of/ann", "ann at b"),
        ):
            read = await client.request("resources/read", {"uri": uri})
            assert [part["text"] for part in read["contents"]] == [text]
        templates = await client.request("resources/templates/list")
        assert [one["uriTemplate"] for one in templates["resourceTemplates"]] == [
            "a+note://of/{who}",
            "b+note://of/{who}",
        ]


async def test_links_to_shared_uris_are_rewritten(era: Era) -> None:
    async with gateway_over(two()) as gateway:
        client = await client_of(era, gateway, capabilities=APPS)
        shown = (await client.request("tools/call", {"name": "b_show"}))["content"]
        assert [block["uri"] for block in shown[:3]] == ["b+note://today", "b+note://of/ann", "note://b"]
        assert shown[3]["resource"]["uri"] == "b+note://today"
        tools = (await client.request("tools/list"))["tools"]
        assert [tool["_meta"]["ui"] for tool in tools] == [
            {"resourceUri": "ui://a/board"},
            {"resourceUri": "ui://b/board"},
        ]
        read = await client.request("resources/read", {"uri": "b+note://today"})
        assert read["contents"][0]["uri"] == "b+note://today"


async def test_uris_of_one_server_stay_as_they_are(era: Era) -> None:
    async with gateway_over({"servers": {"a": {"server": notes("a")}}}) as gateway:
        client = await client_of(era, gateway, capabilities=APPS)
        listed = await client.request("resources/list")
        assert [one["uri"] for one in listed["resources"]] == ["note://today", "note://a", "ui://board"]
        read = await client.request("resources/read", {"uri": "note://of/ann"})
        assert read["contents"][0]["text"] == "ann at a"
        assert ("ttlMs" in read, "cacheScope" in read) == (era == "modern", era == "modern")


@pytest.mark.parametrize("uri", ["nothing://here", "note://tomorrow", "z+note://today"])
async def test_a_resource_that_nobody_has(era: Era, uri: str) -> None:
    async with gateway_over(two()) as gateway:
        client = await client_of(era, gateway)
        with pytest.raises(ProtocolError) as failed:
            await client.request("resources/read", {"uri": uri})
        assert failed.value.code == (-32602 if era == "modern" else -32002)
        assert failed.value.data == {"uri": uri}


def test_where_a_resource_may_be() -> None:
    a, b = ResourceOrigin("a", "x://1"), ResourceOrigin("b", "x://2")
    template = ResourceOrigin("b", "y://{id}/z")
    uris = Uris([a, b], [template], ["a", "b"])
    assert uris.located("x://1") == [a]
    assert uris.located("x://3") == [ResourceOrigin("a", "x://3"), ResourceOrigin("b", "x://3")]
    assert uris.located("y://7/z") == [ResourceOrigin("b", "y://7/z")]
    assert uris.located("b+x://9") == [ResourceOrigin("b", "x://9")]
    assert uris.located("q://1") == []


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("a://{x}", "a://1", True),
        ("a://{x}/b{?y}", "a://1/b?y=2", True),
        ("a://{x}/c/{y}", "a://1/b/2", False),
        ("a://{x}z", "a://z", True),
        ("a://{x}bb", "a://b", False),
        ("a://b", "a://b", True),
    ],
)
def test_templates_and_uris(template: str, uri: str, fits: bool) -> None:
    assert fits_template(template, uri) is fits


_PATHS = st.text("ab/", max_size=6)


@modest
@given(path=_PATHS, times=st.sampled_from((1, 2_000)), parents=st.sets(_PATHS))
def test_those_who_subscribe_to_a_parent(path: str, times: int, parents: set[str]) -> None:
    uri = path * times
    expected = {one for one in parents if f"{uri}/".startswith(f"{one.removesuffix('/')}/")}
    found = within(uri, parents)
    assert (set(found), len(found)) == (expected, len(expected))


@pytest.mark.parametrize("behind", ["modern", "legacy", "auto"])
async def test_a_legacy_client_learns_of_updates_that_it_subscribed_to(behind: str) -> None:
    config = {"servers": {"ask": {"server": asking(), "era": behind}, "day": {"server": everyday()}}}
    async with gateway_over(config) as gateway:
        client, other = await LegacyClient.opened(gateway), await LegacyClient.opened(gateway)
        assert await client.request("resources/subscribe", {"uri": "board://now"}) == {}
        await client.request("tools/call", {"name": "ask_write", "arguments": {"text": "x"}})
        updates = await client.standalone.wait_for("notifications/resources/updated")
        assert updates == [{"uri": "board://now"}]
        assert await client.request("resources/unsubscribe", {"uri": "board://now"}) == {}
        await client.request("tools/call", {"name": "ask_write", "arguments": {"text": "y"}})
        with pytest.raises(ProtocolError):
            await client.request("resources/subscribe", {"uri": "nothing://here"})
        assert other.standalone.of("notifications/resources/updated") == []


@pytest.mark.parametrize("behind", ["modern", "legacy"])
async def test_a_stream_has_only_what_was_asked_for(behind: str) -> None:
    config = {
        "servers": {"ask": {"server": asking(), "era": behind}, "day": {"server": everyday(), "era": behind}}
    }
    async with gateway_over(config) as gateway:
        client, tools, prompts = ModernClient(gateway), ModernClient(gateway), ModernClient(gateway)
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["board://now", "nothing://here"]}
        streams = [
            asyncio.create_task(one.once("subscriptions/listen", {"notifications": what}, number=number))
            for one, what, number in ((tools, wanted, 7), (prompts, {"promptsListChanged": True}, 8))
        ]
        (acknowledged,) = await tools.heard.wait_for("notifications/subscriptions/acknowledged")
        await prompts.heard.wait_for("notifications/subscriptions/acknowledged")
        assert acknowledged == {
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["board://now"]},
            "_meta": {SUBSCRIPTION: 7},
        }
        await client.request("tools/call", {"name": "day_grow", "arguments": {"name": "new"}})
        (changed,) = await tools.heard.wait_for("notifications/tools/list_changed")
        assert changed == {"_meta": {SUBSCRIPTION: 7}}
        assert "day_new" in [tool["name"] for tool in (await client.request("tools/list"))["tools"]]
        await client.request("tools/call", {"name": "ask_write", "arguments": {"text": "x"}})
        (updated,) = await tools.heard.wait_for("notifications/resources/updated")
        assert updated == {"uri": "board://now", "_meta": {SUBSCRIPTION: 7}}
        assert [one["method"] for one in prompts.heard.messages] == [
            "notifications/subscriptions/acknowledged"
        ]
        streams[0].cancel()
        await asyncio.wait(streams[:1])
        await gateway.close()
        ended = await asyncio.wait_for(streams[1], PATIENCE)
        assert (ended["resultType"], ended["_meta"][SUBSCRIPTION]) == ("complete", 8)


async def test_a_legacy_client_learns_of_changed_lists() -> None:
    async with gateway_over({"servers": {"day": {"server": everyday()}}}) as gateway:
        client = await LegacyClient.opened(gateway)
        await client.request("tools/call", {"name": "day_grow", "arguments": {"name": "new"}})
        await client.standalone.wait_for("notifications/tools/list_changed")
        client.session.standalone = None
        witness = await LegacyClient.opened(gateway)
        await client.request("tools/call", {"name": "day_shrink", "arguments": {"name": "new"}})
        await witness.standalone.wait_for("notifications/tools/list_changed")
        late = Heard()
        client.session.standalone = late
        assert late.of("notifications/tools/list_changed") == [{}]


async def test_a_prompt_that_asks(era: Era) -> None:
    server: MCPServer = MCPServer("s")

    @server.prompt()
    async def draft(ctx: Context) -> str:
        given = (ctx.input_responses or {}).get("tone")
        if isinstance(given, types.ElicitResult):
            return f"in a {(given.content or {})['tone']} tone"
        schema = {"type": "object", "properties": {"tone": {"type": "string"}}}
        asked = types.ElicitRequestFormParams(message="Which tone?", requested_schema=schema)
        return types.InputRequiredResult(  # type: ignore[return-value]
            input_requests={"tone": types.ElicitRequest(params=asked)}
        )

    answer = {"action": "accept", "content": {"tone": "kind"}}
    async with gateway_over({"servers": {"s": {"server": server}}}) as gateway:
        client = await client_of(era, gateway, {"elicitation/create": lambda _: answer})
        found = await client.request("prompts/get", {"name": "s_draft"})
        assert found["messages"][0]["content"]["text"] == "in a kind tone"
        assert client.asked[0][1]["message"] == "Which tone?"
