"""Workers that are killed, or only seem dead, in processes of their own; `make crash` does it in full."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import warm
from tests.durable.crash.deploy import Deploy, deploy
from tests.durable.crash.fleet import ROOT
from tests.durable.crash.kill import kill
from tests.durable.crash.trouble import Outage, freeze, full_disk, store_down
from tests.durable.stage import run_when, settings
from tests.patience import PATIENCE, until
from tests.postgres import Server
from toolbus.agent.durable import RunInfo, Runs

pytestmark = pytest.mark.anyio
DEADLINE = 3 * PATIENCE


async def test_a_killed_worker_repeats_no_unsafe_write_and_loses_nothing(store: str, tmp_path: Path) -> None:
    workers = 1 if "://" not in store else 2
    async with asyncio.timeout(DEADLINE):
        report = await kill(store, tmp_path, runs=5, workers=workers, remote=workers > 1)
    assert report.faults == []
    assert (report.runs, report.done) == (5, 5)
    assert report.unknown >= 4, "a call was in flight at four of the five points"


@pytest.mark.parametrize("killed", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_a_deploy_that_adds_and_renames_tools_costs_no_call(
    store: str, tmp_path: Path, killed: bool
) -> None:
    how = Deploy(name="deploy", kill=killed, workers=1, versions=("v1", "v2", "v3"), within=DEADLINE)
    report = await deploy(store, tmp_path, how)
    assert report.faults == []
    assert report.done >= 5


async def test_runs_that_are_pinned_wait_for_a_worker_of_their_version(store: str, tmp_path: Path) -> None:
    how = Deploy(name="pinned", pin=True, kill=True, workers=1, versions=("v1", "v4"), within=DEADLINE)
    report = await deploy(store, tmp_path, how)
    assert report.faults == []
    assert report.done >= 5


async def test_runs_of_a_frozen_worker_go_on_elsewhere(postgres_url: str, tmp_path: Path) -> None:
    report = await freeze(postgres_url, tmp_path, seconds=2, beat=0.25, patience=PATIENCE)
    assert report.faults == []
    assert report.moved > 0


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_workers_end_and_runs_wait_while_the_store_is_down(
    postgres_server: Server, tmp_path: Path, hangs: bool
) -> None:
    outage = Outage(hangs=hangs, seconds=0, drain=1, slack=PATIENCE, at_once=PATIENCE)
    report = await store_down(postgres_server, tmp_path, outage)
    assert report.faults == []
    assert report.done >= 5


async def test_runs_wait_for_space_on_a_disk_that_is_full(tmp_path: Path) -> None:
    try:
        report = await full_disk(tmp_path, seconds=2)
    except PermissionError as error:
        pytest.skip(str(error))
    assert report.faults == []
    assert report.done >= 5


async def test_a_worker_that_only_seemed_dead_is_fenced_off(postgres_url: str, tmp_path: Path) -> None:
    opened = Runs(settings(tmp_path, store=postgres_url))
    run = await opened.start("Go.", key="k")
    first = tmp_path / "first"
    with _worker(postgres_url, first) as paused:
        await _reached(first)
        os.kill(paused.pid, signal.SIGSTOP)
        second = tmp_path / "second"
        with _worker(postgres_url, second):
            info = await run_when(opened, run, lambda info: info.attempts == 2)
            await _reached(second)  # the run goes on there, and its next call waits
            os.kill(paused.pid, signal.SIGCONT)
            (first / "go").touch()  # the call that was in flight ends, and must not be recorded
            own = await _joined_again(opened, paused.pid, info)
            (second / "go").touch()
            ended = await asyncio.wait_for(opened.wait(run), PATIENCE)
    await opened.close()
    assert ended.output == "outcome unknown, then held by second"
    assert own not in (info.worker, None)


async def _reached(folder: Path) -> None:
    await until((folder / "reached").exists)


async def _joined_again(runs: Runs, pid: int, info: RunInfo) -> str:
    """The new id of a worker that was declared dead."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for row in await runs.workers():
                if row.pid == pid and not row.dead:
                    return row.worker
            await asyncio.sleep(0.05)


@contextmanager
def _worker(store: str, folder: Path) -> Generator[warm.Running]:
    folder.mkdir()
    words = ["-m", "tests.durable.paused_worker", store, str(folder)]
    worker = warm.start("python", words, ROOT, os.environ, folder / "log")
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGCONT)
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)
