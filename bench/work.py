"""The work of a round on the lines about calls."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter, process_time
from typing import TypeAlias

from bench.sides import Call

Work: TypeAlias = Callable[[Call], Awaitable[list[float]]]
"""Makes some calls; returns the seconds of each."""

IN_FLIGHT = 64
SEQUENTIAL_CALLS = 50
EACH_IN_FLIGHT = 8


async def sequential(call: Call) -> list[float]:
    """Seconds of each of some calls, one after another."""
    times: list[float] = []
    for _ in range(SEQUENTIAL_CALLS):
        began = perf_counter()
        await call("echo", "hello")
        times.append(perf_counter() - began)
    return times


def at_once(lanes: int, each: int, clock: Callable[[], float] = perf_counter) -> Work:
    """Seconds per call when that many are under way at all times, each lane with `each` of them."""

    async def run(call: Call) -> list[float]:
        async def one_lane() -> None:
            for _ in range(each):
                await call("echo", "hello")

        began = clock()
        await asyncio.gather(*(one_lane() for _ in range(lanes)))
        return [(clock() - began) / (lanes * each)]

    return run


in_flight = at_once(IN_FLIGHT, EACH_IN_FLIGHT)
cpu_in_flight = at_once(IN_FLIGHT, EACH_IN_FLIGHT, process_time)
"""The same by the CPU time of this process: other programs do not count."""


def big(size: int) -> Work:
    """Seconds of one call whose result is a text of that many characters."""

    async def one(call: Call) -> list[float]:
        began = perf_counter()
        await call("big", str(size))
        return [perf_counter() - began]

    return one
