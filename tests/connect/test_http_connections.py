"""The HTTP client on the wire: how responses are framed, and which connections are reused."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncGenerator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.connect import EventParser, ServerSentEvent, parse_url
from tests.inside.connect import connection as http_connection
from tests.patience import PATIENCE
from tests.servers.raw_http import RawServer, Request, raw_server, response, send_plain
from toolbus import ConnectionLost, Toolbus

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncGenerator[RawServer]:
    async with raw_server() as server:
        yield server


def bus_with(server: RawServer, **options: object) -> Toolbus:
    return Toolbus({"servers": {"a": {"url": server.url, "era": "legacy", **options}}})


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def chunked(data: bytes) -> bytes:
    parts = [data[:7], data[7:]]
    return b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\ntrailer: 1\r\n\r\n"


def event_stream(data: bytes) -> bytes:
    event = b": hello\r\nid: 1\r\ndata: " + data + b"\r\n\r\n"
    kind = "content-type: text/event-stream; charset=utf-8"
    return response(b"", kind, "transfer-encoding: chunked", length=False).replace(
        b"content-type: application/json\r\n", b""
    ) + chunked(event)


FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: response(gzip.compress(data), "content-encoding: gzip"),
    "deflate": lambda data: response(zlib.compress(data), "content-encoding: deflate"),
    "deflate without a header": lambda data: response(raw_deflate(data), "Content-Encoding: Deflate"),
    "identity": lambda data: response(data, "content-encoding: identity"),
    "chunks": lambda data: response(b"", "transfer-encoding: chunked", length=False) + chunked(data),
    "chunks of gzip": lambda data: (
        response(b"", "transfer-encoding: chunked", "content-encoding: gzip", length=False)
        + chunked(gzip.compress(data))
    ),
    "after a 100 and a 103": lambda data: (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + response(data)
    ),
    "events": event_stream,
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_response_is_read_however_it_is_framed_and_its_connection_is_reused(
    server: RawServer, name: str, size: int
) -> None:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        data = FRAMES[name](request.answer)
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await asyncio.sleep(0)  # so that it arrives in pieces

    async with bus_with(server) as bus:
        server.send = send
        assert [(await bus.call("a_look")).text for _ in range(9)] == ["seen"] * 9
    # The end of a stream may arrive after the next call has begun, on a second connection.
    assert len({request.connection for request in server.calls}) <= (2 if name == "events" else 1)


async def test_a_body_without_a_length_ends_with_its_connection(server: RawServer) -> None:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(response(request.answer, length=False))
        writer.close()

    async with bus_with(server) as bus:
        server.send = send
        assert [(await bus.call("a_look")).text for _ in range(3)] == ["seen"] * 3
    assert len({request.connection for request in server.calls}) == 3


async def test_a_connection_that_the_server_closes_after_a_response_is_not_written_to(
    server: RawServer,
) -> None:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(response(request.answer))  # which promises that the connection stays open
        writer.close()

    async with bus_with(server) as bus:
        server.send = send
        assert [(await bus.call("a_look")).text for _ in range(20)] == ["seen"] * 20
    assert len(server.calls) == 20


async def test_calls_at_once_share_no_connection_and_later_ones_reuse_them(server: RawServer) -> None:
    async with bus_with(server) as bus:
        for _ in range(3):
            results = await asyncio.gather(*(bus.call("a_look") for _ in range(20)))
            assert {result.text for result in results} == {"seen"}
    assert len({request.connection for request in server.calls}) == 20


INVALID = {
    "SMTP": (b"220 smtp.test ready\r\n", "not valid HTTP"),
    "two lengths": (response(b"{}", "content-length: 9"), "not valid HTTP"),
    "an upgrade": (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "not valid HTTP"),
    "bad gzip": (response(b"no gzip", "content-encoding: gzip"), "cannot be decompressed"),
    "an encoding": (response(b"{}", "content-encoding: br"), "content encoding 'br'"),
    "a bad chunk": (response(b"", "transfer-encoding: chunked", length=False) + b"zz\r\n", "not valid HTTP"),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 60_000, "larger than 256 KiB"),
    "a body cut short": (response(b"{}", "content-type: a")[:-1], "closed the connection"),
    "nothing": (b"", "closed the connection"),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_response_fails_its_call_alone_and_counts_as_sent(
    server: RawServer, name: str
) -> None:
    data, problem = INVALID[name]

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(data)
        writer.close()

    async with bus_with(server) as bus:
        server.send = send
        with pytest.raises(ConnectionLost, match=problem) as caught:
            await bus.call("a_look")
        assert caught.value.sent
        server.send = send_plain
        assert (await bus.call("a_look")).text == "seen"
        assert bus.servers["a"].restarts == 0


@pytest.mark.parametrize("encoding", ["gzip", None])
async def test_a_response_over_the_limit_is_refused_before_it_is_in_memory(
    server: RawServer, encoding: str | None
) -> None:
    huge = b"[" + b" " * (3 * 2**20)

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        packed = gzip.compress(huge) if encoding else huge
        writer.write(response(packed, *([f"content-encoding: {encoding}"] if encoding else [])))

    async with bus_with(server, limits={"message": 2**20}) as bus:
        server.send = send
        with pytest.raises(ConnectionLost, match="larger than 1 MiB"):
            await bus.call("a_look")
        server.send = send_plain
        assert (await bus.call("a_look")).text == "seen"


async def test_what_the_server_sends_unasked_ends_the_connection_and_harms_no_call(server: RawServer) -> None:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(response(request.answer) + response(b'{"jsonrpc": "2.0", "id": 9, "result": {}}'))

    async with bus_with(server) as bus:
        server.send = send
        assert [(await bus.call("a_look")).text for _ in range(5)] == ["seen"] * 5


async def test_a_stream_that_goes_on_after_the_answer_is_hung_up(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "DRAIN_TIME", 0.01)

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(event_stream(request.answer).removesuffix(b"0\r\ntrailer: 1\r\n\r\n"))

    async with bus_with(server) as bus:
        server.send = send
        assert (await bus.call("a_look")).text == "seen"
        async with asyncio.timeout(PATIENCE):
            await server.hung_up.wait()


async def test_progress_that_arrives_together_with_the_answer_is_reported_before_it(
    server: RawServer,
) -> None:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        reports = [
            {"method": "notifications/progress", "params": {"progressToken": token, "progress": n}}
            for n in range(1, 4)
        ]
        events = [*(json.dumps(report).encode() for report in reports), request.answer]
        body = b"".join(b"data: " + event + b"\n\n" for event in events)
        writer.write(response(body).replace(b"application/json", b"text/event-stream"))

    seen: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with bus_with(server) as bus:
        server.send = send
        assert (await bus.call("a_look", on_progress=report)).text == "seen"
        assert seen == [1, 2, 3]


async def test_a_cancelled_call_hangs_up(server: RawServer) -> None:
    arrived = asyncio.Event()

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        arrived.set()  # and the next thing that is read is the end of the connection

    async with bus_with(server) as bus:
        server.send = send
        call = asyncio.create_task(bus.call("a_look"))
        await arrived.wait()
        assert not server.hung_up.is_set()
        call.cancel()
        async with asyncio.timeout(PATIENCE):
            await server.hung_up.wait()


async def test_a_cookie_goes_back_to_the_server_that_set_it(server: RawServer) -> None:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        cookies = ("set-cookie: node=7; Path=/", "set-cookie: other=1; Path=/elsewhere")
        writer.write(response(request.answer, *cookies))

    async with bus_with(server) as bus:
        server.send = send
        for _ in range(2):
            await bus.call("a_look")
    assert [request.headers.get("cookie") for request in server.calls] == [None, "node=7"]


def found(text: bytes, sizes: list[int]) -> list[ServerSentEvent]:
    parser, events = EventParser(10_000), list[ServerSentEvent]()
    for size in sizes:
        events += parser.feed(text[:size])
        text = text[size:]
    return events + parser.feed(text)


@given(
    st.lists(
        st.sampled_from([b"data: a", b"data:b", b"data", b"id: 7", b"retry: 20", b"event: x", b": c", b""])
    ),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(1, 9), max_size=30),
)
def test_events_do_not_depend_on_how_their_bytes_arrive(
    lines: list[bytes], end: bytes, sizes: list[int]
) -> None:
    text = b"".join(line + end for line in lines)
    plain = b"".join(line + b"\n" for line in lines)
    assert found(text, sizes) == found(plain, [])


def test_events_are_read_as_the_standard_says() -> None:
    stream = (
        b"\xef\xbb\xbfevent: endpoint\ndata: /a\ndata: b\n\n"
        b": a comment\n\n"
        b"id: 5\nretry: 20\ndata\n\nretry: soon\nid: a\0b\nunknown: 1\ndata:  x:y\n\ndata: never ended"
    )
    assert found(stream, []) == [
        ServerSentEvent(kind="endpoint", data=b"/a\nb"),
        ServerSentEvent(id="5", retry=20),
        ServerSentEvent(data=b" x:y"),
    ]


URLS = {
    "http://host.test": ("host.test", "/", "host.test"),
    "https://ann:pw@host.test:443/a b?q=ü#top": ("host.test", "/a%20b?q=%C3%BC", "host.test"),
    "http://[::1]:8080/mcp?a=1&b=%20": ("::1", "/mcp?a=1&b=%20", "[::1]:8080"),
    "http://bücher.test/": ("xn--bcher-kva.test", "/", "xn--bcher-kva.test"),
    "http://ann:pw@FAẞ.test:8080/": ("xn--fa-hia.test", "/", "xn--fa-hia.test:8080"),
    "http://127。0。0。1/": ("127.0.0.1", "/", "127.0.0.1"),
    "http+unix://%2Frun%2FApp.sock/mcp": ("/run/App.sock", "/mcp", "localhost"),
}


@pytest.mark.parametrize("url", URLS)
def test_a_url_names_where_to_connect_and_what_to_request(url: str) -> None:
    parsed = parse_url(url)
    assert (parsed.host, parsed.target, parsed.authority) == URLS[url]
    assert parsed.text.isascii()


@pytest.mark.parametrize(
    "url", ["ftp://host.test/", "http://", "http://[::1/", "http://host.test:99999/", "/a", "http://❤.test/"]
)
def test_what_is_not_a_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|host|IPv6|[Pp]ort"):
        parse_url(url)


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("http://h.test/a/b?c", "d?e", "http://h.test/a/d?e"),
        ("http://h.test/a", "//other.test/x", "http://other.test/x"),
        ("http+unix://%2Fs.sock/a/b", "/c?d=1", "http+unix://%2Fs.sock/c?d=1"),
        ("http+unix://%2Fs.sock/a/b", "http://other.test/x", "http://other.test/x"),
    ],
)
def test_a_reference_is_joined_to_the_url_it_came_from(base: str, reference: str, expected: str) -> None:
    assert parse_url(base).join(reference).text == expected
