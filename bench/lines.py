"""What is compared, and how: each line is two rounds of the same work, run in turn."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TypeAlias

from bench.sides import Call, Era, bus_calls, bus_started, imported, raw_calls, raw_started

Round: TypeAlias = Callable[[], Awaitable[list[float]]]
"""One round of work; gives the seconds that each piece of it took."""

IN_FLIGHT = 64
SEQUENTIAL_CALLS = 50
EACH_IN_FLIGHT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same round on both sides."""

    raw: Round
    toolbus: Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison; toolbus may take `bar` times what the other side takes."""

    name: str
    open: Callable[[], AbstractAsyncContextManager[Pair]]
    rounds: int
    bar: float = 1.10
    per_second: bool = False
    """Whether calls per second say more than the time of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a line came to: the median seconds of both sides."""

    name: str
    raw: float
    toolbus: float
    bar: float
    rounds: int
    per_second: bool
    retried: bool = False

    @property
    def ratio(self) -> float:
        return self.toolbus / self.raw

    @property
    def met(self) -> bool:
        return self.ratio <= self.bar


async def measured(line: Line, rounds: int) -> Outcome:
    """Run both sides in turn, so that what else the machine does hits both."""
    raw: list[float] = []
    toolbus: list[float] = []
    async with line.open() as pair:
        await pair.raw()  # the first round of each is for warming up
        await pair.toolbus()
        for number in range(rounds):
            turns = [(pair.raw, raw), (pair.toolbus, toolbus)]
            for run, times in turns if number % 2 else reversed(turns):
                times += await run()
    return Outcome(
        name=line.name,
        raw=median(raw),
        toolbus=median(toolbus),
        bar=line.bar,
        rounds=rounds,
        per_second=line.per_second,
    )


def lines(url: str) -> list[Line]:
    """Every comparison; `url` is where the HTTP server listens."""
    return [
        Line(name="stdio, one after another", open=calls(None, "modern", sequential), rounds=20),
        Line(name="stdio, 64 in flight", open=calls(None, "modern", in_flight), rounds=20, per_second=True),
        Line(name="stdio, one after another, legacy", open=calls(None, "legacy", sequential), rounds=20),
        Line(name="HTTP, one after another", open=calls(url, "modern", sequential), rounds=20),
        Line(name="HTTP, 64 in flight", open=calls(url, "modern", in_flight), rounds=10, per_second=True),
        Line(name="HTTP, one after another, legacy", open=calls(url, "legacy", sequential), rounds=20),
        Line(name="start-up, 1 server *", open=started(1), rounds=10),
        Line(name="start-up, 10 servers *", open=started(10), rounds=5),
        Line(name="import toolbus / import mcp", open=imports, rounds=10, bar=0.30),
    ]


def calls(
    url: str | None, era: Era, work: Callable[[Call], Awaitable[list[float]]]
) -> Callable[[], AbstractAsyncContextManager[Pair]]:
    """Both sides connected to a server, and the same calls on each."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Pair]:
        async with raw_calls(url, era) as raw, bus_calls(url, era) as toolbus:
            yield Pair(raw=lambda: work(raw), toolbus=lambda: work(toolbus))

    return open_both


async def sequential(call: Call) -> list[float]:
    """Seconds of each of some calls, one after another."""
    times: list[float] = []
    for _ in range(SEQUENTIAL_CALLS):
        began = perf_counter()
        await call("hello")
        times.append(perf_counter() - began)
    return times


async def in_flight(call: Call) -> list[float]:
    """Seconds per call when 64 are under way at all times."""

    async def one_lane() -> None:
        for _ in range(EACH_IN_FLIGHT):
            await call("hello")

    began = perf_counter()
    await asyncio.gather(*(one_lane() for _ in range(IN_FLIGHT)))
    return [(perf_counter() - began) / (IN_FLIGHT * EACH_IN_FLIGHT)]


def started(count: int) -> Callable[[], AbstractAsyncContextManager[Pair]]:
    """Both sides starting that many servers."""
    return once(lambda: raw_started(count), lambda: bus_started(count))


def imports() -> AbstractAsyncContextManager[Pair]:
    """Both sides imported by an interpreter of their own."""
    return once(lambda: imported("mcp"), lambda: imported("toolbus"))()


def once(
    raw: Callable[[], Awaitable[float]], toolbus: Callable[[], Awaitable[float]]
) -> Callable[[], AbstractAsyncContextManager[Pair]]:
    """Rounds of a single piece each, which need nothing held open."""

    async def raw_round() -> list[float]:
        return [await raw()]

    async def toolbus_round() -> list[float]:
        return [await toolbus()]

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Pair]:
        yield Pair(raw=raw_round, toolbus=toolbus_round)

    return open_both
