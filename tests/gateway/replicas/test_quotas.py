"""Quotas over the workers of several replicas: the server counts the calls that reach it."""

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import environment
from tests.gateway.replicas.cluster import SERVER, Cluster, Replica, client, cluster, text_of

pytestmark = pytest.mark.anyio
DAY = 86_400
_tokens = count(1)


class Calls:
    """Calls of clients of both eras, each on connections of its own, spread over all replicas."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self.allowed = 0
        self.refused: list[dict[str, Any]] = []
        self.lost = 0

    async def make(self, calls: int, clients: int) -> None:
        left = iter(range(calls))
        await asyncio.gather(*(self._client(number, left) for number in range(clients)))

    async def _client(self, number: int, left: Any) -> None:
        url = self._urls[number % len(self._urls)]
        async with client() as caller:
            if is_legacy := number % 2 == 1:
                await caller.open(url)
            for _ in left:
                call = caller.legacy_call if is_legacy else caller.call
                self._count(await call(url, "write", token=f"token-{next(_tokens)}"))

    def _count(self, response: dict[str, Any]) -> None:
        if "result" not in response:
            self.lost += 1
        elif response["result"].get("isError"):
            assert "try again in" in text_of(response), response
            self.refused.append(response["result"])
        else:
            self.allowed += 1


def today() -> float:
    return time.time() // DAY


async def counted(found: Cluster, most: int, calls: int, clients: int) -> tuple[Calls, int]:
    """Make calls within one day; returns how many of them reached the server."""
    while True:
        began, before = today(), found.written.total()
        made = Calls([replica.url for replica in found.replicas])
        await made.make(calls, clients)
        if began == today():
            return made, found.written.total() - before


@pytest.mark.parametrize(
    ("replicas", "workers", "calls", "most"),
    [(2, 2, 400, 250), pytest.param(3, 4, 10_000, 6_000, marks=pytest.mark.full)],
    ids=["small", "full"],
)
async def test_all_workers_of_all_replicas_together_make_no_call_too_many(
    replicas: int, workers: int, calls: int, most: int
) -> None:
    quota = {"per": "server", "per_day": most}
    async with cluster(replicas, serve={"workers": workers}, quotas=[quota]) as found:
        made, reached = await counted(found, most, calls, clients=4 * replicas)
    print(f"{replicas} replicas of {workers} workers: {made.allowed} of {calls} calls made, {most} allowed")
    assert (reached, made.lost) == (made.allowed, 0)
    assert most - most // 8 <= made.allowed <= most
    assert made.allowed + len(made.refused) == calls
    assert all(one["_meta"]["toolbus/retryAfter"] >= 1 for one in made.refused)


async def test_a_replica_that_is_killed_loses_at_most_what_it_had_leased() -> None:
    most = 160
    async with cluster(2, quotas=[{"per": "server", "per_day": most}]) as found:
        first, second = found.replicas
        began, allowed = today(), 0
        async with client() as caller:
            for _ in range(10):
                response = await caller.call(first.url, "write", token=f"token-{next(_tokens)}")
                assert not response["result"].get("isError")
            first.kill()
            await first.ended()
            while not (await caller.call(second.url, "write", token=f"token-{next(_tokens)}"))["result"].get(
                "isError"
            ):
                allowed += 1
        if began == today():
            assert most - most // 8 <= 10 + allowed <= most


async def test_no_more_calls_run_at_the_same_time_than_are_allowed_by_all_together() -> None:
    async with cluster(2, serve={"workers": 2}, quotas=[{"per": "server", "concurrent": 3}]) as found:
        outcomes: Counter[bool] = Counter()

        async def call(number: int) -> None:
            async with client() as caller:
                url = found.replicas[number % 2].url
                response = await caller.call(url, "write", token=f"token-{number}", seconds=5)
                outcomes[bool(response["result"].get("isError"))] += 1

        await asyncio.gather(*(call(number) for number in range(12)))
        assert outcomes[False] <= 3
        assert found.written.total() == outcomes[False]
        async with client() as caller:  # the places are free again, wherever the next call goes
            for number in range(12):
                url = found.replicas[number % 2].url
                response = await caller.call(url, "write", token=f"later-{number}")
                assert not response["result"].get("isError"), response


async def test_workers_without_a_store_share_a_file_and_a_restart_begins_no_new_count(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [str(SERVER), str(tmp_path / "journal")], "prefix": ""}
    quotas = [{"per": "server", "per_day": 60}]
    config = tmp_path / "toolbus.json"
    config.write_text(json.dumps({"servers": {"journal": server}, "serve": {"workers": 3}, "quotas": quotas}))
    (tmp_path / "journal").touch()
    began = today()
    for number in range(2):
        log = tmp_path / f"log{number}"
        words = ["serve", "--http", ":0", "--config", str(config)]
        process = warm.start("toolbus", words, tmp_path, environment(tmp_path, TOOLBUS_TRUST="1"), log)
        replica = Replica(process, log)
        await replica.ready()
        made = Calls([replica.url])
        await made.make(40, clients=6)
        assert made.lost == 0
        assert await replica.stop() == 0
    if began == today():  # what a worker did not use, it gave back
        assert len((tmp_path / "journal").read_text().splitlines()) == 60
