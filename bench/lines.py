"""What is compared, and how: each line is a round of the same work on every side, run in turn."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Literal, TypeAlias

from bench.limit import limit_calls
from bench.sides import (
    Call,
    Era,
    bus_calls,
    bus_listed,
    bus_started,
    http_server,
    imported,
    kept,
    raw_calls,
    raw_listed,
    raw_started,
)
from bench.turns import (
    Run,
    agent_ours,
    agent_own,
    langchain_ours,
    langchain_own,
    openai_ours,
    openai_own,
    pydantic_ours,
    pydantic_own,
    timed,
)

Round: TypeAlias = Callable[[], Awaitable[list[float]]]
"""One round of work; gives what each piece of it took."""
Work: TypeAlias = Callable[[Call], Awaitable[list[float]]]
Turning: TypeAlias = Callable[[], AbstractAsyncContextManager[Run]]
Unit: TypeAlias = Literal["s", "KiB"]

IN_FLIGHT = 64
SEQUENTIAL_CALLS = 50
EACH_IN_FLIGHT = 8
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The same round on every side; the limit exists for calls only."""

    raw: Round
    toolbus: Round
    limit: Round | None = None


Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Sides]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison; toolbus may take `bar` times what the raw client takes."""

    name: str
    open: Opening
    rounds: int
    bar: float
    unit: Unit = "s"
    per_second: bool = False
    """Whether calls per second say more than the time of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a line came to: the medians of all sides."""

    name: str
    raw: float
    toolbus: float
    limit: float | None
    bar: float
    unit: Unit
    rounds: int
    per_second: bool
    retried: bool = False

    @property
    def ratio(self) -> float:
        return self.toolbus / self.raw

    @property
    def limit_ratio(self) -> float | None:
        return None if self.limit is None else self.limit / self.raw

    @property
    def met(self) -> bool:
        return self.ratio <= self.bar


async def measured(line: Line, rounds: int) -> Outcome:
    """Run all sides in turn, so that what else the machine does hits all of them."""
    async with line.open() as sides:
        turns: list[tuple[Round, list[float]]] = [(sides.raw, []), (sides.toolbus, [])]
        if sides.limit is not None:
            turns.append((sides.limit, []))
        for run, _ in turns:
            await run()  # the first round of each is for warming up
        for number in range(rounds):
            for run, taken in turns if number % 2 else reversed(turns):
                gc.collect()  # nobody pays for the garbage of the one before
                taken += await run()
    raw, toolbus, *limit = (median(taken) for _, taken in turns)
    return Outcome(
        name=line.name,
        raw=raw,
        toolbus=toolbus,
        limit=limit[0] if limit else None,
        bar=line.bar,
        unit=line.unit,
        rounds=rounds,
        per_second=line.per_second,
    )


def lines(url: str) -> list[Line]:
    """Every comparison; `url` is where the HTTP server listens."""
    return [
        Line(name="stdio, one after another", open=calls(None, sequential), rounds=20, bar=0.50),
        Line(name="  legacy", open=calls(None, sequential, "legacy"), rounds=20, bar=0.50),
        Line(name="stdio, 64 in flight", open=calls(None, in_flight), rounds=20, bar=0.25, per_second=True),
        Line(name="stdio, 1 MiB result", open=calls(None, big(MIB)), rounds=20, bar=1.0),
        Line(name="stdio, 10 MiB result", open=calls(None, big(10 * MIB)), rounds=5, bar=1.0),
        Line(name="HTTP, one after another", open=calls(url, sequential), rounds=20, bar=1.0),
        Line(name="  legacy", open=calls(url, sequential, "legacy"), rounds=20, bar=1.0),
        Line(name="HTTP, 64 in flight", open=calls(url, in_flight), rounds=10, bar=1.0, per_second=True),
        Line(name="HTTP, 1 MiB result", open=calls(url, big(MIB)), rounds=20, bar=1.0),
        Line(name="HTTP, 10 MiB result", open=calls(url, big(10 * MIB)), rounds=10, bar=1.0),
        Line(name="1,000 tools listed *", open=listing(1_000), rounds=10, bar=0.8),
        Line(name="  held in memory", open=holding(1_000), rounds=1, bar=0.5, unit="KiB"),
        Line(name="10,000 tools listed *", open=listing(10_000), rounds=5, bar=0.8),
        Line(name="  held in memory", open=holding(10_000), rounds=1, bar=0.5, unit="KiB"),
        Line(name="start-up, 1 server *", open=started(1), rounds=10, bar=1.1),
        Line(name="start-up, 10 servers *", open=started(10), rounds=5, bar=1.1),
        Line(name="import toolbus / import mcp", open=imports(), rounds=10, bar=0.30),
        Line(name="turn, OpenAI Agents **", open=turns(openai_own, openai_ours), rounds=20, bar=1.3),
        Line(name="turn, langchain.mcp **", open=turns(langchain_own, langchain_ours), rounds=20, bar=1.3),
        Line(name="turn, pydantic-ai **", open=turns(pydantic_own, pydantic_ours), rounds=20, bar=1.3),
        Line(name="turn, Agent / pydantic-ai", open=turns(agent_own, agent_ours), rounds=20, bar=1.15),
    ]


def calls(url: str | None, work: Work, era: Era = "modern") -> Opening:
    """All sides connected to a server, and the same calls on each."""

    @asynccontextmanager
    async def open_all() -> AsyncGenerator[Sides]:
        async with raw_calls(url, era) as raw, bus_calls(url, era) as toolbus, limit_calls(url) as limit:
            yield Sides(raw=lambda: work(raw), toolbus=lambda: work(toolbus), limit=lambda: work(limit))

    return open_all


async def sequential(call: Call) -> list[float]:
    """Seconds of each of some calls, one after another."""
    times: list[float] = []
    for _ in range(SEQUENTIAL_CALLS):
        began = perf_counter()
        await call("echo", "hello")
        times.append(perf_counter() - began)
    return times


async def in_flight(call: Call) -> list[float]:
    """Seconds per call when 64 are under way at all times."""

    async def one_lane() -> None:
        for _ in range(EACH_IN_FLIGHT):
            await call("echo", "hello")

    began = perf_counter()
    await asyncio.gather(*(one_lane() for _ in range(IN_FLIGHT)))
    return [(perf_counter() - began) / (IN_FLIGHT * EACH_IN_FLIGHT)]


def big(size: int) -> Work:
    """Seconds of one call whose result is a text of that many characters."""

    async def one(call: Call) -> list[float]:
        began = perf_counter()
        await call("big", str(size))
        return [perf_counter() - began]

    return one


def listing(tools: int) -> Opening:
    """Both sides listing that many tools of a server that is up."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with http_server(tools) as url:
            yield once(lambda: raw_listed(url), lambda: bus_listed(url, tools))

    return open_both


