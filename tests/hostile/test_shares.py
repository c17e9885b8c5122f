"""Users who take all that they can get of what users share: the next one always gets some."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import warm
from tests.budget import within_budget
from tests.gateway.driving import JSON, LegacyClient, ModernClient, gateway_over, text_of
from tests.gateway.front import Front, Gates, front, gated
from tests.gateway.test_busy import asking
from tests.gateway.test_call_queue import Line
from tests.gateway.test_http_legacy import Names
from tests.gateway.test_stdio import served
from tests.inside.core import Interactions, QuestionRouting, Quota, TooManySessions, within
from tests.inside.gateway import (
    MAX_PRINCIPALS,
    Busy,
    CallLimits,
    ClientSessions,
    GatewayLimits,
    HttpLimits,
    Principal,
    ProtocolError,
)
from tests.patience import PATIENCE, until
from tests.properties import modest
from tests.servers.everyday import everyday

BAD, GOOD = Principal(name="key:bad"), Principal(name="key:good")
BUSY = -32029


def many() -> JSON:
    """A server with many resources, and tools that run as tasks."""
    program = str(Path(__file__).parent / "many_resources.py")
    return {"command": warm.python(), "args": [program], "prefix": ""}


@modest
@given(
    most=st.integers(1, 40),
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from((True, True, False)), st.integers(1, 3)), min_size=20
    ),
)
def test_owners_who_take_and_give_back_in_any_order(most: int, steps: list[tuple[int, bool, int]]) -> None:
    """An owner with fewer slots than are left gets another one; so n owners leave some of 2^n to the next."""
    quota = Quota(most)
    held = [0] * 5
    for owner, takes, amount in steps:
        free = most - sum(held)
        if takes:
            is_taken = quota.take(owner, amount)
            assert is_taken is (held[owner] + amount <= free)
            held[owner] += amount * is_taken
        else:
            given_back = min(amount, held[owner])
            quota.release(owner, given_back)
            held[owner] -= given_back
        holders = sum(1 for number in held if number)
        assert (quota.taken, quota.free) == (sum(held), most - sum(held))
        assert [quota.held(one) for one in range(5)] == held
        assert quota.free >= 0
        if 2**holders <= most and all(step[2] == 1 for step in steps):
            assert quota.free > 0, "a newcomer gets a slot"


@modest
@given(
    most=st.integers(1, 12),
    steps=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=100),
)
def test_principals_who_open_and_close_sessions_in_any_order(
    most: int, steps: list[tuple[int, bool]]
) -> None:
    """Nobody is refused, and nobody loses a session to another one who has as many or more."""

    async def run() -> None:
        sessions = ClientSessions(most)
        principals = [Principal(name=str(number)) for number in range(6)]
        for owner, opens in steps:
            before = [[one for one in sessions if one.principal == who] for who in principals]
            if opens:
                sessions.open(principals[owner], "2025-11-25", {})
            elif before[owner]:
                sessions.close(before[owner][0].id)
            assert len(sessions) <= most
            for number, own in enumerate(before):
                lost = sum(one.closed for one in own)
                if opens and lost:
                    assert lost == 1
                    assert len(own) >= max(map(len, before))
                    assert number == owner or len(own) > len(before[owner])

    asyncio.run(run())


def test_a_server_that_returns_while_clients_subscribe_to_thousands_of_its_resources() -> None:
    """Each may have changed, and the time to find out who is told does not grow with their number."""
    known = {f"many://{number}": None for number in range(10_000)}
    found = within_budget(lambda: [within(uri, known) for uri in known])
    assert found == [[uri] for uri in known]


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_user_who_subscribes_to_all_that_there_is(era: str) -> None:
    """One user has at most half of `max_subscriptions`; what it leaves counts no longer."""
    config = {"servers": {"many": many()}}
    settings = GatewayLimits(max_subscriptions=10, calls=CallLimits())

    def uris(number: int) -> list[str]:
        return [f"many://{one}" for one in range(number)]

    async with gateway_over(config, settings) as gateway:
        good = await LegacyClient.opened(gateway, principal=GOOD)
        if era == "legacy":
            bad = await LegacyClient.opened(gateway, principal=BAD)
            for uri in uris(5):
                await bad.request("resources/subscribe", {"uri": uri})
            with pytest.raises(ProtocolError, match=r"too many resources \(max_subscriptions\)") as refused:
                await bad.request("resources/subscribe", {"uri": "many://more"})
            leave: Callable[[], Any] = bad.session.close
        else:
            client = ModernClient(gateway, principal=BAD)
            wanted: JSON = {"notifications": {"resourceSubscriptions": uris(5)}}
            stream = asyncio.create_task(client.once("subscriptions/listen", wanted))
            await client.heard.wait_for("notifications/subscriptions/acknowledged")
            with pytest.raises(ProtocolError, match=r"too many resources \(max_subscriptions\)") as refused:
                await client.once("subscriptions/listen", wanted)
            leave = stream.cancel
        assert refused.value.code == BUSY
        assert await good.request("resources/subscribe", {"uri": "many://good"}) == {}
        leave()
        again = await LegacyClient.opened(gateway, principal=BAD)
        async with asyncio.timeout(PATIENCE):
            while not await is_subscribed(again, "many://again"):
                pass  # until the subscriptions that were left have ended


async def is_subscribed(client: LegacyClient, uri: str) -> bool:
    try:
        return await client.request("resources/subscribe", {"uri": uri}) == {}
    except ProtocolError:
        await asyncio.sleep(0)  # others get their turn
        return False


@pytest.mark.anyio
async def test_a_server_whose_questions_one_user_never_answers() -> None:
    """A server may wait for so many answers at a time; one user has at most half of them."""
    config = {
        "servers": {"asking": {"server": asking(), "prefix": "", "era": "legacy"}},
        "limits": {"requests": 10},
    }
    call: JSON = {"name": "ask", "arguments": {}}
    async with gateway_over(config, GatewayLimits(calls=CallLimits())) as gateway:
        bad, good = (ModernClient(gateway, principal=one) for one in (BAD, GOOD))
        for _ in range(5):
            assert "inputRequests" in await bad.once("tools/call", call)
        with pytest.raises(ProtocolError, match=r"too many questions wait .* \(limits\.requests\)"):
            await bad.once("tools/call", call)
        assert "inputRequests" in await good.once("tools/call", call)


@pytest.mark.anyio
async def test_tasks_with_large_results() -> None:
    """Results that clients have not fetched take at most `max_task_bytes`: of one user, half of it."""
    config = {"servers": {"many": many()}}
    settings = GatewayLimits(max_task_bytes=200_000)
    async with gateway_over(config, settings) as gateway:
        bad, good = [await LegacyClient.opened(gateway, principal=one) for one in (BAD, GOOD)]

        async def kept(client: LegacyClient, size: int) -> str:
            call: JSON = {"name": "large", "arguments": {"size": size}, "task": {}}
            task = (await client.request("tools/call", call))["task"]["taskId"]
            return text_of(await client.request("tasks/result", {"taskId": task}))

        assert len(await kept(bad, 80_000)) == 80_000
        assert "bytes was not kept" in await kept(bad, 80_000)
        assert len(await kept(bad, 10_000)) == 10_000
        assert len(await kept(good, 80_000)) == 80_000


@pytest.mark.anyio
async def test_lines_that_are_too_long_or_have_too_many_values() -> None:
    """The same limits hold over stdio, and the connection goes on."""
    async with served() as (wire, _, stdin):
        await asyncio.to_thread(stdin.write, b"x" * (16 * 2**20) + b"\n")
        too_long = await wire.response(None)
        await asyncio.to_thread(stdin.write, b"[" + b"[]," * 200_000 + b"[]]\n")
        too_many = await wire.response(None)
        messages = [one["error"]["message"] for one in (too_long, too_many)]
        assert messages == [
            "Parse error: the message has more than 16,777,216 bytes (serve.max_body)",
            "Parse error: the message has more than 100,000 values (serve.max_values)",
        ]
        assert "tools" in (await wire.request("tools/list", modern=True))["result"]


@pytest.mark.anyio
async def test_a_user_who_waits_at_every_server() -> None:
    """The places to wait are shared by users, not by users and servers."""
    line = Line(per_user=1, waiting=16)
    [running] = await line.start("bad", "z")
    waiting = [task for server in "abcdefgh" for task in await line.start("bad", server, calls=8)]
    assert len(line.queue) == 8
    await line.start("good", "y")
    good = await line.start("good", "y", calls=4)
    assert not any(task.done() for task in good)
    assert sum(isinstance(task.exception(), Busy) for task in waiting if task.done()) == 64 - 8
    for task in (*waiting, *good, running):
        task.cancel()


@pytest.mark.anyio
async def test_a_user_whose_sessions_want_all_connections() -> None:
    """Of the sessions with connections of their own, one owner has at most half."""
    async with gateway_over({"servers": {"day": {"server": everyday(), "per_session": True}}}) as gateway:
        bus = gateway.bus
        bus.max_sessions = 4

        async def call(owner: Principal, session: str) -> str:
            view = bus.as_user(
                "", session=session, interactions=Interactions(_routing=QuestionRouting(owner=owner.owner))
            )
            return (await view.call("day_echo", {"text": "hi"})).text

        assert [await call(BAD, name) for name in ("one", "two")] == ["hi", "hi"]
        with pytest.raises(TooManySessions):
            await call(BAD, "three")
        assert await call(GOOD, "four") == "hi"


@pytest.mark.anyio
async def test_a_user_with_a_new_token_for_each_request() -> None:
    """A new token is the same user: it takes no place of another one that is remembered."""
    async with gateway_over({"servers": {"day": {"server": everyday()}}}) as gateway:
        remembered = gateway.view(GOOD)
        for number in range(MAX_PRINCIPALS + 1):
            gateway.view(replace(BAD, expires=float(number)))
        assert gateway.view(GOOD) is remembered
        assert BAD.owner == replace(BAD, expires=7.0, view="other").owner


@pytest.mark.anyio
async def test_a_user_who_uses_approvals_without_end() -> None:
    """Used approvals are remembered, and one user cannot make the gateway forget them."""
    config = {"servers": {"day": {"server": everyday()}}, "policy": [{"tools": "day/echo", "do": "ask"}]}
    params: JSON = {"name": "day_echo", "arguments": {"text": "hi"}}
    yes: JSON = {"action": "accept", "content": {"answer": "once"}}

    def approve(asked: JSON) -> JSON:
        return yes

    async with gateway_over(config) as gateway:
        bad, good = (ModernClient(gateway, None, {"elicitation/create": approve}, one) for one in (BAD, GOOD))
        for _ in range(500):
            assert text_of(await bad.request("tools/call", params)) == "hi"
        with pytest.raises(ProtocolError, match="max_used"):
            await bad.request("tools/call", params)
        assert text_of(await good.request("tools/call", params)) == "hi"


@pytest.mark.anyio
async def test_sessions_that_do_not_read_their_streams() -> None:
    """The streams of one user's sessions keep at most half of the room for all of them."""
    limits = HttpLimits(streams_bytes=400_000)
    gates = Gates()
    config = {"servers": {"gated": {"server": gated(gates), "prefix": ""}}}
    async with front(limits, Names(), config=config) as gateway:
        for _ in range(6):
            session = await legacy(gateway, "bad")
            await session("tools/call", {"name": "large", "arguments": {"size": 10_000, "parts": 8}})
        kept = gateway.app._legacy._kept  # pyright: ignore[reportPrivateUsage]  # what it keeps is not shown
        assert 0 < kept.bytes <= 200_000
        for one in gateway.gateway.sessions:
            gateway.gateway.sessions.close(one.id)
        await until(lambda: kept.bytes == 0)


async def legacy(at: Front, user: str) -> Callable[[str, JSON], Any]:
    """Sends the requests of a session with a progress token, and reads the responses."""
    headers = {"accept": "application/json, text/event-stream", "authorization": user}
    params: JSON = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test"}}
    message: JSON = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    opened = await at.http.post(at.url, json=message, headers=headers)
    headers["mcp-session-id"] = opened.headers["mcp-session-id"]

    async def request(method: str, given: JSON) -> None:
        sent = {**given, "_meta": {"progressToken": 1}}
        called: JSON = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}
        await at.http.post(at.url, json=called, headers=headers)

    return request
