"""Gold calls in durable runs whose worker is killed: do the runs end as direct calls do?"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.proof.benchmarks import opened_bfcl
from bench.proof.install import NotInstalled
from bench.proof.parts import Part, PartReport, table
from bench.proof.paths import config, served
from bench.proof.runs.worker import PLAN, settings
from bench.proof.servers import Benchmark, Controls, controls
from bench.proof.traces import PathOutcome, Task, TaskOutcome
from bench.sides import ROOT, STOPPING
from tests import warm
from toolbus.agent.durable import RunInfo, Runs

STEP = 25
"""Of how many tasks one is taken: each kills a worker, and a new one has to start."""
QUICK_STEP = 300
ENDING = 120.0
"""Seconds in which a run has to end."""


def run(quick: bool) -> PartReport:
    """A sample of the tasks."""
    try:
        benchmark = opened_bfcl()
    except NotInstalled as error:
        return PartReport(text=f"not measured: {error}", document={"not measured": str(error)})
    tasks = fit(benchmark)[:: QUICK_STEP if quick else STEP]
    outcome, kills = asyncio.run(replayed(benchmark, tasks, benchmark.direct(tasks)))
    counts = [outcome.tasks, outcome.calls, kills, outcome.equal, len(outcome.different)]
    head = ["durable runs", "runs", "gold calls", "workers killed", "equal runs", "different"]
    different = [f"{task}: {difference}" for task, difference in outcome.different.items()]
    return PartReport(
        text="\n".join([table(head, [[benchmark.name, *(f"{count:,}" for count in counts)]]), *different]),
        document={**asdict(outcome), "kills": kills},
        held=outcome.equal == outcome.tasks == kills,
    )


def fit(benchmark: Benchmark) -> list[Task]:
    """The tasks with two calls or more, without refused calls and without tools that appear later."""
    return [
        task
        for task in benchmark.tasks
        if len(task.calls) > 1 and all(call.fits for call in task.calls) and not list(task.late)
    ]


async def replayed(
    benchmark: Benchmark, tasks: Sequence[Task], expected: Mapping[str, TaskOutcome]
) -> tuple[PathOutcome, int]:
    """Execute one run for each task; also the number of workers that were killed."""
    outcome = PathOutcome()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="proof-")))
        (folder / PLAN).write_text(json.dumps(_plan(tasks)))
        held = await stack.enter_async_context(controls(folder))
        url = await stack.enter_async_context(served(config(benchmark, held)))
        worker = stack.enter_context(_worker(folder, url))
        runs = Runs(settings(folder))
        stack.push_async_callback(runs.close)
        for task in tasks:
            outcome.add(task, expected[task.id], await _outcome(task, held, runs, worker))
    return outcome, worker.kills


def _plan(tasks: Sequence[Task]) -> dict[str, object]:
    """The place of the kill moves: after the first call, after the second, and so on."""
    return {
        task.id: {
            "calls": [(call.name, call.arguments) for call in task.calls],
            "deadly": 1 + number % (len(task.calls) - 1),
        }
        for number, task in enumerate(tasks)
    }


async def _outcome(task: Task, held: Controls, runs: Runs, worker: "SupervisedWorker") -> TaskOutcome:
    await held.begin(task)
    await runs.start(task.id, key=task.id)
    until = time.monotonic() + ENDING
    while (info := await runs.get(task.id)).is_open:
        if time.monotonic() > until:
            raise TimeoutError(f"the run {task.id} is still {info.status}")
        worker.replace_killed()
        await asyncio.sleep(0.05)
    return TaskOutcome(results=_results(info), states=await held.states(task))


def _results(info: RunInfo) -> list[tuple[str, bool]]:
    if info.output is None:
        return [(f"{info.status}: {info.error}", True)]
    return [(text, failed) for text, failed in json.loads(info.output)]


class SupervisedWorker:
    """A worker process that is replaced when it was killed."""

    def __init__(self, folder: Path, url: str) -> None:
        self._words = ["-m", "bench.proof.runs.worker", str(folder), url]
        self._log = folder / "worker.log"
        self._process = self._start()
        self.kills = 0

    def _start(self) -> warm.Running:
        return warm.start("python", self._words, ROOT, os.environ, self._log)

    def replace_killed(self) -> None:
        """Start another one if it was killed."""
        code = self._process.poll()
        if code == -signal.SIGKILL:
            self.kills += 1
            self._process = self._start()
        elif code is not None:
            raise RuntimeError(f"the worker ended with {code}: {self._log.read_text()[-2000:]}")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(STOPPING)


@contextmanager
def _worker(folder: Path, url: str) -> Generator[SupervisedWorker]:
    worker = SupervisedWorker(folder, url)
    try:
        yield worker
    finally:
        worker.close()


PART = Part(name="durable-runs", page="gold-calls", title="Gold calls in durable runs", run=run)