def holding(tools: int) -> Opening:
    """Both sides holding that many tools, each alone in an interpreter."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with http_server(tools) as url:
            yield once(lambda: kept("raw", url), lambda: kept("toolbus", url))

    return open_both


def started(count: int) -> Opening:
    """Both sides starting that many servers."""
    return alone(once(lambda: raw_started(count), lambda: bus_started(count)))


def imports() -> Opening:
    """Both sides imported by an interpreter of their own."""
    return alone(once(lambda: imported("mcp"), lambda: imported("toolbus")))


def turns(own: Turning, ours: Turning) -> Opening:
    """The same agent on its framework's own MCP integration and on toolbus."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        async with own() as raw, ours() as toolbus:
            yield Sides(raw=lambda: timed(raw), toolbus=lambda: timed(toolbus))

    return open_both


def alone(sides: Sides) -> Opening:
    """Sides that need nothing held open."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        yield sides

    return open_both


def once(raw: Callable[[], Awaitable[float]], toolbus: Callable[[], Awaitable[float]]) -> Sides:
    """Rounds of a single piece each."""

    async def raw_round() -> list[float]:
        return [await raw()]

    async def toolbus_round() -> list[float]:
        return [await toolbus()]

    return Sides(raw=raw_round, toolbus=toolbus_round)
