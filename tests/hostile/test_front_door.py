"""Attacks on the gateway's HTTP front by a client without a key, with bytes alone."""

import asyncio
import gc
import json
import socket
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.gateway.driving import JSON
from tests.gateway.front import front, modern_bytes, modern_request
from tests.hostile.besieged import besieged
from tests.inside.gateway import HttpConnection, HttpLimits
from tests.patience import PATIENCE, until
from tests.servers.certificates import self_signed

pytestmark = pytest.mark.anyio

ADD: JSON = {"name": "add", "arguments": {"a": 1, "b": 2}}
CHUNKED = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
TRAILERS = {
    "many": b"x: y\r\n" * 500_000,
    "one that never ends": b"x: " + b"y" * 6_000_000,
    "a chunk extension that never ends": b"5;" + b"y" * 6_000_000,
}
MIB = 16
"""The limit in docs/limits.md for connections without a key."""


async def flood(port: int, *parts: bytes) -> bytes:
    """The response to these bytes, for as long as the front reads them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                for part in parts:
                    for at in range(0, len(part), 65_536):
                        writer.write(part[at : at + 65_536])
                        await writer.drain()
            with suppress(ConnectionError):
                return await reader.read()
            return b""
    finally:
        writer.close()


@pytest.mark.parametrize("kind", TRAILERS)
async def test_trailers_without_end(kind: str, tmp_path: Path) -> None:
    """They have the limits of headers, and are not kept."""
    start = b"" if "extension" in kind else b"0\r\n"
    async with besieged(tmp_path) as gateway:

        async def attack() -> None:
            answers = await asyncio.gather(
                *(flood(gateway.port, CHUNKED + start, TRAILERS[kind]) for _ in range(4))
            )
            assert all(answer[:12] in (b"", b"HTTP/1.1 401", b"HTTP/1.1 431") for answer in answers)

        (await gateway.cost(attack())).assert_bearable(mib=MIB)


async def test_trailers_that_are_complete() -> None:
    """They are refused beyond the limits, and are never headers of the request."""
    body, headers = modern_request("tools/call", ADD)
    head = "".join(
        f"{name}: {value}\r\n" for name, value in {"host": "127.0.0.1", **headers}.items()
    ).encode()
    start = b"POST /mcp HTTP/1.1\r\n" + head + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    async with front(HttpLimits(head_bytes=4000, headers=50)) as served:
        good = await served.raw(start + chunk + b"mcp-method: tools/list\r\nx: y\r\n\r\n")
        assert good.startswith(b"HTTP/1.1 200")
        assert b'"text":"3"' in good
        for trailers in (b"x: y\r\n" * 51, b"x: " + b"y" * 5000 + b"\r\n"):
            assert (await served.raw(start + chunk + trailers + b"\r\n")).startswith(b"HTTP/1.1 431")


async def test_a_large_body_whose_chunk_frames_arrive_alone() -> None:
    """It is accepted: only bytes without a body are treated as trailers."""
    body, headers = modern_request("tools/call", {**ADD, "_meta": {"x": "y" * 40_000}})
    head = "".join(
        f"{name}: {value}\r\n" for name, value in {"host": "127.0.0.1", **headers}.items()
    ).encode()
    async with front(HttpLimits(head_bytes=4000)) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            b"POST /mcp HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n" + head + b"\r\n"
        )
        for at in range(0, len(body), 40):
            piece = body[at : at + 40]
            for part in (b"%x\r\n" % len(piece), piece, b"\r\n"):
                writer.write(part)
                await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


@asynccontextmanager
async def connections(
    port: int, count: int, first: bytes = b"", source: str = "127.0.0.2"
) -> AsyncGenerator[None]:
    """So many open connections, by default from another address, each with its first bytes."""
    clients: list[socket.socket] = []
    try:
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
            clients.append(client)
            with suppress(ConnectionError):
                client.sendall(first)
            if len(clients) % 20 == 0:
                await asyncio.sleep(0)
        yield
    finally:
        for client in clients:
            client.close()


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
"""The beginning of a TLS handshake."""


@pytest.mark.parametrize("first", [b"", HELLO], ids=["silent", "half a handshake"])
async def test_handshakes_that_never_end(first: bytes, tmp_path: Path) -> None:
    """They are counted and limited in number and time; others, also new ones, are served beside them."""
    async with besieged(tmp_path, certificate=self_signed(tmp_path)) as gateway:

        async def attack() -> None:
            async with connections(gateway.port, 700, first):
                for _ in range(3):
                    gateway.http.headers["connection"] = "close"
                    assert (await gateway.call()).status_code == 200
            del gateway.http.headers["connection"]

        (await gateway.cost(attack())).assert_bearable(mib=4 * MIB)


async def test_a_handshake_has_seconds(tmp_path: Path) -> None:
    """A connection that is not encrypted in time is closed, and leaves its place to others."""
    limits = HttpLimits(handshake_seconds=1, connections=4, handshakes=4)
    async with front(limits, certificate=self_signed(tmp_path)) as served:
        for first in (b"", HELLO):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(first)
            assert served.app.connections() <= 1
            await until(lambda: served.app.connections() == 1)
            async with asyncio.timeout(PATIENCE):
                assert await reader.read() == b""
            writer.close()
            await until(lambda: served.app.connections() == 0)
        assert (await served.modern("tools/call", ADD)).status_code == 200


async def test_a_refusal_before_the_body_was_asked_for() -> None:
    """The connection is closed, so later bytes are never taken for the body, or the body for a request."""
    smuggled = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    head = b"POST /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
    async with front() as served:
        for sent in (head % len(smuggled) + smuggled, head % 100 + smuggled):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(sent[: sent.index(b"\r\n\r\n") + 4])
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 404")
            assert b"connection: close\r\n" in answer
            with suppress(ConnectionError):
                writer.write(smuggled)
                async with asyncio.timeout(PATIENCE):
                    assert await reader.read() == b""
            writer.close()


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_an_upgrade_that_is_not_offered(is_split: bool, is_chunked: bool) -> None:
    """The request is answered as any other, with its body, and so is the next one on the connection."""
    body, headers = modern_request("tools/call", ADD)
    framing = "transfer-encoding: chunked" if is_chunked else f"content-length: {len(body)}"
    lines = {"host": "127.0.0.1", "connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    start = f"POST /mcp HTTP/1.1\r\n{head}http2-settings: AAMAAABk\r\n{framing}\r\n\r\n".encode()
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    async with front() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for _ in range(2):
            for part in (start, sent[:10], sent[10:]) if is_split else (start + sent,):
                writer.write(part)
                await asyncio.sleep(0.01 if is_split else 0)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["result"]["content"][0]["text"] == "3"
        writer.close()


async def test_requests_that_do_not_wait_for_responses() -> None:
    """Only a few of one connection are kept."""
    async with front() as served:
        one = modern_bytes(served.port, "tools/call", {"name": "wait", "arguments": {}})
        answer = await served.raw(one * 400)
        assert answer.startswith(b"HTTP/1.1 429")
        assert served.app.metrics.refused["pipelined"] == 1
        await served.app.idle()


CLOSED: dict[str, Callable[[int], bytes]] = {
    "after a response": lambda port: modern_bytes(port, "tools/call", ADD, connection="close"),
    "after a refusal": lambda port: b"GET / HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n",
    "after nonsense": lambda port: b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("kind", CLOSED)
async def test_connections_that_were_closed(kind: str) -> None:
    """Their memory is free at once, and does not wait for the garbage collector."""
    seen: list[weakref.ref[HttpConnection]] = []
    async with front() as served:
        gc.collect()
        gc.disable()
        try:
            connected = served.server._hub.connections  # pyright: ignore[reportPrivateUsage]  # what is kept is not public
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            await until(lambda: bool(connected))
            seen += map(weakref.ref, connected)
            writer.write(CLOSED[kind](served.port))
            async with asyncio.timeout(PATIENCE):
                assert (await reader.read()).startswith(b"HTTP/1.1 ")
            writer.close()
            await until(lambda: not connected)
            await until(lambda: all(one() is None for one in seen))
        finally:
            gc.enable()


@pytest.mark.parametrize("proxies", [["127.0.0.1"], ["127.0.0.1/8"]])
async def test_the_connections_of_a_proxy(proxies: list[str]) -> None:
    """Connections of a trusted proxy have no limit per address, for any notation of its network."""
    limits = HttpLimits(connections_per_address=2)
    async with (
        front(limits, trusted_proxies=proxies) as served,
        connections(served.port, 5, source="127.0.0.1"),
    ):
        await until(lambda: served.app.connections() == 5)
        assert (await served.modern("tools/call", ADD)).status_code == 200
