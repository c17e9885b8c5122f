"""Accept connections of a listening socket that several workers share: who has the fewest takes the next.

All workers wake up when a client connects, and the fastest would take every connection of a burst, and then
refuse calls while the others are idle. So a worker that has more connections than another one leaves the next
to it, for a moment: a worker that is stuck or dead delays the others once, and not for each connection.
"""

import asyncio
import logging
import socket
import ssl
from contextlib import suppress

from toolbus.gateway.http.protocol import Connection, Hub
from toolbus.gateway.workers import Workers

logger = logging.getLogger("toolbus")

_MOMENT = 0.001
_MOMENTS = 10
"""How many of them a worker leaves a connection to others."""
_SLACK = 16
"""A worker may have one connection in that many more than another, or a flood would take long to accept."""
_PAUSE = 1.0
"""Seconds until the next attempt, if the process has no room for another connection."""


class SharedAccepting:
    """Accepts the part of one worker, until it is closed."""

    def __init__(self, sock: socket.socket, tls: ssl.SSLContext | None, hub: Hub, workers: Workers) -> None:
        self._socket = sock
        self._tls = tls
        self._hub = hub
        self._counts = workers.connections
        self._number = workers.number
        self._loop = asyncio.get_running_loop()
        self._opening: dict[asyncio.Task[None], Connection] = {}
        """Accepted, and perhaps not connected yet."""
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
            self._counts.leave(self._number)
            self._loop.remove_reader(self._socket)
            self._socket.close()
        if self._again is not None:
            self._again.cancel()

    @property
    def _own(self) -> int:
        # A connection is in both for a moment; were it counted twice, another worker would take the next one.
        open_now = self._hub.connections
        return len(open_now) + sum(one not in open_now for one in self._opening.values())

    def _note(self) -> None:
        self._counts.note(self._number, self._own)

    def _accept(self) -> None:
        if self._is_for_others():
            return self._pause(_MOMENT)
        self._left = 0
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None  # another worker took it, or the client is gone
        except OSError as error:
            logger.warning("no connection can be accepted for %g s: %s", _PAUSE, error.strerror)
            return self._pause(_PAUSE)
        connection = Connection(self._hub)
        task = self._loop.create_task(self._open(accepted, connection))
        self._opening[task] = connection
        task.add_done_callback(self._opened)
        return self._note()

    def _is_for_others(self) -> bool:
        own, fewest = self._own, self._counts.fewest
        if own <= fewest + own // _SLACK or fewest == self._in_vain:
            return False
        self._left += 1
        self._in_vain = fewest if self._left > _MOMENTS else -1
        return self._in_vain < 0

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._again = self._loop.call_later(seconds, self._loop.add_reader, self._socket, self._accept)

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        with suppress(OSError):  # the client is gone, or its TLS cannot be used
            await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls)

    def _opened(self, task: asyncio.Task[None]) -> None:
        del self._opening[task]
        if self._hub.on_change is not None:
            self._note()
