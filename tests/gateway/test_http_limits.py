"""Attacks of hostile and broken clients on the HTTP front: every refusal, without effect on others."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.gateway.driving import JSON
from tests.gateway.front import BOTH, Front, front, modern_bytes, modern_request
from tests.inside.gateway import HttpLimits, Metrics, Refusals
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.anyio

ADD: JSON = {"name": "add", "arguments": {"a": 1, "b": 2}}
SECRET = "tb_secret"
HEAD = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {SECRET}\r\n".encode()


@asynccontextmanager
async def attacked(limits: HttpLimits, caplog: pytest.LogCaptureFixture, kind: str) -> AsyncGenerator[Front]:
    """A front that has to refuse something of this kind, log it once without its content, and go on."""
    caplog.set_level(logging.DEBUG)
    async with front(limits) as served:
        yield served
        assert (await served.modern("tools/call", ADD)).status_code == 200
        assert served.app.metrics.refused[kind] >= 1
    lines = [record for record in caplog.records if "refused a request" in record.message]
    assert len(lines) == 1, lines
    assert SECRET not in caplog.text


async def test_headers_that_are_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """They are refused with 431, finished or not."""
    async with attacked(HttpLimits(head_bytes=2000), caplog, "head") as served:
        for data in (b"x-a: " + b"a" * 3000, b"x-a: " + b"a" * 3000 + b"\r\n\r\n", b"x-a: b\r\n" * 400):
            assert (await served.raw(HEAD + data)).startswith(b"HTTP/1.1 431 ")


async def test_a_path_that_is_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """It is refused with 431."""
    async with attacked(HttpLimits(head_bytes=2000), caplog, "head") as served:
        data = b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"
        assert (await served.raw(data)).startswith(b"HTTP/1.1 431 ")


async def test_too_many_headers(caplog: pytest.LogCaptureFixture) -> None:
    """They are refused with 431."""
    async with attacked(HttpLimits(headers=20), caplog, "head") as served:
        answer = await served.raw(HEAD + b"x-a: b\r\n" * 30 + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_body_that_says_it_is_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """It is refused with 413 before it is read."""
    async with attacked(HttpLimits(body_bytes=1000), caplog, "body") as served:
        answer = await served.raw(HEAD + b"content-length: 1001\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_is_sent_although_it_is_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """The client gets to read the refusal."""
    async with attacked(HttpLimits(body_bytes=1000), caplog, "body") as served:
        response = await served.http.post(served.url, content=b"x" * 2_000_000, headers=BOTH)
        assert response.status_code == 413


async def test_a_body_in_pieces_that_is_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """It is refused with 413 as soon as it is too long, although it never says how long it is."""
    chunk = b"190\r\n" + b"x" * 400 + b"\r\n"
    head = b"".join(f"{name}: {value}\r\n".encode() for name, value in BOTH.items())
    async with attacked(HttpLimits(body_bytes=1000), caplog, "body") as served:
        answer = await served.raw(HEAD + head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 3)
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_in_pieces_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    async with front() as served:
        body, headers = modern_request("tools/call", ADD)

        async def pieces() -> AsyncGenerator[bytes]:
            for number in range(0, len(body), 50):
                yield body[number : number + 50]

        response = await served.http.post(served.url, content=pieces(), headers=headers)
    assert response.json()["result"]["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS to a plain port
        b"GET\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: a\r\nx y: z\r\n\r\n",
    ],
)
async def test_bytes_that_are_not_a_request(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """They are refused with 400, even where two servers would read them differently."""
    async with attacked(HttpLimits(), caplog, "malformed") as served:
        assert (await served.raw(data)).startswith(b"HTTP/1.1 400 ")


async def test_headers_that_never_end(caplog: pytest.LogCaptureFixture) -> None:
    """The client has some seconds for them, however many bytes it sends meanwhile."""
    async with attacked(HttpLimits(head_seconds=0.1), caplog, "slow_head") as served:
        assert (await served.raw(HEAD + b"x-a: ")).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_never_ends(caplog: pytest.LogCaptureFixture) -> None:
    """The client has some seconds for it, and the request that waits for it ends."""
    head = b"".join(f"{name}: {value}\r\n".encode() for name, value in BOTH.items())
    async with attacked(HttpLimits(body_seconds=0.1), caplog, "slow_body") as served:
        answer = await served.raw(HEAD + head + b"content-length: 100\r\n\r\n{")
        assert answer.startswith(b"HTTP/1.1 408 ")
        await served.app.idle()


async def test_a_connection_that_is_not_used() -> None:
    """It is closed without a word, before its first request and after its last one."""
    async with front(HttpLimits(head_seconds=0.1, idle_seconds=0.1)) as served:
        assert await served.raw(b"") == b""
        answer = await served.raw(modern_bytes(served.port, "tools/call", ADD))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"}")
        assert not served.app.metrics.refused


async def test_a_response_that_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Its connection is closed, and the call is not kept."""
    async with attacked(HttpLimits(unread_seconds=0.1), caplog, "slow_reader") as served:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            params: JSON = {"name": "large", "arguments": {"size": 8_000_000}}
            client.sendall(modern_bytes(served.port, "tools/call", params))
            await _until_closed(served)


