"""The time that a run takes: without the time in which it waits for people, or for a worker."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from toolbus.agent.limits import LimitReached


class Clock:
    """Counts the seconds of one run, over all its executions."""

    def __init__(self) -> None:
        self._before = 0.0
        self._since = time.monotonic()
        self._waits = 0
        self._timeout: asyncio.Timeout | None = None
        self._allowed: float | None = None

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return self._before + (0.0 if self._waits else time.monotonic() - self._since)

    def replay(self, seconds: float) -> None:
        """Go on from what an earlier execution recorded."""
        if seconds > self.seconds:
            self._before, self._since = seconds, time.monotonic()
            self._reschedule()

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Do not count: a person is asked."""
        self._before, self._waits = self.seconds, self._waits + 1
        self._reschedule()
        try:
            yield
        finally:
            self._waits -= 1
            self._since = time.monotonic()
            self._reschedule()

    @asynccontextmanager
    async def limit(self, allowed: float | None) -> AsyncGenerator[None]:
        """Raise `LimitReached` once the run has taken so many seconds."""
        self._allowed, self._since = allowed, time.monotonic()
        try:
            async with asyncio.timeout(None) as self._timeout:
                self._reschedule()
                yield
        except TimeoutError:
            if allowed is None or self._timeout is None or not self._timeout.expired():
                raise
            raise LimitReached("seconds", allowed) from None
        finally:
            self._timeout = None

    def _reschedule(self) -> None:
        if self._timeout is not None and self._allowed is not None and not self._timeout.expired():
            left = None if self._waits else max(0.0, self._allowed - self.seconds)
            self._timeout.reschedule(None if left is None else asyncio.get_running_loop().time() + left)
