"""A replica that hangs instead of dying: its kernel takes connections and requests, and nobody answers."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import sampled
from tests.gateway.front import Events
from tests.gateway.replicas.cluster import ELICITS, TASKS, Cluster, Replica, client, cluster, text_of, until
from tests.inside.gateway import REPLICA, Replicas
from tests.inside.state import Cipher, Seal, Store, parse_store_url
from tests.postgres import Server, postgres_server

pytestmark = pytest.mark.anyio
DEAD = "has missed its heartbeats"
RETURNED = "the other replicas believed that this one had ended"
UNKNOWN = "check before you repeat it"


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=sampled(["sqlite", "postgresql"], "postgresql"))
async def two(request: pytest.FixtureRequest) -> AsyncGenerator[Cluster]:
    """Two replicas, on either database."""
    server: Server | None = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    async with cluster(2, "" if server is None else server.database()) as made:
        yield made


@contextmanager
def frozen(*replicas: Replica) -> Generator[None]:
    """Stop processes, and let them go on."""
    for replica in replicas:
        os.kill(replica.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for replica in replicas:
            os.kill(replica.process.pid, signal.SIGCONT)


def says(replica: Replica, text: str) -> bool:
    return text in " ".join(replica.log.read_text().split())


async def test_sessions_of_a_frozen_replica_go_on_elsewhere_and_stay_there_when_it_wakes(
    two: Cluster,
) -> None:
    first, second = two.replicas
    async with client() as one, client() as other:
        for each in (one, other):
            await each.open(first.url)
            await each.legacy_call(second.url, "write", token=f"before {each.session}")
        flying = asyncio.create_task(one.legacy_call(second.url, "write", token="in flight", seconds=600))
        await two.until_written("in flight")
        with frozen(first):
            late = asyncio.create_task(one.legacy_call(second.url, "write", token="given up"))
            for failed in await asyncio.gather(flying, late):
                assert UNKNOWN in failed["error"]["message"]
            assert text_of(await one.legacy_call(second.url, "write", token="after")) == "after"
            assert says(second, DEAD)
        # One session was taken over, one was not asked for: both are where the store says, in one place.
        for number, replica in enumerate((first, second, first)):
            for each in (one, other):
                token = f"{number} {each.session}"
                assert text_of(await each.legacy_call(replica.url, "write", token=token)) == token
        await until(lambda: says(first, RETURNED))
        assert two.written["in flight"] == 1
        assert "given up" not in two.written, (
            "its client was told that nobody knows, and may have repeated it"
        )
        assert set(two.written.values()) == {1}
        # It ends for all, through either.
        assert (await one.http.delete(first.url, headers=one.headers)).status_code == 200
        for replica in two.replicas:
            assert "result" not in await one.legacy(replica.url, "tools/list")


async def test_the_streams_of_a_session_that_moved_end_and_it_has_one_elsewhere(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        await one.open(first.url)
        await one.legacy(second.url, "resources/subscribe", {"uri": "journal://all"})
        streaming = one.http.stream("GET", first.url, headers=one.headers)
        relayed = asyncio.create_task(one.legacy_call(second.url, "write", token="a", seconds=600))
        await two.until_written("a")
        async with streaming as response:
            events = Events(response)
            await events.next()
            with frozen(first):
                assert UNKNOWN in (await relayed)["error"]["message"]
                assert "result" in await one.legacy(second.url, "tools/list")
            # A client that kept its connection learns that it has to open another one.
            await events.rest()
        async with one.http.stream("GET", first.url, headers=one.headers) as response:
            events = Events(response)
            kinds = {(await events.message())["method"] for _ in range(4)}
            assert "notifications/resources/updated" in kinds
            await one.legacy_call(first.url, "write", token="b")
            assert (await events.message())["params"] == {"uri": "journal://all"}
        assert two.written == {"a": 1, "b": 1}


async def test_a_question_of_a_replica_that_was_frozen_is_answered_once_it_wakes(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        await one.open(first.url, ELICITS)
        params = {"name": "confirm", "arguments": {"token": "a"}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with one.http.stream("POST", first.url, json=message, headers=one.headers) as response:
            events = Events(response)
            question = await events.message()
            answer: dict[str, Any] = {"id": question["id"], "result": {"action": "accept", "content": {}}}
            with frozen(first):
                await until(lambda: says(second, DEAD))
                assert await one.send(second.url, answer) == 502
                assert "result" in await one.legacy(second.url, "tools/list")
            await until(lambda: says(first, RETURNED))

            async def is_delivered() -> bool:
                return await one.send(second.url, answer) == 202

            await until(is_delivered)
            assert text_of(await events.message()) == "a accept"
        assert two.written == {"a accept": 1}


async def test_a_task_that_was_reported_as_failed_stays_so_when_its_replica_wakes(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        asked: list[dict[str, str]] = []
        for token in ("told", "untold"):
            started = (await one.call(first.url, "job", TASKS, token=token, seconds=3))["result"]
            asked.append({"taskId": started["taskId"]})
            await two.until_written(token)
        told, untold = asked
        with frozen(first):
            await until(lambda: says(second, DEAD))
            state = (await one.modern(second.url, "tasks/get", told, TASKS))["result"]
            assert state["status"] == "failed"
            assert "whether the call took effect is not known" in state["error"]["message"]
        for replica in (first, second, first):
            again = (await one.modern(replica.url, "tasks/get", told, TASKS))["result"]
            assert (again["status"], again["error"]) == ("failed", state["error"])

        async def is_completed() -> bool:
            state = (await one.modern(second.url, "tasks/get", untold, TASKS))["result"]
            return state["status"] == "completed"

        await until(is_completed)
        again = (await one.modern(first.url, "tasks/get", told, TASKS))["result"]
        assert again["status"] == "failed"
        assert two.written == {"told": 1, "untold": 1}


async def test_the_last_of_three_takes_over_from_two_that_are_frozen() -> None:
    async with cluster(3) as three, client() as one, client() as other:
        first, second, third = three.replicas
        await one.open(first.url)
        await other.open(second.url)
        for each in (one, other):
            await each.legacy_call(third.url, "write", token=f"before {each.session}")
        with frozen(first, second):
            calls = [
                each.legacy_call(third.url, "write", token=f"lost {each.session}") for each in (one, other)
            ]
            for failed in await asyncio.gather(*calls):
                assert UNKNOWN in failed["error"]["message"]
            for each in (one, other):
                call = await each.legacy_call(third.url, "write", token=f"after {each.session}")
                assert text_of(call) == f"after {each.session}"
        for replica in (first, second):
            await until(lambda replica=replica: says(replica, RETURNED))
        for replica in three.replicas:
            for each in (one, other):
                assert text_of(
                    await each.legacy_call(replica.url, "write", token=f"{replica.port} {each.session}")
                )
        assert set(three.written.values()) == {1}
        assert not [token for token in three.written if token.startswith("lost")]


async def test_nobody_is_dead_when_all_were_frozen_at_once(two: Cluster) -> None:
    async with client() as one:
        await one.open(two.replicas[0].url)
        with frozen(*two.replicas):
            await asyncio.sleep(12)
        for replica in two.replicas:
            assert text_of(await one.legacy_call(replica.url, "write", token=str(replica.port)))
        await asyncio.sleep(4)
        assert not any(says(replica, DEAD) or says(replica, RETURNED) for replica in two.replicas)


async def test_a_replica_that_responds_is_not_dead_although_its_beats_do_not_reach_the_store(
    tmp_path: Path,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(f"HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    busy = await asyncio.start_server(partial(answer, status=200), "127.0.0.1", 0)
    replaced = await asyncio.start_server(partial(answer, status=421), "127.0.0.1", 0)
    stuck = await asyncio.start_server(hang, "127.0.0.1", 0)
    url = parse_store_url(f"sqlite:///{tmp_path / 'store.db'}")
    async with Store(url, Cipher([b"k" * 32])) as store:
        for name, server in (("busy", busy), ("stuck", stuck), ("replaced", replaced)):
            port = server.sockets[0].getsockname()[1]
            row = {"id": name, "url": f"http://127.0.0.1:{port}", "beat": 7, "every": 2.0}
            await store.put(REPLICA, name, json.dumps(row).encode(), 600)
        replicas = Replicas(store, Seal(b"s" * 32), session_seconds=60)
        await replicas.peers.start("http://127.0.0.1:1")
        await until(lambda: not replicas.peers.has("stuck") and not replicas.peers.has("replaced"))
        rows: dict[str, Any] = {name: json.loads(row) for name, row in (await store.items(REPLICA)).items()}
        assert rows["stuck"]["dead"]
        assert rows["replaced"]["dead"], "another one listens at its address"
        assert not rows["busy"].get("dead")
        assert replicas.peers.has("busy")
        await replicas.close()
    for server in (busy, stuck, replaced):
        server.close()
