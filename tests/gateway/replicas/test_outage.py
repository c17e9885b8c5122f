"""The store does not respond for ten seconds: calls that do not need it go on, others wait, none is lost."""

import asyncio
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus
from tests.gateway.replicas.cluster import ELICITS, STORE_KEY, TASKS, Client, client, cluster, text_of, until
from tests.postgres import Server, over_tcp, postgres_server

pytestmark = pytest.mark.anyio
SECONDS = 10.0
PATIENCE_OF_STORE = 20.0


async def _knows(one: Client, url: str) -> bool:
    return "result" in await one.modern(url, "tools/list")


def _says(log: Path, text: str) -> bool:
    return text in log.read_text()


@pytest.fixture
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


async def test_the_store_is_gone_for_ten_seconds(postgres: Server) -> None:
    async with cluster(2, postgres.database(), serve={"auth": {"keys": True}}) as two:
        first, second = two.replicas
        environment = {"TOOLBUS_TRUST": "1", "TOOLBUS_STORE_KEY": STORE_KEY}
        words = ("key", "add", "ann", "--config", str(two.config))
        made = await asyncio.to_thread(toolbus, *words, folder=two.folder, env=environment)
        async with client(made.stdout.strip()) as one, client(made.stdout.strip()) as other:
            for url in (first.url, second.url):
                await until(partial(_knows, one, url))
            await one.open(first.url)
            await one.legacy_call(second.url, "write", token="before")  # which learns where the session is
            asked = (await one.call(first.url, "confirm", ELICITS, token="asked"))["result"]
            await asyncio.to_thread(postgres.stop)
            ten_seconds = asyncio.create_task(asyncio.sleep(SECONDS))
            # These need nothing of the store: it comes back only after they were answered.
            for url in (first.url, second.url):
                assert text_of(await one.call(url, "write", token=f"modern {url}"))
                assert text_of(await one.legacy_call(url, "write", token=f"legacy {url}"))
            (key,) = asked["inputRequests"]
            params: dict[str, Any] = {
                "name": "confirm",
                "arguments": {"token": "asked"},
                "requestState": asked["requestState"],
                "inputResponses": {key: {"action": "accept", "content": {}}},
            }
            done = await one.modern(second.url, "tools/call", params, ELICITS)
            assert text_of(done) == "asked accept"
            # A command does not wait that long, and the log of a gateway says why.
            words = ("key", "list", "--config", str(two.config))
            failed = await asyncio.to_thread(toolbus, *words, folder=two.folder, env=environment)
            assert failed.returncode == 1
            assert "it has not responded for 3 s" in failed.stderr
            for replica in two.replicas:
                await until(partial(_says, replica.log, "does not respond"))
            # These wait for it: a session, and a task, are stored before their client learns of them.
            opening = asyncio.create_task(other.open(second.url))
            starting = asyncio.create_task(one.call(first.url, "job", TASKS, token="job"))
            await ten_seconds
            assert not opening.done()
            assert not starting.done()
            await asyncio.to_thread(postgres.start)
            await opening
            assert (await starting)["result"]["resultType"] == "task"
            for replica in two.replicas:
                await until(partial(_says, replica.log, "responds again"))
            await two.until_written("job")
            assert text_of(await other.legacy_call(first.url, "write", token="after")) == "after"
            assert not any(_says(replica.log, "missed its heartbeats") for replica in two.replicas)
        assert set(two.written.values()) == {1}


async def test_a_request_waits_once_for_a_store_that_hangs(postgres: Server) -> None:
    """However many values it needs, and however many replicas it passes."""
    passes = asyncio.Event()
    passes.set()
    async with over_tcp(postgres.database(), "127.0.0.1", passes) as store, cluster(2, store) as two:
        first, second = two.replicas
        async with client() as one, client() as known, client() as other:
            for each in (one, known):
                await each.open(first.url)
            await known.legacy_call(second.url, "write", token="before")  # which learns where the session is
            started = (await other.call(first.url, "job", TASKS, token="job"))["result"]
            await two.until_written("job")
            passes.clear()
            began = time.monotonic()
            uri = {"uri": "journal://all"}
            unknown = _another_digit(started["taskId"][0]) + started["taskId"][1:]
            refused = await asyncio.gather(
                one.legacy_call(second.url, "write", token="never"),
                known.legacy(second.url, "tasks/get", {"taskId": "unknown"}),
                other.call(second.url, "job", TASKS, token="never"),
                other.modern(second.url, "tasks/get", {"taskId": unknown}, TASKS),
            )
            subscribed = await known.legacy(second.url, "resources/subscribe", uri)
            assert time.monotonic() - began < 2 * (PATIENCE_OF_STORE + 3), "one wait each, of two in a row"
            assert all("error" in one or one["result"]["isError"] for one in refused)
            assert subscribed["result"] == {}, "it is done, and only the other replicas do not know it"
        assert two.written == {"before": 1, "job": 1}


def _another_digit(digit: str) -> str:
    return "1" if digit == "0" else "0"
