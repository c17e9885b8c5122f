"""Commands that run until told to stop: they end in time, at once if told twice, and leave nothing."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import warm
from tests.cli.running import environment, living_at, write_config
from tests.gateway.replicas.cluster import SERVER, TASKS, Cluster, client, cluster, until
from tests.inside.gateway import MARGIN
from tests.patience import PATIENCE
from tests.postgres import Server, over_tcp, postgres_server
from tests.processes import alive

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes of a command in /proc"),
]
NOTICE, DRAIN, SLACK = 1.0, 2.0, 5.0
"""The last one is for a busy machine; a hanging store would cost more than 20 s."""
WORKER = """
from pydantic_ai.models.test import TestModel
from toolbus.agent import Agent
from toolbus.agent.durable import Durable

agent = Agent(TestModel(), durable=Durable(store="{url}", beat=0.2, poll=0.05, drain={drain}))
"""


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


@asynccontextmanager
async def database(postgres: Server) -> AsyncGenerator[tuple[str, asyncio.Event]]:
    """The URL of a database that hangs whenever the event is not set."""
    passes = asyncio.Event()
    passes.set()
    async with over_tcp(postgres.database(), "127.0.0.1", passes) as url:
        yield url, passes


async def gone(home: Path) -> None:
    """Wait until no process of that home is left."""
    await until(lambda: not any(map(alive, living_at(home))))


def freeze_servers(home: Path) -> None:
    """Stop the servers of a command, which then take no notice of any polite request to end."""
    for pid in living_at(home):
        if SERVER.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGSTOP)


async def called(made: Cluster) -> "asyncio.Task[object]":
    """A call that does not end."""

    async def call() -> object:
        async with client() as one:
            return await one.call(made.replicas[0].url, "write", token="a", seconds=600)

    task = asyncio.create_task(call())
    await made.until_written("a")
    return task


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_gateway_whose_store_hangs_ends_in_time(postgres: Server, workers: int) -> None:
    serve = {"drain": DRAIN, "workers": workers}
    async with (
        database(postgres) as (url, passes),
        cluster(1, url, notice=NOTICE, serve=serve) as made,
        client() as one,
    ):
        await one.open(made.replicas[0].url)
        started = await one.call(made.replicas[0].url, "job", TASKS, token="job", seconds=1)
        assert started["result"]["resultType"] == "task"
        passes.clear()
        call = await called(made)
        waiting = asyncio.create_task(one.open(made.replicas[0].url))
        began = time.monotonic()
        assert await made.replicas[0].stop() == 0, made.replicas[0].log.read_text()
        assert time.monotonic() - began < NOTICE + DRAIN + MARGIN + SLACK
        await gone(made.folder)
        await asyncio.gather(call, waiting, return_exceptions=True)


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_second_signal_ends_a_gateway_at_once_and_its_servers(postgres: Server, workers: int) -> None:
    serve = {"drain": 600, "workers": workers}
    async with database(postgres) as (url, passes), cluster(1, url, notice=600, serve=serve) as made:
        (gateway,) = made.replicas
        call = await called(made)
        passes.clear()
        freeze_servers(made.folder)
        gateway.process.send_signal(signal.SIGTERM)
        await until(lambda: "leaving" in gateway.log.read_text())
        assert gateway.process.poll() is None
        began = time.monotonic()
        assert await gateway.stop() == 143, gateway.log.read_text()
        assert time.monotonic() - began < 2 * SLACK
        await gone(made.folder)
        await asyncio.gather(call, return_exceptions=True)


async def test_a_second_signal_ends_a_background_bus_at_once_and_its_servers(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    journal = folder / "journal"
    journal.touch()
    server = {"command": sys.executable, "args": [str(SERVER), str(journal)], "prefix": ""}
    write_config(folder, {"journal": server})
    env = environment(tmp_path, XDG_RUNTIME_DIR=str(tmp_path))
    up = warm.start("toolbus", ["up", "--foreground"], folder, env, folder / "up.log")
    await until(lambda: "Ctrl-C" in (folder / "up.log").read_text())
    words = ["call", "write", "token=a", "seconds=600"]
    call = warm.start("toolbus", words, folder, env, folder / "call.log")
    await until(lambda: "a" in journal.read_text().split())
    freeze_servers(tmp_path)
    up.send_signal(signal.SIGTERM)
    await until(lambda: not list(tmp_path.rglob("*.sock")))  # from then on it waits for the call
    assert up.poll() is None
    began = time.monotonic()
    up.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(up.wait, PATIENCE) == 130
    assert time.monotonic() - began < 2 * SLACK
    await asyncio.to_thread(call.wait, PATIENCE)
    await gone(tmp_path)


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_worker_whose_store_hangs_ends_in_time_and_at_once_if_told_twice(
    postgres: Server, tmp_path: Path, signals: int
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with database(postgres) as (url, passes):
        drain = DRAIN if signals == 1 else 600
        (folder / "program.py").write_text(WORKER.format(url=url, drain=drain))
        log = folder / "worker.log"
        worker = warm.start(
            "toolbus", ["runs", "worker", "program:agent"], folder, environment(tmp_path), log
        )
        await until(lambda: "takes runs" in log.read_text())
        passes.clear()
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        if signals == 2:
            await until(lambda: "calls in flight end" in log.read_text())
            began = time.monotonic()
            worker.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(worker.wait, PATIENCE)
        took = time.monotonic() - began
        assert took < (DRAIN + MARGIN + SLACK if signals == 1 else 2 * SLACK)
        assert code in ((0, 143) if signals == 1 else (143,)), log.read_text()
        await gone(tmp_path)
