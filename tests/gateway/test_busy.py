"""A gateway with more calls than it can make: nobody is starved, and clients learn when to return."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from tests.gateway.driving import JSON, LegacyClient, ModernClient, gateway_over, text_of
from tests.gateway.front import OLDER, Front, Gates, front, gated
from tests.gateway.test_http_legacy import Names
from tests.inside.connect import BUSY, wait_for_room
from tests.inside.core import INTERNAL_ERROR, ServerRejected
from tests.inside.gateway import CallLimits, GatewayLimits, HttpLimits, Principal
from tests.patience import PATIENCE, until
from toolbus import Toolbus

pytestmark = pytest.mark.anyio


def noting(order: list[str], gates: Gates) -> MCPServer:
    """A server that notes whose calls came, and answers once the gate is open."""
    server: MCPServer = MCPServer("noting")

    @server.tool()
    async def note(who: str) -> str:  # pyright: ignore[reportUnusedFunction]
        order.append(who)
        gates.entered.set()
        await gates.opened.wait()
        return who

    return server


@asynccontextmanager
async def busy(servers: JSON, **limits: Any) -> AsyncGenerator[Front]:
    """A gateway whose clients have the names that they give."""
    settings = GatewayLimits(calls=CallLimits(**{"wait_seconds": 600, **limits}))
    config = {"servers": {alias: {"server": server, "prefix": ""} for alias, server in servers.items()}}
    async with front(access=Names(), settings=settings, config=config) as served:
        yield served


def called(served: Front, tool: str, user: str, **arguments: Any) -> asyncio.Task[httpx2.Response]:
    """A call of a modern client that is on its way."""
    params: JSON = {"name": tool, "arguments": arguments}
    return asyncio.create_task(served.modern("tools/call", params, {"authorization": user}))


async def test_a_user_with_many_calls_does_not_starve_one_with_a_single_call() -> None:
    order: list[str] = []
    gates = Gates()
    async with busy({"noting": noting(order, gates)}, per_server=2, waiting=400) as served:
        many = [called(served, "note", "many", who="many") for _ in range(90)]
        await until(lambda: len(served.gateway.queue) == 88)
        single = called(served, "note", "single", who="single")
        await until(lambda: len(served.gateway.queue) == 89)
        gates.opened.set()
        assert (await single).status_code == 200
        # Two were being made, and it was the turn of one more.
        assert order.index("single") <= 3
        assert {response.status_code for response in await asyncio.gather(*many)} == {200}
    assert order.count("many") == 90


async def test_a_server_that_hangs_does_not_take_the_capacity_of_others() -> None:
    """Not even from the users whose calls hang there."""
    gates = Gates()
    servers = {"slow": noting([], gates), "quick": gated(Gates())}
    async with busy(servers, per_user=8, per_server=4, waiting=20) as served:
        hanging = [called(served, "note", "ann", who="ann") for _ in range(60)]
        await until(lambda: sum(call.done() for call in hanging) == 60 - 4 - 10)
        for user in ("ann", "bob") * 5:
            response = await called(served, "add", user, a=1, b=2)
            assert response.json()["result"]["content"] == [{"type": "text", "text": "3"}]
        gates.opened.set()
        statuses = [response.status_code for response in await asyncio.gather(*hanging)]
    assert (statuses.count(200), statuses.count(429)) == (14, 46)


async def test_a_refused_call_says_when_to_try_again() -> None:
    """With 429 in the modern era; as an error of the protocol in the legacy one, which knows no other."""
    gates = Gates()
    async with busy({"noting": noting([], gates)}, per_server=1, waiting=1) as served:
        session = await served.opened(OLDER)
        running, waiting = [called(served, "note", "ann", who="ann") for _ in range(2)]
        await until(lambda: len(served.gateway.queue) == 1)
        refused = await called(served, "note", "bob", who="bob")
        seconds = int(refused.headers["retry-after"])
        assert refused.status_code == 429
        assert refused.json()["id"] == 1
        error = refused.json()["error"]
        assert error["code"] == -32029
        assert error["data"] == {"retryAfter": seconds, "limit": "max_per_server"}
        assert error["message"] == (
            "server 'noting' has 1 call in flight, the most at a time (max_per_server), and too many wait "
            f"(max_waiting); the call was not made, try again in {seconds} s"
        )
        legacy = await session.call("note", who="carl")
        assert (legacy.status_code, legacy.json()["error"]["code"]) == (200, -32029)
        assert int(legacy.headers["retry-after"]) == legacy.json()["error"]["data"]["retryAfter"]
        gates.opened.set()
        assert [(await call).status_code for call in (running, waiting)] == [200, 200]
        assert (await session.call("note", who="carl")).json()["result"]["content"][0]["text"] == "carl"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_our_own_client_tries_again(era: str) -> None:
    """The call was refused before it was made; the client waits as long as the gateway wants."""
    gates, order = Gates(), list[str]()
    async with busy({"noting": noting(order, gates)}, per_server=1, waiting=0) as served:
        entry = {"url": served.url, "prefix": "", "era": era, "headers": {"authorization": "bob"}}
        async with Toolbus({"servers": {"gateway": entry}}) as bus:
            running = called(served, "note", "ann", who="ann")
            async with asyncio.timeout(PATIENCE):
                await gates.entered.wait()
            call = asyncio.create_task(bus.call("note", {"who": "bob"}, timeout=PATIENCE))
            await until(lambda: dict(served.gateway.queue)["noting"].refused["full"] > 0)
            gates.opened.set()
            assert (await call).text == "bob"
            assert (await running).status_code == 200
    assert order == ["ann", "bob"]


async def test_our_own_client_waits_only_as_long_as_the_call_may_take() -> None:
    refused = ServerRejected("gateway", "tool 'note'", BUSY, "busy", data={"retryAfter": 2})
    other = ServerRejected("gateway", "tool 'note'", INTERNAL_ERROR, "broken", data={"retryAfter": 0.001})
    for error, seconds in ((refused, 1), (other, PATIENCE)):
        with pytest.raises(ServerRejected) as raised:
            await wait_for_room(error, asyncio.get_running_loop().time() + seconds)
        assert raised.value is error


async def test_a_call_that_waits_for_too_long() -> None:
    gates = Gates()
    async with busy({"noting": noting([], gates)}, per_server=1, wait_seconds=0.05) as served:
        running = called(served, "note", "ann", who="ann")
        async with asyncio.timeout(PATIENCE):
            await gates.entered.wait()
        late = await called(served, "note", "bob", who="bob")
        assert (late.status_code, "waited too long (max_wait)" in late.text) == (429, True)
        gates.opened.set()
        assert (await running).status_code == 200


async def test_the_metrics_show_what_waits() -> None:
    gates = Gates()
    async with busy({"noting": noting([], gates)}, per_server=1, waiting=2) as served:
        calls = [called(served, "note", "ann", who="ann") for _ in range(3)]
        await until(lambda: calls[2].done())
        page = (await served.http.get(served.url.replace("/mcp", "/metrics"))).text
        for line in (
            'calls_running{server="noting"} 1',
            'calls_waiting{server="noting"} 1',
            'calls_queued_total{server="noting"} 1',
            'calls_refused_total{server="noting",reason="full"} 1',
            'errors_total{method="tools/call",kind="busy"} 1',
        ):
            assert f"toolbus_gateway_{line}\n" in page
        gates.opened.set()
        await asyncio.gather(*calls)
        page = (await served.http.get(served.url.replace("/mcp", "/metrics"))).text
        assert 'toolbus_gateway_calls_waiting{server="noting"} 0\n' in page


async def test_one_user_leaves_room_for_the_requests_of_others() -> None:
    """This applies to any number and kind of requests in flight of one user."""
    gates = Gates()
    config = {"servers": {"noting": {"server": noting([], gates), "prefix": ""}}}
    async with front(HttpLimits(requests=40), Names(), config=config) as served:
        many = [called(served, "note", "many", who="many") for _ in range(60)]
        await until(lambda: sum(call.done() for call in many) == 40)
        listed = await served.modern("tools/list", {}, {"authorization": "single"})
        assert listed.status_code == 200
        gates.opened.set()
        found = await asyncio.gather(*many)
    statuses = [response.status_code for response in found]
    assert (statuses.count(200), statuses.count(429)) == (20, 40)
    [error] = {response.text for response in found if response.status_code == 429}
    assert json.loads(error)["error"] == {
        "code": -32029,
        "message": "you have too many requests in flight (max_in_flight)",
        "data": {"retryAfter": 1, "limit": "max_in_flight"},
    }


async def test_a_server_takes_no_more_than_its_own_limit_and_users_take_turns_there() -> None:
    order: list[str] = []
    gates = Gates()
    config = {"servers": {"noting": {"server": noting(order, gates), "prefix": "", "max_concurrency": 1}}}
    async with front(access=Names(), config=config, settings=GatewayLimits(calls=CallLimits())) as served:
        many = [called(served, "note", "many", who="many") for _ in range(20)]
        await until(lambda: len(served.gateway.queue) == 19)
        single = called(served, "note", "single", who="single")
        await until(lambda: len(served.gateway.queue) == 20)
        gates.opened.set()
        await asyncio.gather(single, *many)
    assert order.index("single") <= 2


class Color(BaseModel):
    color: str


def asking() -> MCPServer:
    """A server that asks in the middle of a call."""
    server: MCPServer = MCPServer("asking")

    @server.tool()
    async def ask(context: Context) -> str:  # pyright: ignore[reportUnusedFunction]
        answer = await context.elicit("Which color?", Color)
        return json.dumps(answer.model_dump(), default=str)

    @server.tool()
    def plain() -> str:  # pyright: ignore[reportUnusedFunction]
        return "plain"

    return server


async def test_a_call_that_waits_for_a_person_does_not_keep_others_waiting() -> None:
    """A legacy server and clients of both eras: the call is in flight all the while."""
    config = {"servers": {"asking": {"server": asking(), "prefix": "", "era": "legacy"}}}
    settings = GatewayLimits(calls=CallLimits(per_server=1, wait_seconds=600))
    async with gateway_over(config, settings) as gateway:
        modern = ModernClient(gateway, principal=Principal(name="ann"))
        asked = await modern.once("tools/call", {"name": "ask", "arguments": {}})
        assert asked["resultType"] == "input_required"
        legacy = await LegacyClient.opened(gateway, principal=Principal(name="bob"))
        call = asyncio.create_task(legacy.request("tools/call", {"name": "ask", "arguments": {}}))
        await until(lambda: bool(legacy.asked))
        plain = await modern.once("tools/call", {"name": "plain", "arguments": {}})
        assert text_of(plain) == "plain"
        call.cancel()
        red: JSON = {"action": "accept", "content": {"color": "red"}}
        modern.answers["elicitation/create"] = lambda asked: red
        params: JSON = {"name": "ask", "arguments": {}, **modern.answered(asked)}
        assert "red" in text_of(await modern.once("tools/call", params))
        await until(lambda: all(not calls.running for _, calls in gateway.queue))
