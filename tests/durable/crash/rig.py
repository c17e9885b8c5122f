"""The kill test itself: starts the parts, replaces workers that were killed, and checks what came of it."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests import warm
from tests.durable.crash import PHASES, STEPS, tool_of
from tests.durable.crash.worker import settings
from tests.patience import PATIENCE
from toolbus.agent.durable import RunInfo, Runs

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Report:
    """What came of a kill test."""

    runs: int
    seconds: float
    kills: int = 0
    phases: Counter[str] = field(default_factory=Counter[str])
    """How many workers were killed in each phase."""
    unknown: int = 0
    """Results of calls that the model read as unknown."""
    repeated: int = 0
    """Calls that were made again, because that was safe."""
    recovery: list[float] = field(default_factory=list[float])
    """Seconds from each kill until its run went on."""
    faults: list[str] = field(default_factory=list[str])
    """What must not be."""

    def __str__(self) -> str:
        slow = sorted(self.recovery)
        middle = slow[len(slow) // 2] if slow else 0.0
        lines = [
            f"{self.runs} runs of {STEPS} calls in {self.seconds:.0f} s, {self.kills} workers killed",
            "killed at: " + ", ".join(f"{phase} {self.phases[phase]}" for phase in PHASES),
            f"outcome unknown, and the model was told: {self.unknown} calls",
            f"repeated because that is safe: {self.repeated} calls",
            f"from a kill until its run went on: median {middle:.1f} s, longest {max(slow, default=0):.1f} s",
            f"lost, repeated wrongly, unreported or unfinished: {len(self.faults)}",
        ]
        return "\n".join([*lines, *self.faults])


async def crash(
    store: str, folder: Path, *, runs: int, workers: int, deadline: float, remote: bool
) -> Report:
    """Run the kill test; the deadline is for all of it."""
    began = time.monotonic()
    async with asyncio.timeout(deadline):
        with ExitStack() as stack:
            stack.enter_context(_server(folder))
            while not (folder / "port").exists():  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.05)
            opened = Runs(settings(store))
            for run in range(runs):
                await opened.start(str(run), key=f"run-{run}")
            pool = _Pool(workers, store, folder, remote)
            stack.callback(pool.close)
            while True:
                pool.replace_dead()
                ended = [one for one in await opened.recent(ended=True, limit=runs) if not one.is_open]
                if len(ended) == runs:
                    break
                await asyncio.sleep(0.2)
            await opened.close()
    return _report(folder, ended, time.monotonic() - began)


class _Pool:
    """The workers; one that was killed is replaced, as a supervisor does."""

    def __init__(self, workers: int, store: str, folder: Path, remote: bool) -> None:
        self._words = ["-m", "tests.durable.crash.worker", store, str(folder), "remote" if remote else ""]
        self._logs = (folder / f"worker-{number}.txt" for number in count())
        self._workers = [self._start() for _ in range(workers)]

    def _start(self) -> warm.Running:
        return warm.start("python", self._words, ROOT, os.environ, next(self._logs))

    def replace_dead(self) -> None:
        """Start a worker for each one that has ended."""
        for at, worker in enumerate(self._workers):
            if (code := worker.poll()) is not None:
                assert code == -signal.SIGKILL, f"a worker ended with {code}"
                self._workers[at] = self._start()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(PATIENCE)


@contextmanager
def _server(folder: Path) -> Generator[None]:
    words = ["-m", "tests.durable.crash.server", str(folder)]
    process = warm.start("python", words, ROOT, os.environ, folder / "server.txt")
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _report(folder: Path, ended: list[RunInfo], seconds: float) -> Report:
    happened = [line.split() for line in (folder / "happened").read_text().splitlines()]
    effects = Counter((int(run), int(step)) for _, what, run, step, *_ in happened if what == "effect")
    report = Report(runs=len(ended), seconds=seconds)
    deaths = [line for line in happened if line[1] == "kill"]
    killed = {int(run): (int(step), phase) for _, _, run, step, phase, _ in deaths}
    kills = {int(run): float(at) for at, _, run, *_ in deaths}
    report.phases = Counter(phase for _, phase in killed.values())
    for info in ended:
        run = int(info.prompt)
        if info.status != "done" or info.output is None:
            report.faults.append(f"{info.id} is {info.status}: {info.error}")
            continue
        results: list[str] = json.loads(info.output)
        if len(results) != STEPS:
            report.faults.append(f"{info.id} has {len(results)} results")
        for step, result in enumerate(results):
            _check_call(report, (run, step), result, effects[run, step], killed.get(run))
    # Not the lines: a worker may be killed for another run just before it writes down its own death.
    report.kills = len(list(folder.glob("killed-*")))
    for run, killed in kills.items():
        later = [
            float(at)
            for at, what, of, *_ in happened
            if what != "kill" and of == str(run) and float(at) > killed
        ]
        report.recovery += [min(later) - killed] if later else []
    if report.kills != report.runs:
        report.faults.append(f"{report.kills} workers were killed for {report.runs} runs")
    return report


def _check_call(
    report: Report, call: tuple[int, int], result: str, effects: int, killed: tuple[int, str] | None
) -> None:
    """What must hold for each call; `killed` is the step and phase at which the run killed its worker."""
    run, step = call
    tool = tool_of(step)
    label = f"run-{run} step {step} ({tool}, killed at {killed}): {effects} effects, result {result!r:.60}"
    is_unknown = "outcome unknown" in result
    report.unknown += is_unknown
    report.repeated += max(effects - 1, 0)
    if not is_unknown and (result != f"ok {step}" or effects == 0):
        report.faults.append(f"lost: {label}")
    if tool == "write" and effects > 1:
        report.faults.append(f"repeated: {label}")
    if tool != "write" and is_unknown:
        report.faults.append(f"unknown, although it may be repeated: {label}")
    if tool == "write" and killed in [(step, phase) for phase in PHASES[1:]] and not is_unknown:
        report.faults.append(f"not reported: {label}")
