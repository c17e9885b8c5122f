"""What a side holds in memory once it has listed: `python -m bench.memory raw|toolbus URL`, in bytes."""

import asyncio
import gc
import sys
import tracemalloc
from typing import cast

from bench.sides import Side, bench_bus, listed, raw_client


async def raw_kept(url: str) -> int:
    """Bytes held by the SDK's client: the lists it gave, and its cache."""
    async with raw_client(url, "modern") as client:
        held = await listed(client)
        size = _held()
        assert held
    return size


async def bus_kept(url: str) -> int:
    """Bytes held by toolbus: the catalog and what belongs to it."""
    async with bench_bus(url, "modern"):
        return _held()


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> None:
    """List once without looking, for all that is imported or built on first use; then again, counted."""
    side, url = cast(Side, sys.argv[1]), sys.argv[2]
    measure = raw_kept if side == "raw" else bus_kept
    asyncio.run(measure(url))
    gc.collect()
    tracemalloc.start()
    print(asyncio.run(measure(url)))


if __name__ == "__main__":
    main()
