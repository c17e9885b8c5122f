"""The connections to one server: opened when needed, kept while the server surely keeps them."""

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from typing import Any

from toolbus.connect.http.certificate import digest_shown
from toolbus.connect.http.connection import ClientConnection
from toolbus.connect.http.proxy import Proxy, as_transport, open_tunnel
from toolbus.connect.http.response import HttpFailure
from toolbus.connect.http.url import Url
from toolbus.core.loop import Flag

KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: less than common servers keep theirs (5 s)."""
ADDRESS_DELAY = 0.25
"""Seconds before the next address of a host is tried as well (RFC 8305)."""
CLOSE_TIME = 1.0


class Pool:
    """Connections to one origin, directly or through a proxy."""

    def __init__(
        self,
        url: Url,
        *,
        tls: ssl.SSLContext | None,
        proxy: Proxy | None = None,
        proxy_tls: ssl.SSLContext | None = None,
        connect_timeout: float,
        limit: int,
        address: str | None = None,
        certificate: str | None = None,
    ) -> None:
        """`tls` is for an https server, `proxy_tls` for an https proxy, `limit` for a response's bytes.

        With an `address`, the host of the URL is not looked up. With a `certificate`, a server that is
        reached without a proxy has to show the one with that SHA-256; `tls` need not verify it then.
        """
        self._address = address
        self._certificate = certificate
        self._limit = limit
        self._url = url
        self._tls = tls
        self._proxy = proxy
        self._proxy_tls = proxy_tls
        self._connect_timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        self._open: set[ClientConnection] = set()
        self._idle: list[ClientConnection] = []
        """The most recently used last."""
        self._expiry: asyncio.TimerHandle | None = None
        self._empty = Flag()

    async def connection(self) -> ClientConnection:
        """An idle connection, or a new one; `HttpFailure` if there is none."""
        while self._idle:
            connection = self._idle.pop()
            # The timer may be late if the event loop was busy.
            if connection.usable and self._loop.time() - connection.idle_since < KEEP_ALIVE:
                return connection
            connection.abort()
        return await self._connect()

    async def close(self) -> None:
        """Close all connections."""
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
            self._check_certificate(await self._reach(connection, url, tls))
            return
        proxy = self._proxy
        transport = await self._reach(
            asyncio.Protocol() if tls else connection,
            proxy.url,
            self._proxy_tls if proxy.url.is_tls else None,
        )
        if tls is None:
            return
        try:
            await open_tunnel(transport, proxy, url)
            secured = await loop.start_tls(transport, connection, tls, server_hostname=url.host)
            connection.connection_made(as_transport(secured))
        except BaseException:
            transport.abort()
            raise

    async def _reach(
        self, protocol: asyncio.Protocol, url: Url, tls: ssl.SSLContext | None
    ) -> asyncio.Transport:
        options: dict[str, Any] = {"ssl": tls}
        if isinstance(self._loop, asyncio.BaseEventLoop):
            # Other loops, such as uvloop, only try the addresses of a host one after another.
            options["happy_eyeballs_delay"] = ADDRESS_DELAY
        if tls is not None:
            options["server_hostname"] = url.host
        host = self._address or url.host
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
    """Why there is no connection, without the address that asyncio adds."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno).lower()
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    # Several addresses failed in several ways.
    several = str(error).startswith("Multiple exceptions")
    return "all connection attempts failed" if several else str(error) or type(error).__name__
