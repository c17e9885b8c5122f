"""The pages that the workers of a gateway serve as one: metrics of all, and the first one's console."""

import asyncio
from collections.abc import Mapping

from toolbus.core.values.errors import StoreError
from toolbus.gateway.http.request import Headers, HttpRequest
from toolbus.gateway.http.workers import FIRST, Workers
from toolbus.gateway.replicas.peers import Peer
from toolbus.gateway.replicas.replicas import Replicas

_SECONDS = 5.0
"""How long another worker may take for its metrics."""
_RETRY: Headers = ((b"retry-after", b"1"),)


class WorkerPages:
    """The pages of the other workers."""

    def __init__(self, replicas: Replicas, workers: Workers) -> None:
        self._replicas = replicas
        self._workers = workers

    async def metrics(self, http: HttpRequest, own: str) -> str:
        """The metrics of all workers, of which this one has its `own`."""
        others = (await self._others()).items()
        pages = await asyncio.gather(*(self._page(http, peer) for _, peer in others))
        found = {number: page for (number, _), page in zip(others, pages, strict=True) if page is not None}
        return merged({**found, self._workers.number: own}, self._workers.count)

    async def console(self, http: HttpRequest) -> None:
        """Have the first worker answer a request for its console."""
        if self._workers.number == FIRST:
            return await http.respond(404)
        body, first = await http.body(), (await self._others()).get(FIRST)
        if first is not None and await self._replicas.passed_on_page(http, body, first):
            return None
        return await http.respond(503, headers=_RETRY)  # it is being started again

    async def _others(self) -> dict[int, Peer]:
        try:
            return await self._replicas.peers.workers()
        except StoreError:
            return {}

    async def _page(self, http: HttpRequest, peer: Peer) -> str | None:
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._replicas.fetched_page(http, peer)
        except TimeoutError:
            return None


def merged(pages: Mapping[int, str], count: int) -> str:
    """One page of those of the workers; which of `count` workers are missing shows in `worker_up`."""
    meanings: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for number, page in sorted(pages.items()):
        name = ""
        for line in page.splitlines():
            if line.startswith("# "):
                _, kind, name, _ = line.split(" ", 3)
                if kind == "HELP":
                    samples.setdefault(name, [])
                    meanings[name] = []
                meanings[name].append(line)
            else:
                samples[name].append(_labelled(line, number))
    lines = [line for name, found in samples.items() for line in (*meanings[name], *found)]
    lines += [
        "# HELP toolbus_gateway_worker_up 1 for a worker that could be asked.",
        "# TYPE toolbus_gateway_worker_up gauge",
        *(
            f'toolbus_gateway_worker_up{{worker="{number}"}} {int(number in pages)}'
            for number in range(count)
        ),
    ]
    return "\n".join(lines) + "\n"


def _labelled(sample: str, number: int) -> str:
    labelled, _, value = sample.rpartition(" ")
    name, brace, rest = labelled.partition("{")
    more = f",{rest}" if brace else "}"
    return f'{name}{{worker="{number}"{more} {value}'
