"""Authorization servers, their documents, and programs on this machine that attack a sign-in."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from tests.auth.buses import client_of, config
from tests.auth.resource_server import METADATA, ResourceServer
from tests.auth.test_refusals import canary
from tests.hostile.authority import ISSUER, Authority, Visitor, authority
from tests.inside.connect import MAX_CONNECTIONS, Fetch, Loopback, Unreachable, parse_url
from toolbus import SignInFailed
from toolbus.config import bus_config

pytestmark = pytest.mark.anyio

DEEP = b'{"a":' + b"[" * 100_000
SURROGATE = rb'"\ud800"'
LONG = b"9" * 400
DOCUMENTS = [
    *((path, DEEP) for path in (ISSUER, "/register", "/token")),
    ("/register", b'{"client_id":' + SURROGATE + b"}"),
    ("/register", b'{"client_id":"c","client_secret":"s","client_secret_expires_at":' + LONG + b"}"),
    ("/token", b'{"access_token":"a","token_type":"bearer","expires_in":' + LONG + b"}"),
    ("/token", b'{"access_token":"a","token_type":"bearer","refresh_token":' + SURROGATE + b"}"),
    ("/token", b'{"access_token":"a","token_type":"bearer","scope":' + SURROGATE + b"}"),
]
NUMBERS = [b"NaN", b"-Infinity", LONG]


@pytest.mark.parametrize(("path", "document"), DOCUMENTS)
async def test_a_document_that_breaks_its_readers(path: str, document: bytes, tmp_path: Path) -> None:
    """The sign-in fails with a short reason, and none of it is stored."""
    async with authority() as (server, _):
        server.instead[path] = document
        client = await client_of(config(ResourceServer(server.url), tmp_path))
        with pytest.raises(SignInFailed) as failed:
            await client.sign_in(Visitor())
        assert len(failed.value.reason) < 500
        assert await client.login() is None


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", ["interval", "expires_in"])
async def test_a_device_code_with_a_time_that_is_none(number: bytes, name: str, tmp_path: Path) -> None:
    """The sign-in fails at once: it neither hangs nor polls without a pause."""
    async with authority() as (server, _):
        given = json.dumps(server.documents["/device"]).encode()
        server.instead["/device"] = given[:-1] + f',"{name}":'.encode() + number + b"}"
        client = await client_of(config(ResourceServer(server.url), tmp_path))
        with pytest.raises(SignInFailed, match="no device code"):
            await client.sign_in(Visitor(), device=True)
        assert not any("/token" in line for line in server.asked)


async def refused_elsewhere(
    server: Authority, port: int, folder: Path, patch: pytest.MonkeyPatch
) -> tuple[SignInFailed, Visitor]:
    """The error for signing in to a server on another machine, which only a proxy reaches."""
    for name in ("http_proxy", "https_proxy"):
        patch.setenv(name, f"http://127.0.0.1:{port}")
    patch.delenv("no_proxy", raising=False)
    visitor = Visitor()
    client = await client_of(config(ResourceServer(server.url), folder))
    with pytest.raises(SignInFailed) as failed:
        await client.sign_in(visitor)
    return failed.value, visitor


@pytest.mark.parametrize(
    "issuer",
    [
        "http://localhost",
        "http://any.localhost",
        "https://localhost.",
        "https://127.0.0.1.",
        "https://127.1",
        "https://0x7f.1",
        "https://2130706433",
        "https://[64:ff9b::7f00:1]",
        "https://[::127.0.0.1]",
        "https://[::ffff:0:10.0.0.1]",
        "https://[fec0::1]",
    ],
)
async def test_an_address_of_your_network_that_a_proxy_would_reach(
    issuer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is not asked for it, however the address is written."""
    async with authority("http://mcp.test") as (server, port), canary() as seen:
        server.documents[METADATA]["authorization_servers"] = [f"{issuer}:{seen.port}"]
        failure, visitor = await refused_elsewhere(server, port, tmp_path, monkeypatch)
        assert "private network" in failure.reason
        assert [line for line in server.asked if str(seen.port) in line] == []
        assert (visitor.pages, seen.connections) == ([], 0)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("http://127.0.0.1:8080/delete?all=yes", "private network"),
        ("http://localhost:8080/delete", "private network"),
        ("http://any.localhost:8080/delete", "private network"),
        ("https://192.168.0.1/reboot", "private network"),
        ("https://0xc0.168.1/reboot", "private network"),
        ("https://bank.example@evil.example/", "not a plain"),
        ("https://evil.example/\u202e\x9b31m", "not a plain"),
    ],
)
async def test_a_sign_in_page_on_your_own_machine(
    page: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remote server cannot send a browser there, with the cookies of local programs."""
    async with authority("http://mcp.test") as (server, port):
        server.metadata["authorization_endpoint"] = page
        failure, visitor = await refused_elsewhere(server, port, tmp_path, monkeypatch)
        assert reason in failure.reason
        assert visitor.pages == []


async def test_a_name_that_changes_its_address_after_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the address that was checked; the name is not looked up again."""
    answers = iter(["8.8.8.8", "127.0.0.1"])
    connected: list[object] = []

    async def look_up(_: object, host: str, port: int, **__: object) -> list[tuple[object, ...]]:
        address = host if host[0].isdigit() else next(answers)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async def connect(_: object, __: object, host: str, *more: object, **options: object) -> None:
        connected.append(host)
        raise OSError("not connected")

    loop = type(asyncio.get_running_loop())
    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    monkeypatch.setattr(loop, "create_connection", connect)
    url = "https://mcp.example/mcp"
    server = bus_config({"servers": {"guarded": {"url": url}}}).servers["guarded"]
    with pytest.raises(Unreachable):
        await Fetch(server, [parse_url(url)]).get("https://issuer.example/metadata")
    assert connected == ["8.8.8.8"]


async def test_a_program_that_takes_every_connection_to_the_callback() -> None:
    """The browser gets through all the same: the oldest silent connection is closed for a new one."""
    async with Loopback() as callback:
        received = asyncio.create_task(callback.received("s"))
        port = int(callback.redirect_uri.rpartition(":")[2].partition("/")[0])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /callback?code=c&state=s HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        assert (await received).endswith("?code=c&state=s")
        for _, one in (*silent, (reader, writer)):
            one.close()
