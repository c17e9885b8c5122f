"""Attacks on requests between replicas of a gateway: on the way, and by a false replica."""

import asyncio
import random
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.front import OLDER, LegacySession
from tests.gateway.replicas.cluster import TASKS, client, cluster
from tests.hostile.relaying import Pair, changed, pair, sent_to
from tests.inside.config import setting
from tests.inside.gateway import AccessControl, Keys, Peers, file_keys, relay, tls_context
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio

REFUSED = 421
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SEAL = b"x-toolbus-relay: "


async def through_other(both: Pair, session: LegacySession) -> LegacySession:
    """A session of the owner, whose requests go to the other replica."""
    return LegacySession(both.other, session.id, session.version)


async def relayed_note(both: Pair, text: str) -> tuple[LegacySession, Any]:
    """A call that one replica forwards to the other; its response."""
    session = await through_other(both, await both.owner.opened("2025-06-18"))
    return session, await session.call("note", text=text)


async def test_a_relayed_request_is_turned_into_another_one(tmp_path: Path) -> None:
    """Only what the replica sealed counts: another method, path or query on the wire changes nothing."""
    async with pair(tmp_path) as both:
        for number, line in enumerate(("DELETE /mcp", "GET /mcp", "POST /console/keys/revoke?name=ann")):
            both.wire.change = lambda sent, line=line: changed(sent, f"{line} HTTP/1.1")
            session, response = await relayed_note(both, str(number))
            assert response.json()["result"]["structuredContent"] == {"result": str(number)}, line
            assert len(both.wire.seen) == number + 1
            assert session.id in {one.id for one in both.owner.gateway.sessions}, "it was not ended"
        assert both.calls == ["0", "1", "2"]


async def test_a_relayed_request_is_moved_to_the_session_of_another_client(tmp_path: Path) -> None:
    """Headers on the wire are ignored: it stays in its own session."""
    async with pair(tmp_path) as both:
        victim = await both.owner.opened()
        own = await through_other(both, await both.owner.opened(OLDER))
        both.wire.change = lambda sent: changed(sent, mcp_session_id=victim.id, last_event_id="0-1")
        response = await own.post({"id": 5, "method": "logging/setLevel", "params": {"level": "debug"}})
        assert "result" in response.json(), response.text
        levels = {one.id: one.log_level for one in both.owner.gateway.sessions}
        assert levels == {victim.id: None, own.id: "debug"}
        assert len(both.wire.seen) == 1


async def test_a_relayed_request_gets_another_body(tmp_path: Path) -> None:
    """It is refused, and no call is made."""
    async with pair(tmp_path) as both:
        both.wire.change = lambda sent: sent.replace(b"harmless", b"harmful!")
        _, response = await relayed_note(both, "harmless")
        assert response.status_code == 400
        assert both.calls == []


async def test_a_relayed_request_is_sent_again(tmp_path: Path) -> None:
    """It is taken once: by the replica that it is for, and by no other one."""
    async with pair(tmp_path) as both:
        await relayed_note(both, "pay")
        [captured] = both.wire.seen
        for _ in range(3):
            assert await sent_to(both.wire.target, captured) == REFUSED
        assert await sent_to(both.other_port, captured) == REFUSED
        assert both.calls == ["pay"]
        # Others that came later do not make it new.
        for number in range(3):
            await relayed_note(both, str(number))
        assert await sent_to(both.wire.target, captured) == REFUSED
        assert both.calls == ["pay", "0", "1", "2"]


async def test_a_relayed_request_is_forged(tmp_path: Path) -> None:
    """A seal with any change is rejected."""
    chance = random.Random(7)
    async with pair(tmp_path) as both:
        both.wire.change = lambda sent: sent.replace(SEAL, b"x-other: ")  # so it was not used
        await relayed_note(both, "pay")
        captured = both.wire.seen[0]
        begin = captured.index(SEAL) + len(SEAL)
        end = captured.index(b"\r\n", begin)
        for _ in range(50):
            place = chance.randrange(begin, end - 2)
            other = b"A" if captured[place : place + 1] != b"A" else b"B"
            forged = captured[:place] + other + captured[place + 1 :]
            assert await sent_to(both.wire.target, forged) == REFUSED
        for seal in (b"", b"x", captured[begin : end - 8], captured[begin:end] * 2):
            assert await sent_to(both.wire.target, captured[:begin] + seal + captured[end:]) == REFUSED
        assert both.calls == []


async def test_a_man_in_the_middle_has_another_certificate_of_the_same_authority(tmp_path: Path) -> None:
    """It is sent nothing: a replica is known by the very certificate that it announces."""
    authority = Authority()
    good = authority.issued(tmp_path / "fullchain.pem", "127.0.0.1")
    evil = authority.issued(tmp_path / "evil.pem", "127.0.0.1")
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            heard.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    tls = {"cert": str(good), "key": str(good)}
    async with cluster(2, serve={"tls": tls}) as two, client(certificate=good) as one:
        first, second = two.replicas
        task = (await one.call(first.url, "job", TASKS, token="a", seconds=600))["result"]
        asked = {"taskId": task["taskId"]}
        assert (await one.modern(second.url, "tasks/get", asked, TASKS))["result"]["status"] == "working"
        where = first.log.read_text().split(" at https://127.0.0.1:")[1].split(",")[0]
        first.kill()
        await first.ended()
        context: ssl.SSLContext = tls_context(str(evil))
        server = await asyncio.start_server(listen, "127.0.0.1", int(where), ssl=context)
        state = await one.modern(second.url, "tasks/get", asked, TASKS)
        assert state["result"]["status"] == "failed"
        assert "has ended" in state["result"]["error"]["message"]
        server.close()
        assert b"".join(heard) == b""
        assert "is not trusted: it shows another certificate" in " ".join(second.log.read_text().split())


async def test_a_replica_without_authentication_passes_requests_on_to_one_with_keys(tmp_path: Path) -> None:
    """The one with keys refuses them: it does not believe another config on the same store."""
    serve = setting("serve", {"auth": {"keys": True}})
    keys = Keys(file_keys(tmp_path / "toolbus.yaml"), "default")
    async with pair(tmp_path, AccessControl(serve, keys=keys)) as both:
        both.other.app.drain()  # from now on it leaves new requests to others
        refused = await both.other.modern("tools/call", {"name": "note", "arguments": {"text": "pay"}})
        assert refused.status_code == 401
        assert len(both.wire.seen) == 1
        assert both.calls == []


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/mcp\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n",
        b"",
    ],
    ids=["redirects", "never ends", "never sends an event", "never answers"],
)
async def test_a_false_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, response: bytes) -> None:
    """The client learns within a limit that nobody knows the outcome, and is sent nowhere else."""
    monkeypatch.setattr(relay, "_SILENCE", 0.2)

    async def mislead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(mislead, "127.0.0.1", 0)
    async with pair(tmp_path) as both:
        false = Peers(both.store)
        await false.start(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        asked: dict[str, Any] = {"taskId": f"{false.id}.1", "_meta": {CAPABILITIES: TASKS}}
        answer = await both.other.modern("tasks/get", asked, {"mcp-name": ""})
        assert answer.status_code == 200
        assert "check before you repeat it" in answer.text
        await false.close()
    listener.close()
