"""Accept connections: counted from then on, encrypted in bounded time, and shared fairly between workers.

Workers listen on one socket. All of them wake up when a client connects, and the fastest would take every
connection of a burst, and then refuse calls while the others are idle. So a worker that has more connections
than another one leaves the next to it, for a moment: a worker that is stuck or dead delays the others once,
and not for each connection.
"""

import asyncio
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from contextlib import suppress
from functools import partial
from math import ceil
from typing import cast

from toolbus.gateway.http.protocol import RESERVE, Connection, Hub
from toolbus.gateway.http.workers import Workers

logger = logging.getLogger("toolbus")

_MOMENT = 0.001
_MOMENTS = 10
"""How many of them a worker leaves a connection to others."""
_SLACK = 16
"""A worker may have one connection in that many more than another, or a flood would take long to accept."""
_PAUSE = 1.0
"""Seconds until the next attempt, if the process has no room for another connection."""
_AT_ONCE = 64
"""Connections that are accepted before the loop does something else."""
_GOODBYE = 2.0
"""Seconds that a client has to end the encryption when its connection is closed."""


class _Encrypted(SSLProtocol):
    """TLS with a buffer of one record: the one of asyncio, 256 KiB, would be most of a connection."""

    max_size = 16 * 1024


class Acceptor:
    """Accepts connections until it is closed; with workers, those that are its part."""

    def __init__(
        self, sock: socket.socket, tls: ssl.SSLContext | None, hub: Hub, workers: Workers | None = None
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
        """How often it left the next connection to others."""
        self._in_vain = -1
        """The connections of a worker that did not take it."""
        self._again: asyncio.TimerHandle | None = None
        hub.on_change = self._note
        self._note()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Accept no more, and close the socket."""
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
        connection = Connection(self._hub, address[0] if isinstance(address, tuple) else "")
        task = self._loop.create_task(self._open(accepted, connection))
        self._opening.add(task)
        task.add_done_callback(partial(self._opened, accepted, connection))
        self._note()
        return True

    def _opened(self, accepted: socket.socket, connection: Connection, task: asyncio.Task[None]) -> None:
        # Not in `_open`, which never runs if it is cancelled before its first step.
        self._opening.discard(task)
        if not connection.is_made:
            accepted.close()
            connection.forget()

    def _is_for_others(self, workers: Workers) -> bool:
        own, fewest = len(self._hub.connections), workers.connections.fewest
        if own <= fewest + own // _SLACK or fewest == self._in_vain:
            return False
        self._left += 1
        self._in_vain = fewest if self._left > _MOMENTS else -1
        return self._in_vain < 0

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._again = self._loop.call_later(seconds, self._loop.add_reader, self._socket, self._accept)

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        with suppress(OSError, TimeoutError):  # the client is gone, or too slow, or its TLS cannot be used
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._encrypt(accepted, connection, self._tls)

    async def _encrypt(self, accepted: socket.socket, connection: Connection, tls: ssl.SSLContext) -> None:
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
