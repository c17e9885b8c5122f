"""Limits on CPU time, in pieces of a known work: machines, and their moods, differ."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

BUDGET = 150
"""Pieces for which a step may keep the loop busy; the longest takes about 45, or more on a busy machine."""


def _work() -> None:
    seen: dict[str, list[int]] = {}
    for number in range(10_000):
        seen.setdefault(str(number % 1_000), []).append(number)


def _timed(step: Callable[[], T]) -> tuple[T, float]:
    began = time.thread_time()
    return step(), time.thread_time() - began


def pieces_in(took: float) -> float:
    """As many pieces of work as would take so long at this moment."""
    if took < 0.005:
        return 0  # no machine does enough in that time, and most steps need not be compared
    return took / min(_timed(_work)[1] for _ in range(3))


def pieces_of(step: Callable[[], object]) -> float:
    """The CPU time of a step."""
    return pieces_in(_timed(step)[1])


def within_budget(step: Callable[[], T], *, budget: float = BUDGET) -> T:
    result, took = _timed(step)
    assert pieces_in(took) < budget
    return result


class Steps:
    """The longest step of the loop in this thread, in pieces of work."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.longest = 0.0
        self._seconds = 0.0
        self.callback = ""

    def add(self, took: float, callback: object) -> None:
        if took > self._seconds:
            self._seconds, self.longest, self.callback = took, pieces_in(took), repr(callback)


@contextmanager
def measured() -> Generator[Steps]:
    steps, thread, run = Steps(), threading.get_ident(), asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]  # the only place that every step passes

    def timed(self: asyncio.Handle) -> None:
        if threading.get_ident() != thread:
            run(self)
        else:
            steps.add(_timed(lambda: run(self))[1], self)

    asyncio.Handle._run = timed  # pyright: ignore[reportPrivateUsage]  # likewise
    gc.collect(1)
    gc.freeze()  # a collection during a step must not search what the tests before have left
    try:
        yield steps
    finally:
        asyncio.Handle._run = run  # pyright: ignore[reportPrivateUsage]  # likewise
