"""Run the HTTP front on the loop of the bus: listen, serve, and end without losing calls."""

import asyncio
import errno
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from email.utils import formatdate
from functools import partial
from ipaddress import ip_network
from math import ceil
from typing import Protocol, cast

from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.protocol import RESERVE, ConnectionLimits, HttpConnection
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.http.workers import Workers

logger = logging.getLogger("toolbus")

_MOMENT = 0.001
_MOMENTS = 10
"""The maximum number of times that a worker leaves a connection to others."""
_SLACK = 16
"""A worker may have one connection in that many more than another, or a flood would take long to accept."""
_PAUSE = 1.0
"""Seconds until the next attempt, if the process has no room for another connection."""
_AT_ONCE = 64
"""Connections that are accepted before the loop does something else."""
_GOODBYE = 2.0
"""Seconds that a client has to end the encryption when its connection is closed."""


class _Encrypted(SSLProtocol):
    """TLS with a buffer of one record: asyncio's buffer of 256 KiB would be most of a connection."""

    max_size = 16 * 1024


class Acceptor:
    """Accepts connections until it is closed; with workers, those that are its part."""

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext | None,
        hub: ConnectionLimits,
        workers: Workers | None = None,
    ) -> None:
        """`sock` listens."""
        self._socket = sock
        self._tls = tls
        self._hub = hub
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes: Counter[str] = Counter()
        """Clients with which encryption is being agreed on, by address."""
        self._left = 0
        """The number of times that it left the next connection to others."""
        self._no_better_at = -1
        """The connections of a worker that did not take it."""
        self._again: asyncio.TimerHandle | None = None
        hub.on_change = self._note
        self._note()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._hub.on_change = None
            if self._workers is not None:
                self._workers.connections.leave(self._workers.number)
            self._loop.remove_reader(self._socket)
            self._socket.close()
        if self._again is not None:
            self._again.cancel()

    async def abandon(self) -> None:
        """Give up the connections that are not open yet."""
        for task in self._opening:
            task.cancel()
        if self._opening:
            await asyncio.wait(tuple(self._opening))

    def _note(self) -> None:
        if self._workers is not None:
            self._workers.connections.note(self._workers.number, len(self._hub.connections))

    def _accept(self) -> None:
        if self._workers is None:
            for _ in range(_AT_ONCE):
                if not self._accepted():
                    break
        elif self._is_for_others(self._workers):
            self._pause(_MOMENT)
        else:
            self._left = 0
            self._accepted()

    def _accepted(self) -> bool:
        """Accept one connection; False if there is none."""
        try:
            accepted, peer = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another worker took it, or the client is gone
        except OSError as error:
            logger.warning("no connection can be accepted for %g s: %s", _PAUSE, error.strerror)
            self._pause(_PAUSE)
            return False
        address = cast("tuple[str, int] | str", peer)
        # A Unix socket has no address.
        connection = HttpConnection(self._hub, address[0] if isinstance(address, tuple) else "")
        task = self._loop.create_task(self._open(accepted, connection))
        self._opening.add(task)
        task.add_done_callback(partial(self._opened, accepted, connection))
        self._note()
        return True

    def _opened(self, accepted: socket.socket, connection: HttpConnection, task: asyncio.Task[None]) -> None:
        # Not in `_open`, which never runs if it is cancelled before its first step.
        self._opening.discard(task)
        if not connection.is_made:
            accepted.close()
            connection.forget()

    def _is_for_others(self, workers: Workers) -> bool:
        own, fewest = len(self._hub.connections), workers.connections.fewest
        if own <= fewest + own // _SLACK or fewest == self._no_better_at:
            return False
        self._left += 1
        self._no_better_at = fewest if self._left > _MOMENTS else -1
        return self._no_better_at < 0

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._again = self._loop.call_later(seconds, self._loop.add_reader, self._socket, self._accept)

    async def _open(self, accepted: socket.socket, connection: HttpConnection) -> None:
        with suppress(OSError, TimeoutError):  # the client is gone, or too slow, or its TLS cannot be used
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._encrypt(accepted, connection, self._tls)

    async def _encrypt(
        self, accepted: socket.socket, connection: HttpConnection, tls: ssl.SSLContext
    ) -> None:
        limits, address = self._hub.limits, connection.address
        deadline = self._loop.time() + limits.handshake_seconds
        accepted.setblocking(False)
        async with asyncio.timeout_at(deadline):
            await self._readable(accepted)  # one that says nothing needs no buffers
        # As with requests in flight: an address has at most as many as it leaves to others.
        room = limits.handshakes - self._handshakes.total()
        surplus = connection.surplus(RESERVE)
        if surplus is None and self._handshakes[address] >= room:
            surplus = "too many connections that are not encrypted yet"
        if surplus is not None:
            return self._hub.refusals.note("connections", address, surplus)
        self._handshakes[address] += 1
        try:
            waiter = self._loop.create_future()
            encrypted = _Encrypted(
                self._loop,
                connection,
                tls,
                waiter,
                server_side=True,
                ssl_handshake_timeout=ceil(max(deadline - self._loop.time(), 1)),
                ssl_shutdown_timeout=_GOODBYE,
            )
            transport, _ = await self._loop.connect_accepted_socket(lambda: encrypted, accepted)
            try:
                await waiter
            except BaseException:
                transport.abort()
                raise
        finally:
            self._handshakes[address] -= 1
            if not self._handshakes[address]:
                del self._handshakes[address]

    async def _readable(self, sock: socket.socket) -> None:
        came = self._loop.create_future()
        self._loop.add_reader(sock, lambda: came.done() or came.set_result(None))
        try:
            await came
        finally:
            self._loop.remove_reader(sock)


