"""Hostile clients of a gateway: what one of them sends never stops it, fills it, or locks others out."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import warm
from tests.gateway.front import BOTH, META, PREFIX, modern_request
from tests.hostile.besieged import BAD, GOOD, SERVER, Besieged, besieged
from tests.hostile.test_shares import many
from tests.patience import until

pytestmark = pytest.mark.anyio
JSON = dict[str, Any]
MIB = 2**20
SOME = 100
"""MiB that any attack may take for a while."""
BUSY = -32029


def bearer(gateway: Besieged, who: str) -> dict[str, str]:
    return {**BOTH, "authorization": f"Bearer {gateway.keys[who]}"}


async def opened(
    gateway: Besieged, who: str = BAD, capabilities: JSON | None = None, **params: Any
) -> httpx2.Response:
    """The response to `initialize`."""
    sent = {"protocolVersion": "2025-06-18", "capabilities": capabilities or {}, "clientInfo": {"name": who}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**sent, **params}}
    return await gateway.http.post(gateway.url, json=message, headers=bearer(gateway, who))


async def in_session(gateway: Besieged, session: str, method: str, who: str = BAD, **params: Any) -> JSON:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {**bearer(gateway, who), "mcp-session-id": session}
    response = await gateway.http.post(gateway.url, json=message, headers=headers)
    return response.json() if response.content else {"status": response.status_code}


@asynccontextmanager
async def listening(gateway: Besieged, uris: list[str], who: str = BAD) -> AsyncGenerator[JSON]:
    """The first message of a stream that subscribes to resources; the client leaves after the block."""
    params = {"notifications": {"resourceSubscriptions": uris}}
    content, headers = modern_request("subscriptions/listen", params, bearer(gateway, who))
    async with gateway.http.stream("POST", gateway.url, content=content, headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith(("data: ", "{")):
                yield json.loads(line.removeprefix("data: "))
                break


def uris_of(number: int, first: int = 0) -> list[str]:
    return [f"many://{one}" for one in range(first, first + number)]


# Subscriptions


async def test_a_stream_that_subscribes_to_everything(tmp_path: Path) -> None:
    """One request names at most 1,000 resources, and no step of the loop is long."""
    async with besieged(tmp_path, servers={"many": many()}) as gateway:

        async def attack() -> None:
            async with listening(gateway, uris_of(30_000)) as refused:
                assert refused["error"]["message"] == "you may subscribe to at most 1,000 resources at once"
            async with listening(gateway, ["many://" + "x" * 2_048]) as refused:
                assert refused["error"]["message"] == "a URI may have at most 2,048 characters"

        (await gateway.cost(attack())).assert_bearable(mib=SOME)


async def test_streams_that_subscribe_and_leave(tmp_path: Path) -> None:
    """Each stream subscribes one by one, so that another user is next; they end likewise."""
    async with besieged(tmp_path, servers={"many": many()}) as gateway:

        async def subscribe(first: int) -> None:
            async with listening(gateway, uris_of(1_000, first)):
                raise AssertionError("the server takes 10 s for that many")

        async def attack() -> None:
            streams = [asyncio.create_task(subscribe(1_000 * number)) for number in range(1, 4)]
            await gateway.call(BAD)
            async with listening(gateway, uris_of(3), GOOD) as acknowledged:
                assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == uris_of(3)
            for stream in streams:
                stream.cancel()
            assert await asyncio.wait(streams) == ({*streams}, set())
            assert all(stream.cancelled() for stream in streams)

        (await gateway.cost(attack())).assert_bearable(mib=SOME)


# What a client sends


async def test_a_body_of_millions_of_values(tmp_path: Path) -> None:
    """The values of a message are counted before it is parsed: clients of both eras are refused."""
    async with besieged(tmp_path) as gateway:
        lists = b"[" + b"[]," * 5_000_000 + b"[]]"
        legacy = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%s}}' % lists
        modern = legacy.replace(b'"a"', b'"_meta":%s,"a"' % json.dumps(META).encode())

        async def attack() -> None:
            for body in (lists, legacy, modern):
                response = await gateway.http.post(gateway.url, content=body, headers=bearer(gateway, BAD))
                reason = "the body has more than 100,000 values (serve.max_values)"
                assert (response.status_code, response.json()["error"]["message"]) == (
                    400,
                    f"Parse error: {reason}",
                )

        (await gateway.cost(attack())).assert_bearable(mib=SOME)


SHAPES: dict[str, Callable[[], object]] = {
    "text": lambda: "x" * 15_000_000,
    "escapes": lambda: '"\\' * 3_500_000,
    "signs": lambda: "\U0001f600" * 1_200_000,
    "numbers": lambda: list(range(90_000)),
    "keys": lambda: {f"key{number}": number for number in range(90_000)},
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_largest_arguments(tmp_path: Path, shape: str) -> None:
    """No input of a client causes a long step of the loop."""
    async with besieged(tmp_path) as gateway:

        async def attack() -> None:
            response = await gateway.call(BAD, name="pid", arguments={"a": SHAPES[shape]()})
            assert response.status_code == 200, response.text[:500]

        (await gateway.cost(attack())).assert_bearable(mib=3 * SOME)


async def test_many_large_requests_at_a_time(tmp_path: Path) -> None:
    """Of the room for large requests, 16 times max_body, one user has half: the others are refused."""
    async with besieged(tmp_path, serve={"max_body": 2 * MIB}) as gateway:
        gate = tmp_path / "gate"
        arguments = {"path": str(gate), "a": "x" * (2 * MIB - 1000)}
        statuses: list[int] = []

        async def call() -> None:
            response = await gateway.call(BAD, name="wait_for", arguments=arguments)
            statuses.append(response.status_code)
            if response.status_code == 429:
                assert response.json()["error"]["message"].endswith("16 times max_body in all (max_body)")

        async def attack() -> None:
            calls = asyncio.gather(*(call() for _ in range(40)))
            await until(lambda: len(statuses) == 32)
            gate.touch()
            await calls

        (await gateway.cost(attack())).assert_bearable(mib=SOME)
        assert statuses.count(200) == 8


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_long_id_or_progress_token(tmp_path: Path, era: str) -> None:
    """Echoed values in messages to a client have at most 1,000 characters."""
    async with besieged(tmp_path) as gateway:
        params: JSON = {"name": "pid", "arguments": {}, "_meta": {"progressToken": "x" * MIB}}
        headers = bearer(gateway, BAD)
        if era == "legacy":
            headers["mcp-session-id"] = (await opened(gateway)).headers["mcp-session-id"]
        else:
            params["_meta"] |= META
            headers = modern_request("tools/call", params, headers)[1]
        for number, answered in ((1, "the progressToken must be"), ("x" * MIB, "the body must be")):
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            response = await gateway.http.post(gateway.url, json=message, headers=headers)
            assert response.json()["error"]["message"].startswith(answered), response.text[:500]
            assert "at most 1,000 characters" in response.text


# Sessions


async def test_a_handshake_with_megabytes_of_capabilities(tmp_path: Path) -> None:
    """A session keeps only the used part of its handshake, and at most 10,000 bytes of it."""
    large = {str(number): "x" * 1_000 for number in range(7_000)}
    async with besieged(tmp_path) as gateway:

        async def attack() -> None:
            refused = await opened(gateway, capabilities={"extensions": large})
            expected = "initialize: the capabilities of the client have more than 10,000 bytes"
            assert refused.json()["error"]["message"] == expected
            for _ in range(4):
                kept = await opened(gateway, capabilities={"other": large}, clientInfo={"name": large})
                assert (await in_session(gateway, kept.headers["mcp-session-id"], "ping"))["result"] == {}

        cost = await gateway.cost(attack())
        cost.assert_bearable(mib=2 * SOME)
        assert cost.kept_mib < SOME, cost


async def test_a_user_who_opens_sessions_without_end(tmp_path: Path) -> None:
    """Each further session ends one of the same user; sessions of others stay."""
    async with besieged(tmp_path, serve={"max_sessions": 20}) as gateway:
        mine = (await opened(gateway, GOOD)).headers["mcp-session-id"]

        async def attack() -> None:
            sessions = [(await opened(gateway)).headers["mcp-session-id"] for _ in range(100)]
            assert (await in_session(gateway, sessions[-1], "ping"))["result"] == {}
            assert "result" not in await in_session(gateway, sessions[0], "ping")

        (await gateway.cost(attack())).assert_bearable(mib=SOME)
        assert (await in_session(gateway, mine, "ping", GOOD))["result"] == {}


# Tasks and questions


async def test_a_user_who_takes_all_tasks(tmp_path: Path) -> None:
    """Nobody has more tasks than are left, so the next user gets one."""
    async with besieged(tmp_path, servers={"many": many()}, serve={"max_tasks": 20}) as gateway:
        session = (await opened(gateway, protocolVersion="2025-11-25")).headers["mcp-session-id"]
        call: JSON = {"name": "endless", "arguments": {}, "task": {}}

        async def attack() -> None:
            for _ in range(10):
                assert "task" in (await in_session(gateway, session, "tools/call", **call))["result"]
            refused = (await in_session(gateway, session, "tools/call", **call))["error"]
            assert (refused["code"], refused["data"]) == (BUSY, {"limit": "max_tasks"})

        (await gateway.cost(attack())).assert_bearable(mib=SOME)
        mine = (await opened(gateway, GOOD, protocolVersion="2025-11-25")).headers["mcp-session-id"]
        assert "task" in (await in_session(gateway, mine, "tools/call", GOOD, **call))["result"]


async def test_a_user_who_answers_no_question(tmp_path: Path) -> None:
    """Calls that wait for answers are shared in the same way: another user is still asked."""
    capabilities: JSON = {"elicitation": {}}
    meta: JSON = {**META, f"{PREFIX}clientCapabilities": capabilities}
    own: JSON = {"command": warm.python(), "args": [SERVER], "prefix": "own", "per_session": True}

    async def ask(gateway: Besieged, who: str) -> JSON:
        response = await gateway.call(who, name="own_ask", arguments={}, _meta=meta)
        return response.json()["result"]

    async with besieged(tmp_path, servers={"own": own}, serve={"max_tasks": 20}) as gateway:

        async def attack() -> None:
            results = [await ask(gateway, BAD) for _ in range(15)]
            assert sum("inputRequests" in result for result in results) == 10

        (await gateway.cost(attack())).assert_bearable(mib=SOME)
        assert "inputRequests" in await ask(gateway, GOOD)
