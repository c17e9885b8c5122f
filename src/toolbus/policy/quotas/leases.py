"""Blocks of a quota that one process leases from what all of them share, so that no call is too many.

All other processes see a leased call as used, so no call is ever allowed twice. The block of a process that
died is lost until its window or lease ends. A block is an eighth of the remaining calls, so that blocks get
smaller toward the end. Unused calls go back after a moment.
"""

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol, TypeAlias, cast

from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSON
from toolbus.state.values import to_forget

QUOTA = "quota"
"""The kind of the values."""
TICK = 2.0
"""Seconds after which unused calls go back."""
SHARE = 8
"""The divisor of the remaining calls that gives the size of a block."""
LEASE = 60.0
"""Seconds after which the places of a process that died are free."""
_STORE_AGAIN = 5.0
_PLACE_AGAIN = 1.0
_TRIES = 60
_LONGEST_PAUSE = 0.05
_KEPT = 60.0
"""Seconds beyond a window for which its count is kept."""
_RENEWED = 40.0
"""A lease of places is renewed when it has fewer seconds left."""
_LONG = 3600.0
_MOST = 10_000


class CountValues(Protocol):
    """A place for counts: the store, files of the user, or the memory of one process."""

    def now(self) -> float:
        """The time that decides which window it is, as seconds since the epoch."""
        ...

    async def get(self, kind: str, name: str) -> bytes | None: ...

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool: ...

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool: ...

    async def remove(self, kind: str, name: str) -> bool: ...

    async def items(self, kind: str) -> dict[str, bytes]: ...


