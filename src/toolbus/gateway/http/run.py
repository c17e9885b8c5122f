"""Run the HTTP front on the loop of the bus: listen, serve, and end without losing calls."""

import asyncio
import errno
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from email.utils import formatdate
from ipaddress import ip_network
from typing import Protocol

from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.accepting import Acceptor
from toolbus.gateway.http.app import App
from toolbus.gateway.http.limits import Limits, Refusals
from toolbus.gateway.http.protocol import Hub
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.http.workers import Workers

logger = logging.getLogger("toolbus")

_TICK = 1.0
_ENDING = 5.0
"""Seconds for tasks to end once their connections are closed."""
_BACKLOG = 1024
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


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
    """What a server runs: the front of a gateway, or a console alone."""

    limits: Limits
    refusals: Refusals
    probes: frozenset[str]
    """The pages that are for balancers."""
    connections: Callable[[], int]
    """How many connections are open; set by the server."""

    @property
    def in_flight(self) -> int:
        """How many requests are being answered."""
        ...

    async def serve(self, http: HttpRequest) -> None:
        """Answer one request."""
        ...

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        ...

    def tick(self) -> None:
        """Called every second."""
        ...

    def drain(self) -> None:
        """Take no more requests, and end streams without end."""
        ...


class HttpServer:
    """Serves an app on a socket, from `start` to `close`."""

    def __init__(self, app: Application, *, trusted_proxies: Iterable[str] = ()) -> None:
        self._app = app
        proxies = tuple(ip_network(one, strict=False) for one in trusted_proxies)
        self._hub = Hub(app.serve, app.limits, app.refusals, proxies, probes=app.probes)
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
        """Close all connections; what is still running is cancelled."""
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


async def serve_http(
    gateway: Gateway,
    app: App,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    trusted_proxies: Iterable[str] = (),
    drain: float | None = None,
    on_bound: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until it is cancelled; on a signal, running requests may end.

    `on_bound` gets the port once connections are accepted. A second signal ends it at once.
    """
    assert app.gateway is gateway, "the app belongs to another gateway"
    sock = listening_socket(host, port)
    server = HttpServer(app, trusted_proxies=trusted_proxies)
    seconds = app.limits.drain_seconds if drain is None else drain
    try:
        await server.start(sock, tls)
        with _signals() as arrived:
            if on_bound is not None:
                on_bound(sock.getsockname()[1])
            await arrived.acquire()
            draining = asyncio.create_task(server.drain(seconds))
            again = asyncio.create_task(arrived.acquire())
            await asyncio.wait((draining, again), return_when=asyncio.FIRST_COMPLETED)
            draining.cancel()
            again.cancel()
    finally:
        await server.close()
        sock.close()


@contextmanager
def _signals() -> Generator[asyncio.Semaphore]:
    """Counts the signals that ask to stop; none outside of the main thread, where there are no handlers."""
    arrived = asyncio.Semaphore(0)
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}

    def take(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(arrived.release)

    for number in _SIGNALS:
        signal.signal(number, take)
    try:
        yield arrived
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
