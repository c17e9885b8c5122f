"""The listener for the end of a sign-in: it receives one redirect, and nothing else gets through."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from tests.inside.connect import CallbackUnavailable, Loopback
from tests.inside.connect import loopback as module

pytestmark = pytest.mark.anyio

STATE = "s-1"
GOOD = f"code=c-1&state={STATE}&iss=https%3A%2F%2Fas.example"


@pytest.fixture
async def loopback() -> AsyncGenerator[Loopback]:
    async with Loopback() as entered:
        yield entered


def port_of(loopback: Loopback) -> int:
    return int(loopback.redirect_uri.rpartition(":")[2].partition("/")[0])


async def exchange(port: int, request: bytes, host: str = "127.0.0.1") -> bytes:
    """Send the request as it is, and read until the end."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def get(loopback: Loopback, target: str, host: str | None = None) -> str:
    port = port_of(loopback)
    name = f"127.0.0.1:{port}" if host is None else host
    return (await exchange(port, f"GET {target} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())).decode()


async def waiting(loopback: Loopback) -> "asyncio.Task[str]":
    task = asyncio.create_task(loopback.received(STATE))
    await asyncio.sleep(0)  # it waits now
    return task


async def still_works(loopback: Loopback, received: "asyncio.Task[str]") -> None:
    """The redirect that was waited for comes through after all."""
    assert not received.done()
    assert (await get(loopback, f"/callback?{GOOD}")).startswith("HTTP/1.1 200 ")
    assert await received == f"{loopback.redirect_uri}?{GOOD}"


async def test_the_redirect_is_received_whole_with_its_issuer(loopback: Loopback) -> None:
    received = await waiting(loopback)
    page = await get(loopback, f"/callback?{GOOD}")
    assert await received == f"http://127.0.0.1:{port_of(loopback)}/callback?{GOOD}"
    head, _, body = page.partition("\r\n\r\n")
    assert "You can close this page." in body
    assert "default-src 'none'" in head
    assert "Referrer-Policy: no-referrer" in head
    assert "Cache-Control: no-store" in head
    assert "<script" not in body


async def test_an_error_of_the_authorization_server_is_received_too(loopback: Loopback) -> None:
    received = await waiting(loopback)
    page = await get(loopback, f"/callback?error=access_denied&state={STATE}")
    assert "Not signed in" in page
    assert (await received).endswith(f"?error=access_denied&state={STATE}")


async def test_it_stops_listening_as_soon_as_the_redirect_came(loopback: Loopback) -> None:
    silent, held = await asyncio.open_connection("127.0.0.1", port_of(loopback))
    received = await waiting(loopback)
    await get(loopback, f"/callback?{GOOD}")
    await received
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port_of(loopback))
    with suppress(ConnectionResetError):
        assert await silent.read() == b"", "a connection in reserve is closed"
    held.close()


async def test_connections_in_reserve_and_a_favicon_do_not_hold_it_up(loopback: Loopback) -> None:
    reserve = [await asyncio.open_connection("127.0.0.1", port_of(loopback)) for _ in range(6)]
    received = await waiting(loopback)
    assert (await get(loopback, "/favicon.ico")).startswith("HTTP/1.1 404 ")
    await still_works(loopback, received)
    for _, writer in reserve:
        writer.close()


@pytest.mark.parametrize(
    "query",
    [
        "code=c-1&state=other",
        "code=c-1",
        f"state={STATE}",
        "error=access_denied&state=other",
        f"code=c-1&code=c-2&state={STATE}",
        f"code=c-1&state=other&state={STATE}",
        f"code=c-1&state={STATE}" + "&a=1" * 100,
        "",
    ],
)
async def test_a_redirect_of_another_sign_in(loopback: Loopback, query: str) -> None:
    """It is ignored, and ours still gets through."""
    received = await waiting(loopback)
    assert (await get(loopback, f"/callback?{query}")).startswith("HTTP/1.1 400 ")
    await still_works(loopback, received)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.", "10.0.0.1", "", "[::"]
)
async def test_a_page_that_rebinds_its_name_to_this_host(loopback: Loopback, host: str) -> None:
    """Its requests are refused, because their Host is not a loopback name."""
    received = await waiting(loopback)
    assert (await get(loopback, f"/callback?{GOOD}", host)).startswith("HTTP/1.1 421 ")
    await still_works(loopback, received)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (f"POST /callback?{GOOD} HTTP/1.1", 405),
        (f"HEAD /callback?{GOOD} HTTP/1.1", 405),
        (f"GET /other?{GOOD} HTTP/1.1", 404),
        (f"GET /callback/?{GOOD} HTTP/1.1", 404),
        (f"GET /%63allback?{GOOD} HTTP/1.1", 404),
        (f"GET http://127.0.0.1/callback?{GOOD} HTTP/1.1", 404),
        (f"GET /callback?{GOOD} HTTP/2.0", 400),
        (f"GET /callback?{GOOD}", 400),
        ("nonsense", 400),
        (f"GET /callback?{GOOD}&x=\xe9 HTTP/1.1", 400),
    ],
)
async def test_a_request_that_no_browser_makes_here(loopback: Loopback, line: str, status: int) -> None:
    """It is refused, and the redirect still gets through."""
    received = await waiting(loopback)
    request = f"{line}\r\nHost: localhost\r\n\r\n".encode("latin-1")
    assert (await exchange(port_of(loopback), request)).startswith(f"HTTP/1.1 {status} ".encode())
    await still_works(loopback, received)


