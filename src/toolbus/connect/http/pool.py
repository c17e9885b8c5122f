"""The connections to one server, directly or through the proxy that the environment names.

They are opened when needed, and kept while the server surely keeps them.
"""

import asyncio
import base64
import os
import socket
import ssl
import urllib.request
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from toolbus.connect.http.connection import ClientConnection
from toolbus.connect.http.response import HttpFailure
from toolbus.connect.http.tls import digest_shown
from toolbus.connect.http.url import Url, bracketed, parse_url
from toolbus.core.loop import Flag
from toolbus.core.text.display import ascii_authority

MAX_REPLY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; https servers are reached by a tunnel through it."""

    url: Url
    authorization: str | None = field(default=None, repr=False)
    """The value of its `proxy-authorization` header."""
    tls: ssl.SSLContext | None = None
    """The TLS context for an https proxy."""


def environment_proxy(url: Url, tls: Callable[[], ssl.SSLContext] | None = None) -> Proxy | None:
    """The proxy for a URL by `http_proxy` and similar variables; None if `no_proxy` names it.

    ValueError if a variable is invalid. `tls` makes the TLS context for an https proxy.
    """
    if url.socket_path is not None or _bypasses(url):
        return None
    proxies = urllib.request.getproxies()
    text = proxies.get(url.scheme) or proxies.get("all")
    if not text:
        return None
    text = text if "://" in text else f"http://{text}"
    proxy = parse_url(text)
    userinfo = text.partition("://")[2].partition("/")[0].rpartition("@")[0]
    basic = base64.b64encode(unquote_to_bytes(userinfo)).decode() if userinfo else None
    context = tls() if tls is not None and proxy.is_tls else None
    return Proxy(proxy, f"Basic {basic}" if basic else None, context)


def _bypasses(url: Url) -> bool:
    urllib_request = cast(Any, urllib.request)  # typeshed does not know these functions
    hosts = (url.host, f"{url.host}:{url.port}")
    listed: dict[str, str] = urllib_request.getproxies_environment()
    if listed.get("no", "").isascii():
        return any(bool(urllib_request.proxy_bypass(host)) for host in hosts)
    listed["no"] = ",".join(map(_ascii_name, listed["no"].split(",")))
    return any(bool(urllib_request.proxy_bypass_environment(host, listed)) for host in hosts)


def _ascii_name(name: str) -> str:
    """An entry of `no_proxy` in the form that hosts are compared with; an invalid name matches none."""
    try:
        return ascii_authority(name.strip().lstrip("."))
    except ValueError:
        return name


async def open_tunnel(transport: asyncio.Transport, proxy: Proxy, url: Url) -> None:
    """Ask the proxy for a tunnel; OSError if it refuses."""
    host = bracketed(url.host)
    lines = [f"CONNECT {host}:{url.port} HTTP/1.1", f"host: {host}:{url.port}"]
    if proxy.authorization is not None:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    reply = _Reply()
    transport.set_protocol(reply)
    transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    status = await reply.status
    if not 200 <= status < 300:
        reason = "it requires credentials" if status == 407 else "it refused"
        raise OSError(
            f"the proxy {proxy.url.authority} does not connect to the server: {reason} (HTTP {status})"
        )


class _Reply(asyncio.Protocol):
    """Reads the head of the proxy's reply."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if b"\r\n\r\n" not in self._data and len(self._data) < MAX_REPLY:
            return
        match self._data.partition(b"\r\n")[0].split(b" ", 2):
            case [version, code, *_] if version.startswith(b"HTTP/1.") and code.isdigit() and len(code) == 3:
                self._resolve(int(code))
            case _:
                self._resolve(OSError("the proxy's reply is not HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._resolve(OSError("the proxy closed the connection"))

    def _resolve(self, outcome: int | OSError) -> None:
        if self.status.done():
            return
        if isinstance(outcome, int):
            self.status.set_result(outcome)
        else:
            self.status.set_exception(outcome)


def as_transport(transport: asyncio.BaseTransport | None) -> asyncio.Transport:
    """The transport of a connection that is up."""
    assert transport is not None
    return cast(asyncio.Transport, transport)


KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: less than common servers keep theirs (5 s)."""
ADDRESS_DELAY = 0.25
"""Seconds before the next address of a host is tried as well (RFC 8305)."""
CLOSE_TIME = 1.0


def request_bytes(
    method: str, url: Url, headers: Mapping[str, str], content: bytes | None, proxy: Proxy | None = None
) -> bytes:
    """A request as it is sent, to the proxy if it is to forward it; ValueError if it has a line break."""
    return with_body(request_head(method, url, headers, proxy), content)


def with_body(head: bytes, content: bytes | None) -> bytes:
    """A request with this head, and the content if there is any."""
    if content is None:
        return head + b"\r\n"
    return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(content), content)


def request_head(method: str, url: Url, headers: Mapping[str, str], proxy: Proxy | None = None) -> bytes:
    """The head of a request, except for the length of its content; ValueError if it has a line break."""
    what = url.target if proxy is None else url.text
    sent = {"host": url.authority, "user-agent": "toolbus"}
    if proxy is not None and proxy.authorization is not None:
        sent["proxy-authorization"] = proxy.authorization
    # By name, so that none is sent twice: a server and a proxy could each read another one.
    for name, value in headers.items():
        sent[name.lower()] = value
    sent.pop("content-length", None)
    lines = [f"{name}: {value}" for name, value in sent.items()]
    head = "\r\n".join((f"{method} {what} HTTP/1.1", *lines, ""))
    if head.count("\n") != len(lines) + 1 or head.count("\r") != len(lines) + 1 or "\0" in head:
        raise ValueError("a header contains a line break")
    try:
        return head.encode("latin-1")
    except UnicodeEncodeError:
        return head.encode(errors="replace")


Addresses = Callable[[], Awaitable[Sequence[str]]]
"""Finds the addresses to connect to, at least one; an error that is not an OSError refuses them."""


class Pool:
    """Connections to one origin, directly or through a proxy."""

    def __init__(
        self,
        url: Url,
        *,
        tls: ssl.SSLContext | None,
        proxy: Proxy | None = None,
        connect_timeout: float,
        limit: int,
        addresses: Addresses | None = None,
        certificate: str | None = None,
    ) -> None:
        """`tls` is for an https server, `limit` for a response's bytes.

        With `addresses`, a direct connection goes to the first of them that accepts it, and the host of the
        URL is not looked up. With a `certificate`, a server that is
        reached without a proxy has to show the one with that SHA-256; `tls` need not verify it then.
        """
        self._addresses = addresses
        self._certificate = certificate
        self._limit = limit
        self._url = url
        self._tls = tls
        self._proxy = proxy
        self._connect_timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        self._open: set[ClientConnection] = set()
        self._idle: list[ClientConnection] = []
        """The most recently used last."""
        self._expiry: asyncio.TimerHandle | None = None
        self._empty = Flag()

    async def connection(self) -> ClientConnection:
        """An idle connection, or a new one; `HttpFailure` if there is none."""
        return self.idle_connection() or await self._connect()

    def idle_connection(self) -> ClientConnection | None:
        """An idle connection; None if there is none, and `connection` would open one."""
        while self._idle:
            connection = self._idle.pop()
            # The timer may be late if the event loop was busy.
            if connection.usable and self._loop.time() - connection.idle_since < KEEP_ALIVE:
                return connection
            connection.abort()
        return None

    async def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._idle.clear()
        for connection in tuple(self._open):
            connection.abort()
        self._empty.clear()
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIME):
                    await self._empty.wait()

    async def _connect(self) -> ClientConnection:
        connection = ClientConnection(self._keep, self._forget, self._limit)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._establish(connection)
        except TimeoutError:
            connection.abort()
            raise HttpFailure(f"timed out after {self._connect_timeout:g} s", sent=False) from None
        except NotImplementedError:
            raise HttpFailure("this system has no Unix sockets", sent=False) from None
        except (OSError, ValueError) as error:  # ValueError: a host that is not a valid name
            raise HttpFailure(_reason(error), sent=False) from error
        self._open.add(connection)
        return connection

    async def _establish(self, connection: ClientConnection) -> None:
        loop, url, tls = self._loop, self._url, self._tls if self._url.is_tls else None
        if url.socket_path is not None:
            await loop.create_unix_connection(lambda: connection, url.socket_path)
            return
        if self._proxy is None:
            self._check_certificate(await self._reach_directly(connection, url, tls))
            return
        proxy = self._proxy
        transport = await self._reach(asyncio.Protocol() if tls else connection, proxy.url, proxy.tls)
        if tls is None:
            return
        try:
            await open_tunnel(transport, proxy, url)
            secured = await loop.start_tls(transport, connection, tls, server_hostname=url.host)
            connection.connection_made(as_transport(secured))
        except BaseException:
            transport.abort()
            raise

    async def _reach_directly(
        self, connection: ClientConnection, url: Url, tls: ssl.SSLContext | None
    ) -> asyncio.Transport:
        if self._addresses is None:
            return await self._reach(connection, url, tls)
        *others, last = await self._addresses()
        for address in others:
            with suppress(OSError):  # of which TimeoutError is one
                async with asyncio.timeout(self._connect_timeout / (1 + len(others))):
                    return await self._reach(connection, url, tls, address)
        return await self._reach(connection, url, tls, last)

    async def _reach(
        self, protocol: asyncio.Protocol, url: Url, tls: ssl.SSLContext | None, address: str | None = None
    ) -> asyncio.Transport:
        options: dict[str, Any] = {"ssl": tls}
        if isinstance(self._loop, asyncio.BaseEventLoop):
            # Other loops, such as uvloop, only try the addresses of a host one after another.
            options["happy_eyeballs_delay"] = ADDRESS_DELAY
        if tls is not None:
            options["server_hostname"] = url.host
        host = address or url.host
        transport, _ = await self._loop.create_connection(lambda: protocol, host, url.port, **options)
        return transport

    def _check_certificate(self, transport: asyncio.Transport) -> None:
        shown: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if self._certificate is None or (shown is not None and digest_shown(shown) == self._certificate):
            return
        transport.abort()
        problem = "it shows another certificate than the expected one"
        raise ssl.SSLCertVerificationError(ssl.SSLErrorNumber.SSL_ERROR_SSL, problem)

    def _keep(self, connection: ClientConnection) -> None:
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = self._loop.call_later(KEEP_ALIVE, self._close_expired)

    def _forget(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._open:
            self._empty.set()

    def _close_expired(self) -> None:
        self._expiry = None
        oldest = self._loop.time() - KEEP_ALIVE
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.pop(0).abort()
        if self._idle:
            self._expiry = self._loop.call_at(self._idle[0].idle_since + KEEP_ALIVE, self._close_expired)


def _reason(error: OSError | ValueError) -> str:
    """The reason why there is no connection, without the address that asyncio adds."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno).lower()
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    # Several addresses failed in several ways.
    several = str(error).startswith("Multiple exceptions")
    return "all connection attempts failed" if several else str(error) or type(error).__name__
