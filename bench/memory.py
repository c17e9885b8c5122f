"""The memory of one side: `python -m bench.memory raw|toolbus WHAT COUNT [URL]`, in bytes.

WHAT is one of `tools` and `HTTP links`, which need the URL of a server, `stdio links` and `calls`. Only
Python's allocations are counted; the server is another process.
"""

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias, cast

from bench.fresh import Held, Side
from bench.sides import Call, bench_bus, bus_calls, bus_entry, listed, raw_calls, raw_client
from toolbus import Toolbus

Measure: TypeAlias = Callable[[int, str], Awaitable[int]]
"""Bytes held for so many, from the server at that URL."""
WARM_UP = 2
"""The number of warm-up rounds, enough to load everything needed on first use."""


async def raw_tools(_: int, url: str) -> int:
    """Bytes of the SDK's client: the lists it returned, and its cache."""
    async with raw_client(url, "modern") as client:
        kept = await listed(client)
        size = _traced()
        assert kept
    return size


async def bus_tools(_: int, url: str) -> int:
    """The bytes of toolbus: the catalog with all its data."""
    async with bench_bus(url, "modern"):
        return _traced()


async def raw_links(count: int, url: str) -> int:
    """Bytes of that many clients, all connected, their lists kept."""
    async with AsyncExitStack() as stack:
        kept: list[Any] = []
        for _ in range(count):
            client = await stack.enter_async_context(raw_client(url or None, "modern"))
            kept.append(await listed(client))
        size = _traced()
        assert len(kept) == count
    return size


async def bus_links(count: int, url: str) -> int:
    """Bytes of a bus with that many servers, all connected."""
    entry = bus_entry(url or None, "modern")
    async with Toolbus({"servers": {f"bench{n}": entry for n in range(count)}}):
        return _traced()


async def raw_in_flight(count: int, _: str) -> int:
    """Bytes of that many calls of the SDK's client that wait for their answers."""
    async with raw_calls(None, "modern") as call:
        return await _in_flight(call, count)


async def bus_in_flight(count: int, _: str) -> int:
    """Bytes of that many calls of toolbus that wait for their answers."""
    async with bus_calls(None, "modern") as call:
        return await _in_flight(call, count)


async def _in_flight(call: Call, count: int) -> int:
    before = _traced()
    calls = [asyncio.ensure_future(call("hold", "hello")) for _ in range(count)]
    await call("held", str(count))
    size = _traced() - before
    await call("release", "")
    await asyncio.gather(*calls)
    return size


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


MEASURES: dict[tuple[Side, Held], Measure] = {
    ("raw", "tools"): raw_tools,
    ("toolbus", "tools"): bus_tools,
    ("raw", "stdio links"): raw_links,
    ("toolbus", "stdio links"): bus_links,
    ("raw", "HTTP links"): raw_links,
    ("toolbus", "HTTP links"): bus_links,
    ("raw", "calls"): raw_in_flight,
    ("toolbus", "calls"): bus_in_flight,
}


async def run(measure: Measure, count: int, url: str) -> int:
    """Measure twice: a few without looking, then all of them, counted."""
    await measure(WARM_UP, url)
    gc.collect()
    tracemalloc.start()
    return await measure(count, url)


def main() -> None:
    """Print one measure."""
    side, held, count, url = sys.argv[1:]
    measure = MEASURES[cast(Side, side), cast(Held, held)]
    print(asyncio.run(run(measure, int(count), url)))


if __name__ == "__main__":
    main()