class MemoryCounts:
    """Counts of one process alone."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._values: dict[tuple[str, str], bytes] = {}

    async def get(self, kind: str, name: str) -> bytes | None:
        return self._values.get((kind, name))

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool:
        if self._values.get((kind, name)) != old:
            return False
        if new is None:
            self._values.pop((kind, name), None)
        else:
            self._values[kind, name] = new
        return True

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        for old in to_forget([one for found, one in self._values if found == kind], _MOST, self.now()):
            del self._values[kind, old]
        is_new = (kind, name) not in self._values
        self._values.setdefault((kind, name), value)
        return is_new

    async def remove(self, kind: str, name: str) -> bool:
        return self._values.pop((kind, name), None) is not None

    async def items(self, kind: str) -> dict[str, bytes]:
        return {name: value for (found, name), value in self._values.items() if found == kind}


class Uncountable(Exception):
    """The shared counts cannot be read or written; try again after `after` seconds."""

    after = _STORE_AGAIN

    def __init__(self, problem: str, *, may_be_written: bool = False) -> None:
        self.may_be_written = may_be_written
        """Whether the change may have been made all the same."""
        super().__init__(problem)


class UsedUp(Exception):
    """No call is left; try again after `after` seconds."""

    def __init__(self, after: float) -> None:
        self.after = max(1.0, after)
        super().__init__()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPlace:
    """One count that all processes share: its name, and what it is about."""

    values: CountValues
    name: str
    facts: dict[str, JSON]
    """The quota and the subject, for people who look at the counts."""
    own: str
    """The name of this process."""


Edit: TypeAlias = Callable[[dict[str, Any]], float]
"""Changes a count in place; returns the seconds for which it is kept."""


class SharedCount:
    """A count that processes change one after another."""

    def __init__(self, place: CountPlace) -> None:
        self._place = place
        self._last: bytes | None = None
        """The last known value, which saves a request if nobody has changed it."""
        self.users = 0
        """The calls that are being counted here."""
        self.mutex = asyncio.Lock()
        self._lost_until = 0.0
        self._lost = ""
        self._is_writing = False

    def now(self) -> float:
        return self._place.values.now()

    async def change(self, edit: Edit) -> None:
        """Change the count; `Uncountable` if that is not possible, or its outcome is not known."""
        if self.now() < self._lost_until:  # not every call waits for a store that does not respond
            raise Uncountable(self._lost)
        self._is_writing = False
        try:
            await self._change(edit)
        except (StoreError, OSError, ValueError) as error:
            self._lost_until, self._lost = self.now() + 1.0, str(error)
            raise Uncountable(self._lost, may_be_written=self._is_writing) from error

    async def _change(self, edit: Edit) -> None:
        values, name = self._place.values, self._place.name
        stored, self._last = self._last, None
        for number in range(_TRIES):
            if number or stored is None:
                stored = await values.get(QUOTA, name)
            record = {} if stored is None else _record(stored)
            seconds = edit(record)
            new = json.dumps({**self._place.facts, **record}).encode()
            self._is_writing = True
            if await values.swap(QUOTA, name, stored, new, seconds):
                self._last = new
                return
            self._is_writing = False
            await asyncio.sleep(random.uniform(0, min(0.001 * 2**number, _LONGEST_PAUSE)))
        raise StoreError(name, "its count changes too often", "try again")


class CallLease(SharedCount):
    """The calls of one subject in a window of time, as many as this process has leased."""

    def __init__(self, place: CountPlace, seconds: float) -> None:
        super().__init__(place)
        self._seconds = seconds
        self._left = 0
        self._until = 0.0
        """The end of the window of the leased calls."""
        self._used = 0
        """Since the last look."""
        self._none: tuple[float, int] = 0.0, 0
        """Until when it is known that nothing is left, of how many."""

    def take(self) -> float:
        """Take one of the leased calls: the end of its window, for `put_back`; 0 if none is left."""
        if not self._left or self.now() >= self._until:
            return 0.0
        self._left -= 1
        self._used += 1
        return self._until

    def put_back(self, taken: float) -> None:
        """Return a call that was not made; too late for another window."""
        if taken == self._until:
            self._left += 1
            self._used -= 1

    async def lease(self, most: int) -> None:
        """Lease more calls of `most`; `UsedUp` if none are left."""
        async with self.mutex:
            now = self.now()
            if self._left and now < self._until:
                return  # another call has leased them meanwhile
            if now < self._none[0] and most <= self._none[1]:
                raise UsedUp(self._until - now)
            block = window = 0

            def edit(record: dict[str, Any]) -> float:
                nonlocal block, window
                # A clock that is behind does not open a window again.
                window = max(int(now // self._seconds), record.get("window", 0))
                granted = record["granted"] if record.get("window") == window else 0
                free = most - granted
                end = (window + 1) * self._seconds
                if free <= 0:
                    raise UsedUp(end - now)
                block = ceil(free / SHARE)
                record.update(window=window, granted=granted + block, until=end)
                return end - now + _KEPT

            try:
                await self.change(edit)
            except UsedUp:
                self._left, self._until = 0, (window + 1) * self._seconds
                self._none = min(self._until, now + TICK / 2), most  # others may give something back
                raise
            until = (window + 1) * self._seconds
            # Meanwhile, a call that was not made may have been put back.
            self._left = block + (self._left if until == self._until else 0)
            self._until = until

    async def tidy(self, *, is_last: bool = False) -> bool:
        """Give back the calls that were not used since the last look, or all; return whether it is needed."""
        async with self.mutex:
            now, used = self.now(), self._used
            self._used = 0
            if now >= self._until:
                self._left = 0
                return False
            surplus = self._left if is_last else self._left - used
            if surplus > 0:
                self._left -= surplus
                await self._give_back(surplus, self._until, now)
            return self._left > 0

    async def _give_back(self, surplus: int, until: float, now: float) -> None:
        def edit(record: dict[str, Any]) -> float:
            if record.get("until") == until:
                record["granted"] -= surplus
            return max(float(record.get("until", now)) - now, 0.0) + _KEPT

        self._last = None  # so that a store is asked first whether it responds
        try:
            await self.change(edit)
        except Uncountable as error:
            if not error.may_be_written and until == self._until:
                self._left += surplus  # else nobody uses them in this window


class PlaceLease(SharedCount):
    """The calls that one subject may make at a time, as many as this process has leased."""

    def __init__(self, place: CountPlace) -> None:
        super().__init__(place)
        self._most = 0
        self._held = 0
        self._running = 0
        self._peak = 0
        """The most since the last look."""
        self._until = 0.0
        self._is_tight = False
        """Whether so few are left that others need each one at once."""

    def take(self) -> bool:
        """Take one of the leased places; False if all are taken, or the lease has ended."""
        if self._running >= self._held or self.now() >= self._until:
            return False
        self._running += 1
        self._peak = max(self._peak, self._running)
        return True

    def release(self) -> bool:
        """Release a place; whether it has to go back at once."""
        self._running -= 1
        return self._is_tight and self._held > self._running

    async def lease(self, most: int) -> None:
        """Lease more places of `most`; `UsedUp` if none are left."""
        async with self.mutex:
            if self._running < self._held and self.now() < self._until:
                return
            self._most = most

            def more(others: int) -> int:
                own = max(self._held, self._running)
                free = most - others - own
                if free <= 0:
                    raise UsedUp(_PLACE_AGAIN)
                return own + ceil(free / SHARE)

            await self._claim(more)

    async def tidy(self, *, is_last: bool = False) -> bool:
        """Give back unused places, and renew the lease of the others; return whether there are any."""
        async with self.mutex:
            wanted = self._running if is_last or self._is_tight else self._peak
            self._peak = self._running
            is_old = self._until - self.now() < _RENEWED
            if self._held > wanted or (wanted and is_old):
                self._held = wanted  # before it is written: nobody takes what goes back
                try:
                    await self._claim(lambda others: wanted)
                except Uncountable:  # the lease ends by itself
                    return True
            return self._held > 0

    async def _claim(self, wanted: Callable[[int], int]) -> None:
        """Claim places for this process: a number that `wanted` derives from the places of others."""
        held, until, left = 0, 0.0, 0

        def edit(record: dict[str, Any]) -> float:
            nonlocal held, until, left
            now, own = self.now(), self._place.own
            # Those of a process that died end with its lease.
            claims = {name: one for name, one in record.get("held", {}).items() if one[1] > now}
            claims.pop(own, None)
            others = sum(count for count, _ in claims.values())
            held, until = wanted(others), now + LEASE
            if held:
                claims[own] = [held, until]
            left = self._most - others - held
            record.update(held=claims, granted=others + held, until=until)
            return LEASE + _KEPT

        await self.change(edit)
        self._held, self._until, self._is_tight = held, until, left < SHARE


async def counts_in(values: CountValues) -> list[dict[str, Any]]:
    """The counts of all processes."""
    found: list[dict[str, Any]] = []
    for value in (await values.items(QUOTA)).values():
        with suppress(ValueError):
            record = _record(value)
            if record.keys() >= {"rule", "subject", "limit", "granted", "until"}:
                found.append(record)
    return found


async def forget_ended(values: CountValues) -> None:
    """Remove counts that ended long ago, where values do not expire by themselves."""
    long_ago = values.now() - _LONG
    for name, value in (await values.items(QUOTA)).items():
        if _record(value).get("until", 0) < long_ago:
            await values.swap(QUOTA, name, value, None)


def _record(stored: bytes) -> dict[str, Any]:
    found: Any = json.loads(stored)
    if not isinstance(found, dict):
        raise ValueError("a count of the quotas is damaged")
    return cast("dict[str, Any]", found)