async def test_a_response_that_is_read_byte_by_byte(caplog: pytest.LogCaptureFixture) -> None:
    """This has the same effect: the connection must have room again, and a single byte is not enough."""
    async with attacked(HttpLimits(unread_seconds=0.5), caplog, "slow_reader") as served:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            params: JSON = {"name": "large", "arguments": {"size": 8_000_000}}
            client.sendall(modern_bytes(served.port, "tools/call", params))
            client.setblocking(False)

            async def read() -> None:
                while True:
                    with suppress(OSError):
                        client.recv(1)
                    await asyncio.sleep(0.01)

            reading = asyncio.create_task(read())
            await _until_closed(served)
            reading.cancel()


async def test_a_stream_that_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Its queue is bounded; then its connection is closed and the call cancelled."""
    async with attacked(HttpLimits(backlog_bytes=1_000_000), caplog, "slow_reader") as served:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            arguments = {"size": 500_000, "parts": 40}
            params: JSON = {"name": "large", "arguments": arguments, "_meta": {"progressToken": "t"}}
            client.sendall(modern_bytes(served.port, "tools/call", params))
            await _until_closed(served)


async def _until_closed(served: Front) -> None:
    await until(lambda: bool(served.app.metrics.refused))
    async with asyncio.timeout(PATIENCE):
        await served.app.idle()


async def test_more_connections_than_there_may_be(caplog: pytest.LogCaptureFixture) -> None:
    """Further ones are refused with 503; those that are open go on."""
    async with attacked(HttpLimits(connections=3), caplog, "connections") as served:
        open_ones = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
        assert (await served.raw(b"")).startswith(b"HTTP/1.1 503 ")
        for reader, writer in open_ones:
            writer.write(modern_bytes(served.port, "tools/call", ADD, connection="close"))
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()


async def test_more_connections_of_one_address_than_it_may_have(caplog: pytest.LogCaptureFixture) -> None:
    """Further ones are refused with 503."""
    async with attacked(HttpLimits(connections_per_address=2), caplog, "connections") as served:
        open_ones = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(2)]
        assert (await served.raw(b"")).startswith(b"HTTP/1.1 503 ")
        for reader, writer in open_ones:
            writer.close()
            await writer.wait_closed()
            assert reader.at_eof()


@pytest.mark.parametrize(
    ("limits", "status"), [(HttpLimits(requests_per_principal=1), 429), (HttpLimits(requests=1), 503)]
)
async def test_more_requests_at_once_than_one_may_have(
    limits: HttpLimits, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Further ones are refused with 429, or with 503 if all have too many."""
    async with attacked(limits, caplog, "in_flight") as served:
        call = asyncio.create_task(served.modern("tools/call", {"name": "wait"}))
        async with asyncio.timeout(PATIENCE):
            await served.gates.entered.wait()
        refused = await served.modern("tools/call", ADD)
        assert (refused.status_code, refused.headers["retry-after"]) == (status, "1")
        served.gates.opened.set()
        assert (await call).status_code == 200


async def test_calls_of_connections_that_are_gone() -> None:
    """A legacy call goes on without its connection, so it occupies its slot until it ends."""
    async with front(HttpLimits(requests_per_principal=1)) as served:
        session = await served.opened()
        call = asyncio.create_task(session.call("wait"))
        async with asyncio.timeout(PATIENCE):
            await served.gates.entered.wait()
        call.cancel()
        await until(lambda: call.done() and served.app.connections() <= 1)
        assert (await session.call("add", a=1, b=2)).status_code == 429
        served.gates.opened.set()
        await served.app.idle()
        assert (await session.call("add", a=1, b=2)).status_code == 200


async def test_a_foreign_host_or_origin(caplog: pytest.LogCaptureFixture) -> None:
    """A page that has its name point to this machine gets nothing."""
    async with front() as served:
        for headers in ({"host": "evil.example.com"}, {"origin": "http://evil.example.com"}):
            response = await served.modern("tools/list", headers=headers)
            assert response.status_code in (403, 421)
            assert "access-control-allow-origin" not in response.headers
            for page in ("metrics", "mcp"):
                url = served.url.replace("mcp", page)
                assert (await served.http.get(url, headers=headers)).status_code in (403, 421)
        origin = {"origin": f"http://127.0.0.1:{served.port}"}
        assert (await served.modern("tools/list", headers=origin)).status_code == 200


def test_refusals_are_reported_once_a_minute_for_each_kind_and_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    metrics = Metrics()
    refusals = Refusals(metrics, lambda: now)
    for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        refusals.note("head", address, "its headers are too long")
    refusals.note("body", "10.0.0.1", "its body is too long")
    assert len(caplog.records) == 3
    now = 61.0
    refusals.note("head", "10.0.0.1", "its headers are too long")
    assert len(caplog.records) == 4
    assert metrics.refused == {"head": 4, "body": 1}