_TICK = 1.0
_ENDING = 5.0
"""Seconds for tasks to end once their connections are closed."""
_BACKLOG = 1024


class CannotListen(ToolbusError):
    """The gateway cannot listen at an address."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.host = host
        self.port = port
        reason = "the address is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        super().__init__(f"cannot listen on {host}:{port}: {reason}")


def tls_context(certificate: str, key: str | None = None) -> ssl.SSLContext:
    """The TLS settings of a server with this certificate; `key` is the file of its key, if it is another."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound, but does not listen yet; port 0 takes a free one."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # The protocol is explicit, because asyncio sets TCP_NODELAY only on such sockets.
        sock = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            if socket.has_ipv6 and family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise CannotListen(host, port, error) from error
    return sock


class Application(Protocol):
    """The application that a server runs: the front of a gateway (see `App`), or a console alone."""

    limits: HttpLimits
    refusals: Refusals
    probes: frozenset[str]
    """The pages for load balancers."""
    connections: Callable[[], int]
    """The number of open connections; set by the server."""

    @property
    def in_flight(self) -> int: ...
    async def serve(self, http: HttpRequest) -> None: ...
    async def idle(self) -> None: ...
    def tick(self) -> None: ...
    def drain(self) -> None: ...


class HttpServer:
    """Serves an app on a socket, from `start` to `close`."""

    def __init__(self, app: Application, *, trusted_proxies: Iterable[str] = ()) -> None:
        self._app = app
        proxies = tuple(ip_network(one, strict=False) for one in trusted_proxies)
        self._hub = ConnectionLimits(app.serve, app.limits, app.refusals, proxies, probes=app.probes)
        self._acceptor: Acceptor | None = None
        self._ticking: asyncio.Task[None] | None = None
        app.connections = lambda: len(self._hub.connections)

    async def start(
        self, sock: socket.socket, tls: ssl.SSLContext | None = None, workers: Workers | None = None
    ) -> None:
        """Accept connections; `workers` share the socket with this process."""
        self._set_date()
        self._hub.ticked = asyncio.get_running_loop().time()
        sock.listen(_BACKLOG)
        self._acceptor = Acceptor(sock, tls, self._hub, workers)
        self._ticking = asyncio.create_task(self._tick())

    async def drain(self, seconds: float) -> None:
        """Stop accepting connections and requests; wait for those in flight, at most that long."""
        assert self._acceptor is not None, "the server has not been started"
        self._acceptor.close()
        self._app.drain()
        try:
            async with asyncio.timeout(seconds):
                # Connections stay open for what clients answer to questions in the middle of a request.
                await self._app.idle()
        except TimeoutError:
            left = counted(self._app.in_flight, "request")
            logger.warning("%s did not end within %g s", left, seconds)

    async def close(self) -> None:
        """Close all connections; running requests are cancelled."""
        self._hub.is_closed = True
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.abandon()
        if self._ticking is not None:
            self._ticking.cancel()
        connections, tasks = self._hub.connections, self._hub.tasks
        for connection in tuple(connections):
            connection.close()
        if tasks:
            await asyncio.wait(tuple(tasks), timeout=_ENDING)
        for connection in tuple(connections):
            connection.abort()
        for task in tuple(tasks):
            task.cancel()
        for _ in range(8):  # lets the loop close the sockets
            await asyncio.sleep(0)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK)
            self._set_date()
            self._app.tick()
            now = loop.time()
            self._hub.tick(now)
            for connection in tuple(self._hub.connections):
                connection.sweep(now)

    def _set_date(self) -> None:
        self._hub.date_line = f"date: {formatdate(usegmt=True)}\r\n".encode()
