"""Three replicas behind HAProxy, under load: one is killed, one is restarted.

A call in flight in the killed one fails, once, and no call is made twice. All others succeed.
"""

import asyncio
import itertools
import os
import random
import signal
import time
from collections.abc import Generator
from dataclasses import dataclass, field

import httpx2
import pytest

from tests.gateway.replicas.balancer import HAPROXY, MISSING, balancer
from tests.gateway.replicas.cluster import Client, Cluster, Replica, client, cluster
from tests.patience import PATIENCE, until
from tests.postgres import Server, postgres_server

LONGEST_SILENCE = 15.0
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(HAPROXY is None, reason=MISSING)]


@dataclass
class Call:
    """One call of a client."""

    token: str
    began: float
    ended: float = 0.0
    problem: str = ""


@dataclass
class Load:
    """Clients that call and call, each one call at a time, until they are told to stop."""

    url: str
    calls: list[Call] = field(default_factory=list[Call])
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def run(self, *, legacy: bool) -> None:
        """One client."""
        async with client() as one:
            if legacy:
                await one.open(self.url)
            while not self.stopped.is_set():
                await self._call(one, legacy=legacy)

    async def _call(self, one: Client, *, legacy: bool) -> None:
        made = Call(f"{'legacy' if legacy else 'modern'}-{next(self._numbers)}", time.monotonic())
        self.calls.append(made)
        call = one.legacy_call if legacy else one.call
        try:
            response = await call(self.url, "write", token=made.token, seconds=random.uniform(0, 0.05))
            if "result" not in response:
                made.problem = str(response)
        except httpx2.HTTPError as error:
            made.problem = repr(error)
        made.ended = time.monotonic()

    async def until_more(self, count: int) -> None:
        """Wait for so many more calls to end."""
        wanted = sum(1 for call in self.calls if call.ended) + count
        await until(lambda: sum(1 for call in self.calls if call.ended) >= wanted)


async def kill(made: Cluster, victim: Replica) -> tuple[float, float, dict[str, object]]:
    """Kill a replica with a call in flight; returns when, and what the client of that call got."""
    async with client() as one:
        token = f"victim-{victim.port}"
        call = asyncio.create_task(one.call(victim.url, "write", token=token, seconds=600))
        await made.until_written(token)
        began = time.monotonic()
        victim.kill()
        await victim.ended()
        try:
            return began, time.monotonic(), await call
        except httpx2.HTTPError as error:
            return began, time.monotonic(), {"error": repr(error)}


async def restart(made: Cluster, replica: Replica) -> Replica:
    """Restart a replica as an upgrade does: a signal, its end, and another process at its place."""
    assert await replica.stop() == 0, replica.log.read_text()
    fresh = await made.start(replica.port)
    await fresh.ready()
    return fresh


async def prove(made: Cluster, clients: int, rounds: int, calls: int) -> None:
    """Kill one and restart one in each round, with clients of each era and calls in between."""
    first, second, third = made.replicas
    async with balancer(made.folder, [one.port for one in made.replicas]) as url:
        load = Load(url)
        running = [
            asyncio.create_task(load.run(legacy=legacy)) for _ in range(clients) for legacy in (True, False)
        ]
        kills: list[tuple[float, float]] = []
        for _ in range(rounds):
            await load.until_more(calls)
            began, ended, failed = await kill(made, first)
            assert "result" not in failed
            kills.append((began, ended))
            await load.until_more(calls)
            fresh = await made.start(first.port)
            await fresh.ready()
            first, second, third = await restart(made, second), third, fresh
        await load.until_more(calls)
        load.stopped.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*running)
    check(made, load, kills)


def check(made: Cluster, load: Load, kills: list[tuple[float, float]]) -> None:
    """Check the promises."""
    written = made.written
    assert max(written.values()) == 1, "a call was made twice"
    failed = [call for call in load.calls if call.problem]
    others = [call for call in failed if not any(call.began <= end and call.ended >= at for at, end in kills)]
    assert others == []
    assert all(written[call.token] == 1 for call in load.calls if not call.problem)
    eras = {call.token.split("-")[0] for call in load.calls}
    assert eras == {"legacy", "modern"}
    print(f"{len(load.calls)} calls, {len(kills)} killed, {len(failed)} in flight there failed, none twice")


@pytest.fixture
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


async def test_one_is_killed_and_one_is_restarted_under_load() -> None:
    async with cluster(3, notice=5.0) as made:
        await prove(made, clients=3, rounds=1, calls=60)


@pytest.mark.full
async def test_each_is_killed_and_restarted_in_turn_under_much_load(postgres: Server) -> None:
    async with cluster(3, postgres.database(), notice=5.0) as made:
        await prove(made, clients=16, rounds=4, calls=500)


async def test_gateways_that_are_busy_for_a_moment_are_not_taken_for_dead() -> None:
    """None of them responds for longer than a check takes, as under too much load for the machine."""
    async with cluster(3) as made, balancer(made.folder, [one.port for one in made.replicas]) as url:
        load = Load(url)
        running = [asyncio.create_task(load.run(legacy=legacy)) for _ in range(8) for legacy in (True, False)]
        await asyncio.sleep(2.5)  # a server that HAProxy has never checked is down at its first failure
        for _ in range(2):
            await load.until_more(30)
            for replica in made.replicas:
                os.kill(replica.process.pid, signal.SIGSTOP)
            await asyncio.sleep(3.8)
            running += [asyncio.create_task(load.run(legacy=False)) for _ in range(4)]
            await asyncio.sleep(0.2)  # in which new clients would be refused, if no gateway were there
            for replica in made.replicas:
                os.kill(replica.process.pid, signal.SIGCONT)
        await load.until_more(30)
        load.stopped.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*running)
        check(made, load, [])


async def test_a_gateway_that_hangs_costs_no_client_more_than_fifteen_seconds() -> None:
    """Nor its session; and a gateway that ends meanwhile answers what it has."""
    async with (
        cluster(3, notice=5.0) as made,
        balancer(made.folder, [one.port for one in made.replicas]) as url,
    ):
        first, second, _ = made.replicas
        load = Load(url)
        running = [asyncio.create_task(load.run(legacy=legacy)) for _ in range(4) for legacy in (True, False)]
        await load.until_more(60)
        began = time.monotonic()
        os.kill(first.process.pid, signal.SIGSTOP)
        try:
            fresh = await restart(made, second)
            await until(lambda: time.monotonic() > began + 2 * LONGEST_SILENCE)
        finally:
            os.kill(first.process.pid, signal.SIGCONT)
        woken = time.monotonic()
        await load.until_more(60)
        load.stopped.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*running)
        assert max(call.ended - call.began for call in load.calls) < LONGEST_SILENCE
        assert fresh.process.poll() is None
        check(made, load, [(began, woken)])
