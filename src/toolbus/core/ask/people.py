"""The duration of operations and requests, without the time that people take to answer."""

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar


class PeopleTime:
    """The seconds in which somebody was asked; several questions at a time are counted once."""

    __slots__ = ("_before", "_since", "_waiting", "_whole")

    def __init__(self, whole: "PeopleTime | None") -> None:
        """`whole` is the time of the request that this is a part of."""
        self._whole = whole
        self._waiting = 0
        self._since = self._before = 0.0

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return self._before + (time.perf_counter() - self._since if self._waiting else 0.0)

    @contextmanager
    def asking(self) -> Generator[None]:
        """Somebody is asked within the block."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting += 1
        if self._whole is not None:
            self._whole._enter()

    def _leave(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._before += time.perf_counter() - self._since
        if self._whole is not None:
            self._whole._leave()


PEOPLE: ContextVar[PeopleTime | None] = ContextVar("toolbus_people", default=None)
"""The time of people in the request that is being answered."""


def asking(people: PeopleTime | None) -> AbstractContextManager[None]:
    """Somebody is asked within the block, if anybody counts that."""
    return nullcontext() if people is None else people.asking()


class Stopwatch:
    """Measures the work from now on in this context."""

    def __init__(self) -> None:
        self._people = PeopleTime(PEOPLE.get())
        PEOPLE.set(self._people)
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds so far, without those in which people were asked."""
        return time.perf_counter() - self._began - self._people.seconds
