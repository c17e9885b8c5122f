"""Processes that share the counts of a quota, in one process: a clock, values that fail, and holders."""

import asyncio
from collections.abc import Callable

from tests.inside.core import StoreError
from tests.inside.policy import CallLease, CountPlace, CountValues, MemoryCounts, PlaceLease, UsedUp

MINUTE = 60.0


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = 6_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class RemoteCounts(MemoryCounts):
    """Counts that take a moment, so that others come in between; they are counted, and may fail."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.requests = 0
        self.is_down = False
        self.loses_answers = False
        """Whether it does its work, but loses the answer."""

    async def get(self, kind: str, name: str) -> bytes | None:
        await self._request()
        return await super().get(kind, name)

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool:
        await self._request()
        done = await super().swap(kind, name, old, new, seconds)
        if self.loses_answers:
            raise StoreError("the store", "it has not responded for 2 s", "check it")
        return done

    async def _request(self) -> None:
        self.requests += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise StoreError("the store", "it has not responded for 2 s", "check it")


def place(values: CountValues, own: str = "one") -> CountPlace:
    return CountPlace(values=values, name="calls", facts={"subject": "ann"}, own=own)


def calls(values: CountValues, number: int) -> list[CallLease]:
    """The leases of that many processes."""
    return [CallLease(place(values, f"process {n}"), MINUTE) for n in range(number)]


def places(values: CountValues, number: int) -> list[PlaceLease]:
    return [PlaceLease(place(values, f"process {n}")) for n in range(number)]


async def take(lease: CallLease | PlaceLease, most: int) -> float | None:
    """Take one, as a call does; None if none is left."""
    try:
        while not (taken := lease.take()):
            await lease.lease(most)
    except UsedUp:
        return None
    return float(taken)
