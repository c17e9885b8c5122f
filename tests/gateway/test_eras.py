"""A server that speaks both eras: a legacy client gets the legacy one, over a second link."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer

from tests import warm
from tests.conftest import SERVERS
from tests.gateway.driving import JSON, LegacyClient, ModernClient, gateway_over, text_of
from tests.gateway.serving import gateway, written_config
from tests.inside.bus import tenant_of
from tests.inside.gateway import Gateway, Principal, ProtocolError
from tests.patience import PATIENCE, until
from tests.processes import alive, children
from tests.servers.in_calls import in_calls

pytestmark = pytest.mark.anyio


def program() -> JSON:
    return {"command": warm.python(), "args": [str(SERVERS / "in_calls.py"), "stdio"], "prefix": ""}


def says(word: str) -> dict[str, Callable[[JSON], JSON]]:
    return {"elicitation/create": lambda _: {"action": "accept", "content": {"word": word}}}


async def called(client: LegacyClient | ModernClient, tool: str, **arguments: Any) -> str:
    return text_of(await client.request("tools/call", {"name": tool, "arguments": arguments}))


def second_links(gateway: Gateway) -> int:
    servers = tenant_of(gateway.bus).servers.by_alias.values()
    return sum(len(server.both) - 1 for server in servers)


@asynccontextmanager
async def gateway_to(server: Server[Any] | MCPServer | JSON, **settings: Any) -> AsyncGenerator[Gateway]:
    entry: JSON = server if isinstance(server, dict) else {"server": server, "prefix": ""}
    async with gateway_over({"servers": {"s": {**entry, **settings}}}) as gateway:
        yield gateway


@pytest.mark.parametrize("lazy", [False, True])
async def test_a_question_in_a_call_reaches_the_legacy_client_that_made_it(lazy: bool) -> None:
    async with gateway_to(in_calls(), lazy=lazy) as gateway:
        ann = await LegacyClient.opened(gateway, answers=says("snow"))
        bob = await LegacyClient.opened(gateway, answers=says("sun"))
        assert await called(ann, "ask", about="winter") == "winter: snow"
        assert await called(bob, "ask", about="summer") == "summer: sun"
        assert [params["message"] for _, params in ann.asked] == ["A word about winter?"]
        assert [params["message"] for _, params in bob.asked] == ["A word about summer?"]
        assert second_links(gateway) == 1


async def test_only_a_legacy_client_that_can_be_asked_needs_a_second_link() -> None:
    async with gateway_to(in_calls()) as gateway:
        modern, deaf = ModernClient(gateway), await LegacyClient.opened(gateway, capabilities={})
        for client in (modern, deaf):
            assert (await called(client, "here")).endswith("modern")
        assert second_links(gateway) == 0
        assert (await called(await LegacyClient.opened(gateway), "here")).endswith("legacy")
        assert (await called(modern, "here")).endswith("modern")
        assert second_links(gateway) == 1


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_has_one_link_if_the_config_names_its_era(era: str) -> None:
    async with gateway_to(in_calls(), era=era) as gateway:
        assert (await called(await LegacyClient.opened(gateway), "here")).endswith(era)
        assert second_links(gateway) == 0


async def test_the_last_legacy_client_that_leaves_closes_it() -> None:
    async with gateway_to(program()) as gateway:
        first, *_ = (await called(ModernClient(gateway), "here")).split()
        one, two = [await LegacyClient.opened(gateway) for _ in range(2)]
        second, era = (await called(one, "here")).split()
        assert (await called(two, "here")).split() == [second, "legacy"]
        assert second != first
        gateway.sessions.close(one.session.id)
        assert (await called(two, "here")).split() == [second, "legacy"]
        gateway.sessions.close(two.session.id)
        await until(lambda: not alive(int(second)))
        assert alive(int(first))
        three = await LegacyClient.opened(gateway)
        assert (await called(three, "here")).split() != [second, era]
    assert children() == set()


async def test_many_clients_open_one_link_and_get_their_own_questions() -> None:
    async with gateway_to(in_calls()) as gateway:
        clients = [await LegacyClient.opened(gateway, answers=says(f"word {n}")) for n in range(8)]
        texts = await asyncio.gather(*(called(one, "ask", about=f"{n}") for n, one in enumerate(clients)))
        for number, (client, text) in enumerate(zip(clients, texts, strict=True)):
            # Over one pipe, a question that could be for several clients is put to none of them.
            assert text == f"{number}: word {number}" or text.startswith("not asked: ")
            assert all(f"about {number}?" in params["message"] for _, params in client.asked)
        assert second_links(gateway) == 1


async def test_a_killed_server_ends_the_question() -> None:
    async with gateway_to(program()) as gateway:
        client = await LegacyClient.opened(gateway)
        pid = int((await called(client, "here")).split()[0])
        asking = asyncio.create_task(called(client, "ask", about="death"))
        await until(lambda: bool(client.asked))
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            assert "connection" in await asking or "lost" in await asking
        assert client.heard.of("notifications/cancelled"), "the question is withdrawn"
        client.answers = says("life")
        assert await called(client, "ask", about="after") == "after: life"


async def test_it_is_restarted_with_its_server_and_closed_with_it() -> None:
    async with gateway_to(program()) as gateway:
        client, modern = await LegacyClient.opened(gateway), ModernClient(gateway)
        before = {(await called(one, "here")).split()[0] for one in (client, modern)}
        await gateway.bus.restart("s")
        after = {(await called(one, "here")).split()[0] for one in (client, modern)}
        assert len(before | after) == 4
        await gateway.bus.reload({"servers": {"s": {**program(), "timeouts": {"call": 100}}}})
        now = {(await called(one, "here")).split()[0] for one in (client, modern)}
        assert len(after | now) == 4
        assert (await called(client, "here")).endswith("legacy")
        await gateway.bus.remove_server("s")
        await until(lambda: not any(alive(int(pid)) for pid in before | after | now))


async def test_sdk_clients_of_a_served_gateway(tmp_path: Path) -> None:
    async def answered(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"word": "snow"})

    with gateway(written_config(tmp_path, {"s": program()})) as url:

        def links() -> str:
            page = httpx2.get(url.replace("/mcp", "/metrics"), timeout=PATIENCE).text
            return page.partition("\ntoolbus_gateway_second_links ")[2].partition("\n")[0]

        async with Client(url, mode="legacy", elicitation_callback=answered) as client:
            result = await client.call_tool("ask", {"about": "winter"})
            assert result.content == [types.TextContent(text="winter: snow")]
            assert await asyncio.to_thread(links) == "1"
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(links) != "0":  # noqa: ASYNC110  until the session has ended
                await asyncio.sleep(0.02)
    assert children() == set()


async def test_beyond_the_limit_the_first_link_is_used() -> None:
    async with gateway_to(in_calls()) as gateway:
        gateway.bus.max_sessions = 0
        client = await LegacyClient.opened(gateway, answers=says("snow"))
        assert (await called(client, "here")).endswith("modern")
        assert (await called(client, "ask", about="winter")).startswith("not asked: ")
        gateway.bus.max_sessions = 1
        assert await called(client, "ask", about="winter") == "winter: snow"


async def test_code_that_knows_only_the_modern_era_gets_the_first_link_from_then_on() -> None:
    async with gateway_to(in_calls()) as gateway:
        client = await LegacyClient.opened(gateway, answers=says("snow"))
        with pytest.raises(ProtocolError):  # as without a gateway
            await called(client, "returns_its_question")
        assert await called(client, "returns_its_question") == "given: snow"
        assert await called(client, "ask", about="winter") == "winter: snow"


async def test_a_tool_that_comes_later_is_announced_and_called() -> None:
    async with gateway_to(in_calls()) as gateway:
        client = await LegacyClient.opened(gateway)
        assert await called(client, "grow") == "grown"
        await client.standalone.wait_for("notifications/tools/list_changed")
        listed = await client.request("tools/list")
        assert "grown" in [tool["name"] for tool in listed["tools"]]
        assert await called(client, "grown") == "grown"


def two_faced(described: dict[str, str], *, refuses: str = "") -> Server[Any]:
    """A server that describes its tool in each era as it is told, and may refuse one."""

    def era(ctx: ServerRequestContext[Any, Any]) -> str:
        return "legacy" if ctx.protocol_version < "2026" else "modern"

    async def listed(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        tool = types.Tool(name="t", description=described[era(ctx)], input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool])

    async def call(ctx: ServerRequestContext[Any, Any], params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=era(ctx))])

    return Server("two-faced", on_list_tools=listed, on_call_tool=call)


async def test_a_tool_that_is_another_one_in_the_legacy_era_is_not_called_there() -> None:
    for legacy, expected in (("Reads.", "legacy"), ("Reads, and sends it away.", "modern")):
        async with gateway_to(two_faced({"modern": "Reads.", "legacy": legacy})) as gateway:
            assert await called(await LegacyClient.opened(gateway), "t") == expected
            assert second_links(gateway) == 1


async def test_two_users_with_their_own_credentials_have_their_own_second_links() -> None:
    entry = {**program(), "env": {"TOKEN": "${user}"}}
    async with gateway_over({"servers": {"s": entry}}) as gateway:
        clients = [
            await LegacyClient.opened(gateway, answers=says(name), principal=Principal(name=name, user=name))
            for name in ("ann", "bob", "ann")
        ]
        texts = await asyncio.gather(*(called(one, "here") for one in clients))
        assert texts[0] == texts[2] != texts[1]
        assert [text.split()[1] for text in texts] == ["legacy"] * 3
        answers = await asyncio.gather(*(called(one, "ask", about="me") for one in clients[:2]))
        assert answers == ["me: ann", "me: bob"]
        for client in clients:
            gateway.sessions.close(client.session.id)
        await until(lambda: not any(alive(int(text.split()[0])) for text in texts))