async def test_a_request_with_two_hosts(loopback: Loopback) -> None:
    """It is refused."""
    received = await waiting(loopback)
    request = f"GET /callback?{GOOD} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".encode()
    assert (await exchange(port_of(loopback), request)).startswith(b"HTTP/1.1 421 ")
    await still_works(loopback, received)


async def test_markup_in_the_redirect(loopback: Loopback) -> None:
    """The page contains no data of the request."""
    received = await waiting(loopback)
    query = f"error=%3Cscript%3E&error_description=<script>alert(1)</script>&state={STATE}"
    assert "script" not in (await get(loopback, f"/callback?{query}")).lower()
    await received


async def test_a_request_without_end(loopback: Loopback) -> None:
    """It is cut off at its limit, and the redirect still gets through."""
    received = await waiting(loopback)
    endless = b"GET /callback HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a" * module.MAX_REQUEST_BYTES
    assert await exchange(port_of(loopback), endless) == b""
    await still_works(loopback, received)


async def test_a_request_that_never_ends(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed after a while."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    assert await exchange(port_of(loopback), b"GET /callback HTTP/1.1\r\n") == b""


async def test_more_connections_than_a_browser_opens(loopback: Loopback) -> None:
    """The oldest is closed for a new one, and the redirect gets through."""
    port = port_of(loopback)
    kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(module.MAX_CONNECTIONS + 1)]
    received = await waiting(loopback)
    with suppress(ConnectionResetError):
        assert await kept[0][0].read() == b""
    await still_works(loopback, received)
    for _, writer in kept:
        writer.close()


async def test_cookies_of_other_programs_on_this_host_do_no_harm(loopback: Loopback) -> None:
    received = await waiting(loopback)
    request = f"GET /callback?{GOOD} HTTP/1.1\r\nHost: localhost\r\nCookie: {'a' * 32_000}\r\n\r\n"
    assert (await exchange(port_of(loopback), request.encode())).startswith(b"HTTP/1.1 200 ")
    assert (await received).endswith(GOOD)


async def test_a_port_that_is_taken_is_an_error_with_the_next_step() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CallbackUnavailable) as caught:
            async with Loopback(f"http://127.0.0.1:{port}/back"):
                pass
    assert caught.value.reason == (
        f"cannot listen at http://127.0.0.1:{port}/back: another program uses port {port}"
    )
    assert (caught.value.step, caught.value.hint) == ("sign-in", "set another callback in auth")


async def test_a_port_that_does_not_exist_is_an_error_with_the_next_step() -> None:
    with pytest.raises(CallbackUnavailable, match="not a valid port"):
        Loopback("http://127.0.0.1:99999/back")


async def test_a_configured_callback_is_used_to_the_letter() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with Loopback(f"http://LocalHost:{port}/back?a=1") as loopback:
        assert loopback.redirect_uri == f"http://LocalHost:{port}/back?a=1"
        received = await waiting(loopback)
        page = await exchange(port, f"GET /back?a=1&{GOOD} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert page.startswith(b"HTTP/1.1 200 ")
        assert await received == f"http://LocalHost:{port}/back?a=1&{GOOD}"


async def test_localhost_is_every_loopback_address_of_that_name_at_one_port() -> None:
    if not socket.has_ipv6:
        pytest.skip("this host has no IPv6")
    async with Loopback("http://localhost/back") as loopback:
        port = port_of(loopback)
        assert loopback.redirect_uri == f"http://localhost:{port}/back"
        try:
            page = await exchange(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "::1")
        except OSError:
            pytest.skip("this host has no IPv6 loopback")
        assert page.startswith(b"HTTP/1.1 404 ")
        assert (await get(loopback, "/")).startswith("HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "callback", ["https://app.example/cb", "https://localhost:1/cb", "http://app.example/"]
)
async def test_a_callback_elsewhere_has_no_listener_and_is_waited_for(callback: str) -> None:
    async with Loopback(callback) as loopback:
        assert not loopback.listens
        assert loopback.redirect_uri == callback
        received = await waiting(loopback)
        assert not received.done()
        received.cancel()


async def test_leaving_it_ends_its_connections() -> None:
    async with Loopback() as loopback:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(loopback))
        await get(loopback, "/")  # by now it has accepted the other one
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
