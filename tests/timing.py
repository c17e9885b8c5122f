"""Times against a bar: other work on the machine only ever adds to one, so the shortest of several counts."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
ATTEMPTS = 6


def fastest(*measures: Callable[[], float], until: Callable[..., bool]) -> list[float]:
    """The shortest time of each, measured in turn until they meet the bar, a few times at most."""
    times = [float("inf")] * len(measures)
    for _ in range(ATTEMPTS):
        times = [min(known, measure()) for known, measure in zip(times, measures, strict=True)]
        if until(*times):
            break
    return times


async def shortest(work: Callable[[], Awaitable[T]], bar: float, attempts: int = ATTEMPTS) -> tuple[float, T]:
    """Do the work, again while it takes longer than the bar; gives its shortest time and its last result."""
    taken = float("inf")
    while True:
        began = time.monotonic()
        result = await work()
        taken = min(taken, time.monotonic() - began)
        attempts -= 1
        if taken < bar or not attempts:
            return taken, result
