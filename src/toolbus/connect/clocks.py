"""The time limits of the requests under way on one connection.

While a person thinks about what the server asked, none of them runs: who asks cannot complain of waiting.
"""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
THINKING: ContextVar[bool] = ContextVar("toolbus_thinking", default=False)
"""Set where an answer is thought about: what is asked from there has a time limit of its own."""


class Clocks:
    """One for each request."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()
        self._stopped: dict[asyncio.Timeout, float] = {}
        """What was left of each when they were stopped."""
        self._thinking = 0
        self._since = 0.0
        self._lost = 0.0
        self._released = False

    @property
    def busy(self) -> bool:
        """Whether a request is under way, or somebody thinks."""
        return bool(self._running or self._thinking)

    @property
    def stood(self) -> float:
        """For how many seconds they have stood still by now."""
        return self._lost + (_now() - self._since if self._thinking else 0.0)

    async def within(self, clock: asyncio.Timeout, work: Awaitable[T]) -> T:
        """Wait for the work no longer than the clock allows."""
        self._running.add(clock)
        try:
            async with clock:
                if self._thinking and not THINKING.get():
                    self._stop(clock)
                return await work
        finally:
            self._running.discard(clock)
            self._stopped.pop(clock, None)

    def extend(self, clock: asyncio.Timeout, seconds: float, at_most: float) -> None:
        """Give a request that many seconds from now, up to a time of the loop."""
        if clock in self._stopped:
            self._stopped[clock] = min(seconds, max(0.0, at_most - _now()))
        elif clock in self._running and not clock.expired() and not self._released:
            clock.reschedule(min(_now() + seconds, at_most))

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop them all, until the last one who thinks is done."""
        if self._thinking == 0:
            self._since = _now()
        self._thinking += 1
        for clock in self._running:
            self._stop(clock)
        token = THINKING.set(True)
        try:
            yield
        finally:
            THINKING.reset(token)
            self._thinking -= 1
            if self._thinking == 0:
                self._lost += _now() - self._since
                for clock, left in self._stopped.items():
                    if not clock.expired() and not self._released:
                        clock.reschedule(_now() + left)
                self._stopped.clear()

    def _stop(self, clock: asyncio.Timeout) -> None:
        end = clock.when()
        if clock not in self._stopped and end is not None and not clock.expired() and not self._released:
            self._stopped[clock] = end - _now()
            clock.reschedule(None)

    def release(self, seconds: float) -> None:
        """Let everyone who waits go in that time, for good."""
        self._released = True
        soon = asyncio.get_running_loop().time() + seconds
        for clock in self._running:
            if not clock.expired():
                clock.reschedule(soon)


def _now() -> float:
    return asyncio.get_running_loop().time()
