"""The deadlines of the requests in flight on one connection; they pause while the user answers the server."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
ANSWERING: ContextVar[bool] = ContextVar("toolbus_answering", default=False)
"""Set in a handler that answers the server: the requests that it makes itself do not pause."""


class Deadlines:
    """A timeout for each request."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()
        self._paused: dict[asyncio.Timeout, float] = {}
        """The seconds that each had left when it was paused."""
        self._pauses = 0
        """How many answers are in progress."""
        self._paused_at = 0.0
        self._paused_before = 0.0
        self._expiring = False

    @property
    def busy(self) -> bool:
        """Whether a request is in flight, or an answer in progress."""
        return bool(self._running or self._pauses)

    @property
    def paused_seconds(self) -> float:
        """How long the deadlines have been paused so far."""
        return self._paused_before + (_now() - self._paused_at if self._pauses else 0.0)

    async def run(self, timeout: asyncio.Timeout, work: Awaitable[T]) -> T:
        """Wait for the work within the timeout."""
        self._running.add(timeout)
        try:
            async with timeout:
                if self._pauses and not ANSWERING.get():
                    self._pause(timeout)
                return await work
        finally:
            self._running.discard(timeout)
            self._paused.pop(timeout, None)

    def extend(self, timeout: asyncio.Timeout, seconds: float, latest: float) -> None:
        """Give a request that many seconds from now, until `latest` (loop time) at most."""
        if timeout in self._paused:
            self._paused[timeout] = min(seconds, max(0.0, latest - _now()))
        elif timeout in self._running and not timeout.expired() and not self._expiring:
            timeout.reschedule(min(_now() + seconds, latest))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause all deadlines; they resume when the last such block ends."""
        if self._pauses == 0:
            self._paused_at = _now()
        self._pauses += 1
        for timeout in self._running:
            self._pause(timeout)
        token = ANSWERING.set(True)
        try:
            yield
        finally:
            ANSWERING.reset(token)
            self._pauses -= 1
            if self._pauses == 0:
                self._paused_before += _now() - self._paused_at
                for timeout, left in self._paused.items():
                    if not timeout.expired() and not self._expiring:
                        timeout.reschedule(_now() + left)
                self._paused.clear()

    def _pause(self, timeout: asyncio.Timeout) -> None:
        end = timeout.when()
        if timeout not in self._paused and end is not None and not timeout.expired() and not self._expiring:
            self._paused[timeout] = end - _now()
            timeout.reschedule(None)

    def expire(self, seconds: float) -> None:
        """Let every request in flight time out in that many seconds, paused or not."""
        self._expiring = True
        for timeout in self._running:
            if not timeout.expired():
                timeout.reschedule(_now() + seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()
