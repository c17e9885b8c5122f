"""Requests on their way to an API, and its responses."""

import asyncio
import gzip
from collections.abc import AsyncGenerator

import pytest

from tests.inside.openapi import RequestRefused
from tests.openapi.api import ApiServer, Received, api_server, http_response, sender_for
from tests.openapi.operations import body, parameter

pytestmark = pytest.mark.anyio
TEN_MIB = 10 * 2**20
EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"
)


@pytest.fixture
async def api() -> AsyncGenerator[ApiServer]:
    async with api_server() as server:
        yield server


async def test_a_request_arrives_as_it_was_built(api: ApiServer) -> None:
    one = api.operation("/{color}", parameter("path", "simple"), method="POST", body=body("application/json"))
    credentials, query = {"authorization": "Bearer t"}, {"key": "k&"}
    async with sender_for(api.url, api.url, credentials=credentials, query=query) as sender:
        reply = await sender.send(one, {"color": "a/b", "body": {"x": 1}})
    assert (reply.status, reply.media_type, reply.text) == (200, "application/json", "{}")
    [request] = api.received
    assert (request.method, request.target, request.body) == ("POST", "/a%2Fb?key=k%26", b'{"x":1}')
    assert request.headers["authorization"] == "Bearer t"
    assert len(request.names) == len(set(request.names))


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (http_response(b"", status="204 No Content").replace(b"content-length: 0\r\n", b""), 204, ""),
        (http_response(gzip.compress(b"zipped"), "content-encoding: gzip"), 200, "zipped"),
        (http_response("ü".encode("latin-1"), "content-type: text/plain; charset=iso-8859-1"), 200, "ü"),
        (http_response(b"\xff!", "content-type: text/plain; charset=nonsense"), 200, "\ufffd!"),
        (http_response(b"x" * TEN_MIB), 200, "x" * TEN_MIB),
        (
            http_response(b'{"a":1}\n{"a":2}\n', "content-type: application/x-ndjson"),
            200,
            '{"a":1}\n{"a":2}\n',
        ),
        (EVENTS, 200, "data: 1\n\ndata: 2\n\n"),
    ],
    ids=["204", "gzip", "latin-1", "an unknown charset", "10 MiB", "NDJSON", "events"],
)
async def test_a_response_is_read_to_its_end(api: ApiServer, answer: bytes, status: int, text: str) -> None:
    async def send(writer: asyncio.StreamWriter, _: Received) -> None:
        writer.write(answer)

    api.answer = send
    async with sender_for(api.url, api.url) as sender:
        for _ in range(2):
            reply = await sender.send(api.operation(), {})
            assert (reply.status, reply.text) == (status, text)


async def test_a_response_to_head_has_no_body(api: ApiServer) -> None:
    async def send(writer: asyncio.StreamWriter, request: Received) -> None:
        writer.write(http_response(b"x" * 1000)[: -1000 if request.method == "HEAD" else None])

    api.answer = send
    async with sender_for(api.url, api.url) as sender:
        for method, size in (("HEAD", 0), ("GET", 1000), ("HEAD", 0)):
            reply = await sender.send(api.operation(method=method), {})
            assert (len(reply.body), reply.headers["content-length"]) == (size, "1000")


async def test_sixty_four_requests_at_once_get_their_own_answers(api: ApiServer) -> None:
    async def send(writer: asyncio.StreamWriter, request: Received) -> None:
        if len(api.received) < 64:
            await all_here.wait()
        all_here.set()
        writer.write(http_response(request.target.encode()))

    all_here = asyncio.Event()
    api.answer = send
    one = api.operation("/{color}", parameter("path", "simple"))
    async with sender_for(api.url, api.url) as sender:
        replies = await asyncio.gather(*(sender.send(one, {"color": n}) for n in range(64)))
    assert [reply.text for reply in replies] == [f"/{n}" for n in range(64)]


async def test_a_cancelled_request_hangs_up(api: ApiServer) -> None:
    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        assert await reader.read() == b""
        writer.close()
        api.hung_up.set()

    arrived = asyncio.Event()
    async with await asyncio.start_server(watch, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with sender_for(url, url) as sender:
            call = asyncio.create_task(sender.send(api.operation(server=url), {}))
            await arrived.wait()
            call.cancel()
            await api.hung_up.wait()
            with pytest.raises(asyncio.CancelledError):
                await call


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        ("301 Moved Permanently", "GET", ["GET", "GET"]),
        ("302 Found", "HEAD", ["HEAD", "HEAD"]),
        ("307 Temporary Redirect", "POST", ["POST", "POST"]),
        ("303 See Other", "POST", ["POST", "GET"]),
        ("302 Found", "POST", ["POST"]),
    ],
)
async def test_a_redirect_is_followed_on_the_same_origin(
    api: ApiServer, status: str, method: str, expected: list[str]
) -> None:
    async def send(writer: asyncio.StreamWriter, request: Received) -> None:
        is_first = request.target == "/things"
        writer.write(
            http_response(b"", "location: /other", status=status) if is_first else http_response(b"")
        )

    api.answer = send
    one = api.operation(method=method, body=body("text/plain") if method == "POST" else None)
    async with sender_for(api.url, api.url, credentials={"authorization": "Bearer t"}) as sender:
        reply = await sender.send(one, {"body": "x"})
    assert [request.method for request in api.received] == expected
    assert {request.headers["authorization"] for request in api.received} == {"Bearer t"}
    assert reply.status == (200 if len(expected) == 2 else 302)
    bodies = [request.body for request in api.received]
    assert bodies == [b"x" if method == "POST" else b"" for method in expected]


async def test_endless_redirects_end(api: ApiServer) -> None:
    async def send(writer: asyncio.StreamWriter, request: Received) -> None:
        location = f"location: http://localhost:{api.port}/{len(api.received)}"
        other = f"location: {api.url}/{len(api.received)}"
        is_local = request.headers["host"].startswith("localhost")
        writer.write(http_response(b"", other if is_local else location, status="302 Found"))

    api.answer = send
    async with sender_for(api.url, api.url, f"http://localhost:{api.port}") as sender:
        with pytest.raises(RequestRefused, match="more than 5 times"):
            await sender.send(api.operation(), {})
    assert len(api.received) < 10
