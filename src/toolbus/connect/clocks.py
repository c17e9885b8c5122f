"""The time limits of the requests under way on one connection.

While a person thinks about what the server asked, none of them runs: who asks cannot complain of waiting.
"""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Clocks:
    """One for each request."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()
        self._stopped: dict[asyncio.Timeout, float] = {}
        """What was left of each when they were stopped."""
        self._thinking = 0
        self._released = False

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self._running)

    async def within(self, clock: asyncio.Timeout, work: Awaitable[T]) -> T:
        """Wait for the work no longer than the clock allows."""
        self._running.add(clock)
        try:
            async with clock:
                return await work
        finally:
            self._running.discard(clock)
            self._stopped.pop(clock, None)

    def extend(self, clock: asyncio.Timeout, seconds: float, at_most: float) -> None:
        """Give a request that many seconds from now, up to a time of the loop."""
        now = asyncio.get_running_loop().time()
        if clock in self._stopped:
            self._stopped[clock] = min(seconds, max(0.0, at_most - now))
        elif clock in self._running and not clock.expired() and not self._released:
            clock.reschedule(min(now + seconds, at_most))

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop them all, until the last one who thinks is done."""
        now = asyncio.get_running_loop().time
        self._thinking += 1
        for clock in self._running:
            end = clock.when()
            if clock not in self._stopped and end is not None and not clock.expired():
                self._stopped[clock] = end - now()
                clock.reschedule(None)
        try:
            yield
        finally:
            self._thinking -= 1
            if self._thinking == 0:
                for clock, left in self._stopped.items():
                    if not clock.expired() and not self._released:
                        clock.reschedule(now() + left)
                self._stopped.clear()

    def release(self, seconds: float) -> None:
        """Let everyone who waits go in that time, for good."""
        self._released = True
        soon = asyncio.get_running_loop().time() + seconds
        for clock in self._running:
            if not clock.expired():
                clock.reschedule(soon)
