"""Servers, proxies and configs that try to make the HTTP client misread a response or a host."""

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.servers.certificates import self_signed
from tests.servers.proxy import proxy_server, server_tls
from tests.servers.raw_http import RawServer, Request, raw_server, raw_unix_server, response, send_plain
from toolbus import ConfigError, ConnectFailed, ConnectionLost, Toolbus, ToolbusError, connect_mcp

pytestmark = pytest.mark.anyio
FULL_READ = 256 * 1024
"""The number of bytes that an event loop reads at once."""
TURNS = 5
"""The turns of the event loop in which the client surely reads all received data."""
CHUNKS = response(b"", "transfer-encoding: chunked", length=False)
END = b"0\r\n\r\n"


@pytest.fixture
async def server() -> AsyncGenerator[RawServer]:
    async with raw_server() as server:
        yield server


def bus_with(server: RawServer, **options: object) -> Toolbus:
    return Toolbus({"servers": {"a": {"url": server.url, "era": "legacy", **options}}})


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


async def write_apart(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write data that the client reads by itself."""
    writer.write(data)
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_a_large_response_whose_frames_arrive_alone(tmp_path: Path) -> None:
    """It is read: only other bytes than the body are treated as overhead."""
    are_full: list[bool] = []

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        # A Unix socket delivers at once, so each chunk is exactly one read.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * FULL_READ)
        await write_apart(writer, CHUNKS)
        body = request.answer.ljust(4 * FULL_READ)
        for start in range(0, len(body), FULL_READ):
            await write_apart(writer, b"%x\r\n" % FULL_READ)
            writer.write(body[start : start + FULL_READ])
            are_full.append(not writer.transport.get_write_buffer_size())
            await write_apart(writer, b"")
            await write_apart(writer, b"\r\n")
        writer.write(END)

    path = str(tmp_path / "Server.sock")
    entry = {"url": f"http+unix://{quote(path, safe='')}/mcp", "era": "legacy"}
    async with raw_unix_server(path) as server, Toolbus({"servers": {"a": entry}}) as bus:
        server.send = send
        assert (await bus.call("a_look")).text == "seen"
    assert all(are_full)


FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "one chunk with an endless extension": lambda data: chunk(data, b";" + b"x" * 2**20),
    "endless trailers": lambda data: chunk(data) + b"0\r\n" + b"a: b\r\n" * 100_000 + b"\r\n",
    "small chunks with large extensions": lambda data: b"".join(
        chunk(data[at : at + 1], b";" + b"x" * 20_000) for at in range(len(data))
    ),
}


@pytest.mark.parametrize("name", FRAMES)
async def test_a_response_that_is_mostly_frames(server: RawServer, name: str) -> None:
    """The call fails after 256 KiB of them, and the next one works."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        framed = FRAMES[name](request.answer)
        writer.write(CHUNKS + framed + (b"" if framed.endswith(b"\r\n\r\n") else END))

    async with bus_with(server) as bus:
        server.send = send
        with pytest.raises(ConnectionLost, match="larger than 256 KiB"):
            await bus.call("a_look")
        server.send = send_plain
        assert (await bus.call("a_look")).text == "seen"


async def test_trailers_that_pose_as_headers(server: RawServer) -> None:
    """They change nothing: no session begins, and no cookie is kept."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        if "id" not in request.message:
            await send_plain(writer, request)
            return
        trailers = b"mcp-session-id: fixed\r\nset-cookie: a=b\r\ncontent-type: text/html\r\n"
        writer.write(CHUNKS + chunk(request.answer) + b"0\r\n" + trailers + b"\r\n")

    server.send = server.send_other = send
    async with bus_with(server) as bus:
        assert (await bus.call("a_look")).text == "seen"
    named = {name for request in server.requests for name in request.headers}
    assert named & {"mcp-session-id", "cookie"} == set()


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def encoded(data: bytes, encoding: str = "gzip") -> bytes:
    return response(data, f"content-encoding: {encoding}")


CUT_SHORT: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: encoded(gzip.compress(data)[:-8]),
    "gzip in chunks": lambda data: (
        response(b"", "transfer-encoding: chunked", "content-encoding: gzip", length=False)
        + chunk(gzip.compress(data)[:-8])
        + END
    ),
    "gzip until the connection ends": lambda data: response(
        gzip.compress(data)[:-8], "content-encoding: gzip", length=False
    ),
    "deflate": lambda data: encoded(zlib.compress(data)[:-4], "deflate"),
    "deflate without a header": lambda data: encoded(raw_deflate(data + b" " * 9)[:-1], "deflate"),
    "a second member": lambda data: encoded(gzip.compress(data) + gzip.compress(b" ")[:-1]),
    "the first byte of a second member": lambda data: encoded(gzip.compress(data) + b"\x1f"),
}


@pytest.mark.parametrize("name", CUT_SHORT)
async def test_a_compressed_response_that_is_cut_short(server: RawServer, name: str) -> None:
    """The call fails, although the received part may look complete."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(CUT_SHORT[name](request.answer))
        writer.close()

    async with bus_with(server) as bus:
        server.send = send
        with pytest.raises(ConnectionLost, match=r"cannot be decompressed|closed the connection"):
            await bus.call("a_look")


def in_members(data: bytes, size: int) -> bytes:
    return b"".join(gzip.compress(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 50, 10_000])
async def test_gzip_in_several_members(server: RawServer, size: int) -> None:
    """All of them are read, so that nobody reads another message than we do."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        data = encoded(in_members(request.answer, 50) + bytes(100))
        for at in range(0, len(data), size):
            await write_apart(writer, data[at : at + size])

    async with bus_with(server) as bus:
        server.send = send
        assert (await bus.call("a_look")).text == "seen"


MEMBERS = {
    "a bomb in members": (gzip.compress(b" " * 2**20) * 20, "larger than 10 MiB"),
    "members without content": (gzip.compress(b"") * 10_000, "too many small parts"),
    "other data": (b"x" * 100, "cannot be decompressed"),
}


@pytest.mark.parametrize("name", MEMBERS)
async def test_gzip_with_more_behind_its_end(server: RawServer, name: str) -> None:
    """It is an error, within the limits of a response."""
    more, problem = MEMBERS[name]

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(encoded(gzip.compress(request.answer) + more))

    async with bus_with(server, limits={"message": 10 * 2**20}) as bus:
        server.send = send
        with pytest.raises(ConnectionLost, match=problem):
            await bus.call("a_look")
        server.send = send_plain
        assert (await bus.call("a_look")).text == "seen"


async def test_deflate_without_a_header_that_arrives_byte_by_byte(server: RawServer) -> None:
    """It is read like one that arrives at once."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        packed = raw_deflate(request.answer)
        await write_apart(writer, encoded(packed, "deflate")[: -len(packed)])
        for byte in packed:
            await write_apart(writer, bytes([byte]))

    async with bus_with(server) as bus:
        server.send = send
        assert (await bus.call("a_look")).text == "seen"


async def test_a_config_that_names_headers_of_the_client(server: RawServer) -> None:
    """Each is sent once, so that a proxy and a server never read different ones."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        writer.write(response(request.answer, "set-cookie: node=7"))

    server.send = send
    named = {"HOST": "tenant.test", "User-Agent": "mine", "Accept-Encoding": "gzip", "Cookie": "a=1"}
    async with bus_with(server, headers={**named, "X-A": "1", "x-a": "2"}) as bus:
        for _ in range(2):
            await bus.call("a_look")
    assert all(len(set(request.names)) == len(request.names) for request in server.requests)
    assert {request.headers["host"] for request in server.requests} == {"tenant.test"}
    assert {request.headers["user-agent"] for request in server.requests} == {"mine"}
    assert [request.headers["cookie"] for request in server.calls] == ["a=1", "a=1; node=7"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Content-Length",
            "transfer-encoding",
            "CONNECTION",
            "Upgrade",
            "TE",
            "Expect",
        ),
        *("Content-Length ", "Transfer-Encoding:", "X\r\nContent-Length", "", "Überschrift"),
    ],
)
async def test_a_config_that_frames_requests_itself(server: RawServer, name: str) -> None:
    """It is refused, and nothing is sent."""
    with pytest.raises(ConfigError, match=r"toolbus sets it itself; remove it|expected the name of a header"):
        await connect_mcp(url=server.url, headers={name: "chunked"})
    assert server.requests == []


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return self_signed(tmp_path)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_false_proxy_before_a_server_that_is_not_verified(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, scheme: str
) -> None:
    """`verify: false` is about the server alone: the proxy learns neither its password nor a request."""
    tls = server_tls(certificate)
    async with raw_server(tls) as server, proxy_server(server, tls) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"https://ann:s3cret@127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await connect_mcp(url=f"{scheme}://mcp.test/mcp", verify=False)
    assert proxy.heads == []


async def test_a_proxy_that_asks_for_the_certificate_of_the_client(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    """It gets none: a client certificate is for the server alone."""
    tls = server_tls(certificate)
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_verify_locations(certificate)
    async with raw_server(tls) as server, proxy_server(server, tls) as proxy:
        monkeypatch.setenv("https_proxy", f"https://127.0.0.1:{proxy.port}")
        url, trusted = f"https://127.0.0.1:{server.port}/mcp", str(certificate)
        async with connect_mcp(url=url, verify=trusted, client_cert=trusted) as mcp:
            assert (await mcp.call_tool("look")).text == "seen"
    assert proxy.certificates
    assert not any(proxy.certificates)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_host_that_python_takes_for_another(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, scheme: str
) -> None:
    """`faß.test` is never reached as `fass.test`: in no request, no header and no name for TLS."""
    names: list[str | None] = []
    tls = server_tls(certificate)
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with raw_server(tls if scheme == "https" else None) as server, proxy_server(server) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{proxy.port}")
        async with connect_mcp(url=f"{scheme}://faß.test/mcp", verify=False) as mcp:
            assert (await mcp.call_tool("look")).text == "seen"
    ours = "xn--fa-hia.test"
    line = f"CONNECT {ours}:443 HTTP/1.1" if names else f"POST http://{ours}/mcp HTTP/1.1"
    assert {head.partition("\r\n")[0] for head in proxy.heads} == {line}
    assert {request.headers["host"] for request in server.requests} == {ours}
    assert set(names) == ({ours} if scheme == "https" else set())


async def test_a_redirect_to_another_spelling_of_a_host(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    """It is followed to the same host, and not to the one that IDNA 2003 makes of it."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        if "/mcp" not in request.line:
            await send_plain(writer, request)
            return
        host = request.message["params"]["arguments"]["to"]
        writer.write(response(b"", f"location: http://{host}/other", status="307 Temporary Redirect"))

    async with raw_server() as server, proxy_server(server) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        server.send = send
        async with connect_mcp("http://faß.test/mcp") as mcp:
            assert (await mcp.call_tool("look", {"to": "XN--FA-HIA.test"})).text == "seen"
            with pytest.raises(ToolbusError, match="another origin, which is not followed"):
                await mcp.call_tool("look", {"to": "fass.test"})


@pytest.mark.parametrize("url", ["http://❤.test/mcp", "${PLACE}/mcp", "http://ann:s3cret@faß_.test/mcp"])
async def test_a_host_that_cannot_be_written_in_ascii(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a mistake in the config that says what to do, and that shows no password."""
    monkeypatch.setenv("PLACE", "http://ann:s3cret@❤.test")
    with pytest.raises(ConfigError, match=r"url: its host is not a valid name; write it in ASCII") as caught:
        await connect_mcp(url=url)
    assert "s3cret" not in str(caught.value)
