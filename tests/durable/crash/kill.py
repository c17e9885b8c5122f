"""Workers that are killed at every point of a run, and are replaced."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

from tests import warm
from tests.durable.crash import PHASES, STEPS, tool_of
from tests.durable.crash.fleet import ROOT, effects_server
from tests.durable.crash.report import Line, Report, happened
from tests.durable.crash.worker import settings
from tests.patience import PATIENCE
from toolbus.agent.durable import RunInfo, Runs


async def kill(store: str, folder: Path, *, runs: int, workers: int, remote: bool) -> Report:
    """Kill a worker for each run."""
    began = time.monotonic()
    report = Report(scenario=f"kill, {'Postgres' if '://' in store else 'SQLite'}")
    async with effects_server(folder, "kills"):
        with ExitStack() as stack:
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
    _judge(report, folder, ended)
    report.seconds = time.monotonic() - began
    return report


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


def _judge(report: Report, folder: Path, ended: list[RunInfo]) -> None:
    lines = happened(folder)
    effects = Counter((int(line.run), int(line.more[0])) for line in lines if line.what == "effect")
    deaths = [line for line in lines if line.what == "kill"]
    killed = {int(line.run): (int(line.more[0]), line.more[1]) for line in deaths}
    report.runs = len(ended)
    # Not the lines: a worker may be killed for another run just before it writes down its own death.
    kills = len(list(folder.glob("killed-*")))
    phases = Counter(phase for _, phase in killed.values())
    report.facts["workers killed:"] = f"{kills}, at " + ", ".join(f"{one} {phases[one]}" for one in PHASES)
    for info in ended:
        run = int(info.prompt)
        if info.status != "done" or info.output is None:
            report.failed[info.error_kind] += 1
            report.faults.append(f"{info.id} is {info.status}: {info.error}")
            continue
        report.done += 1
        results: list[str] = json.loads(info.output)
        if len(results) != STEPS:
            report.faults.append(f"{info.id} has {len(results)} results")
        for step, result in enumerate(results):
            _judge_call(report, (run, step), result, effects[run, step], killed.get(run))
    report.moved = sum(info.attempts > 1 for info in ended)
    if silences := _silences(lines, deaths):
        texts = f"median {median(silences):.1f} s, longest {max(silences):.1f} s"
        report.facts["from a kill until its run went on:"] = texts
    report.facts["repeated because that is safe:"] = f"{report.safe} calls"
    if kills != report.runs:
        report.faults.append(f"{kills} workers were killed for {report.runs} runs")


def _silences(lines: list[Line], deaths: list[Line]) -> list[float]:
    """Seconds from each kill until its run went on."""
    found: list[float] = []
    for death in deaths:
        later = [line.at for line in lines if line.what != "kill" and line.run == death.run]
        found += [min(at for at in later if at > death.at) - death.at] if max(later) > death.at else []
    return found


def _judge_call(
    report: Report, call: tuple[int, int], result: str, effects: int, killed: tuple[int, str] | None
) -> None:
    """Check each call; `killed` is the step and phase at which the run killed its worker."""
    run, step = call
    tool = tool_of(step)
    label = f"run-{run} step {step} ({tool}, killed at {killed}): {effects} effects, result {result!r:.60}"
    is_unknown = "outcome unknown" in result
    report.unknown += is_unknown
    if not is_unknown and (result != f"ok {step}" or effects == 0):
        report.lost += 1
        report.faults.append(f"lost: {label}")
    if effects > 1 and tool != "write":
        report.safe += 1
    elif effects > 1:
        report.repeated += 1
        report.faults.append(f"repeated: {label}")
    if tool != "write" and is_unknown:
        report.faults.append(f"unknown, although it may be repeated: {label}")
    if tool == "write" and killed in [(step, phase) for phase in PHASES[1:]] and not is_unknown:
        report.faults.append(f"not reported: {label}")
