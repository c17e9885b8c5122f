"""One figure of the load: clients that call as fast as they get answers, for some seconds."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from bench.gateways import TEXT
from bench.http_load import Lane, lanes, request
from bench.load.gateway import Gateway

LONGEST = 120.0
"""Seconds after which a measurement is given up."""
PAUSE = 0.1
"""Seconds that a client waits which is refused: less than it is told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The results of a load."""

    calls: int
    refused: int
    """Calls that were answered with 429."""
    seconds: float
    p50: float
    p99: float
    """Of the calls that were made, in milliseconds."""
    cpu: float
    """Microseconds of CPU time of the gateway for each call."""
    memory: float
    """MiB of the gateway, with the clients connected."""

    @property
    def per_second(self) -> float:
        return self.calls / self.seconds


@dataclass(slots=True)
class Tally:
    """The notes of clients."""

    latencies: list[float]
    refused: int = 0


async def loaded(gateway: Gateway, clients: int, seconds: float, tools: Sequence[str]) -> Figure:
    """Have that many clients call, so that every user and every tool is used in turn."""
    count = max(clients, len(gateway.keys), len(tools))
    users, names = cycle(gateway.keys), cycle(tools)
    requests = [request(gateway.url, next(names), TEXT, next(users)) for _ in range(count)]
    async with asyncio.timeout(LONGEST + seconds), lanes(gateway.url, clients) as over:
        for start in range(0, count, clients):  # each once, before it counts
            some = requests[start : start + clients]
            await asyncio.gather(*(lane.call(data) for lane, data in zip(over, some, strict=False)))
        return await measured(gateway, over, [requests[place::clients] for place in range(clients)], seconds)


async def measured(
    gateway: Gateway, over: Sequence[Lane], requests: Sequence[Sequence[bytes]], seconds: float
) -> Figure:
    """The figure of these clients, each with its requests, again and again."""
    tally = Tally([])
    before, began = gateway.cpu, time.perf_counter()
    until = began + seconds
    calls = (repeat(lane, own, until, tally) for lane, own in zip(over, requests, strict=True))
    await asyncio.gather(*calls)
    taken = time.perf_counter() - began
    cpu = gateway.cpu - before
    times = sorted(tally.latencies)
    return Figure(
        calls=len(times),
        refused=tally.refused,
        seconds=taken,
        p50=_percentile(times, 0.5),
        p99=_percentile(times, 0.99),
        cpu=1e6 * cpu / max(1, len(times) + tally.refused),
        memory=gateway.memory / 2**20,
    )


async def repeat(lane: Lane, requests: Sequence[bytes], until: float, tally: Tally) -> None:
    """Call again and again, until that time."""
    for data in cycle(requests):
        began = time.perf_counter()
        if began >= until:
            return
        head, body = await lane.exchange(data)
        if head.startswith(b"HTTP/1.1 429"):
            tally.refused += 1
            await asyncio.sleep(PAUSE)
            continue
        assert head.startswith(b"HTTP/1.1 200"), head
        assert b'"result"' in body, body
        tally.latencies.append(time.perf_counter() - began)


def _percentile(times: Sequence[float], part: float) -> float:
    return 1000 * times[min(len(times) - 1, int(part * len(times)))] if times else 0.0
