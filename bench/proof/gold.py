"""The gold calls on every path: are results and final states those of direct calls?"""

import asyncio
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict

from bench.proof.benchmarks import BENCHMARKS, QUICK
from bench.proof.install import NotInstalled
from bench.proof.parts import Part, PartReport, table
from bench.proof.paths import PATHS, replay
from bench.proof.servers import Benchmark
from bench.proof.traces import PathOutcome, Task, TaskOutcome

SHOWN = 3
"""Differences of a path that are printed."""
TOGETHER = 2
"""Paths that are measured at the same time."""


def run(quick: bool) -> PartReport:
    """Every benchmark that is here, on every path."""
    outcomes: dict[str, dict[str, PathOutcome]] = {}
    missing: dict[str, str] = {}
    for name, opened in BENCHMARKS.items():
        try:
            benchmark = opened()
        except NotInstalled as error:
            missing[name] = str(error)
        else:
            outcomes[benchmark.name] = _paths(benchmark, quick)
    document = {name: {path: asdict(one) for path, one in paths.items()} for name, paths in outcomes.items()}
    everything = [one for paths in outcomes.values() for one in paths.values()]
    return PartReport(
        text=_text(outcomes, missing),
        document={"benchmarks": document, "not measured": missing},
        held=not any(one.different for one in everything),
    )


def _paths(benchmark: Benchmark, quick: bool) -> dict[str, PathOutcome]:
    tasks = benchmark.tasks[::QUICK] if quick else benchmark.tasks
    expected = benchmark.direct(tasks)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(TOGETHER, mp_context=fresh) as pool:
        jobs: dict[str, Future[PathOutcome]] = {
            path: pool.submit(_replayed, path, benchmark, tasks, expected) for path in PATHS
        }
        return {path: job.result() for path, job in jobs.items()}


def _replayed(
    path: str, benchmark: Benchmark, tasks: Sequence[Task], expected: Mapping[str, TaskOutcome]
) -> PathOutcome:
    return asyncio.run(replay(path, benchmark, tasks, expected))


def _text(outcomes: Mapping[str, Mapping[str, PathOutcome]], missing: Mapping[str, str]) -> str:
    parts: list[str] = []
    for name, paths in outcomes.items():
        rows = [[path, *(f"{count:,}" for count in _counts(one))] for path, one in paths.items()]
        parts.append(table([name, "tasks", "gold calls", "equal", "refused", "different"], rows))
        parts += [
            f"{path}, {task}: {difference}"
            for path, one in paths.items()
            for task, difference in list(one.different.items())[:SHOWN]
        ]
    parts += [f"{name}: not measured: {reason}" for name, reason in missing.items()]
    return "\n".join(parts)


def _counts(one: PathOutcome) -> tuple[int, ...]:
    return one.tasks, one.calls, one.equal, one.refused, len(one.different)


PART = Part(name="gold-calls", page="gold-calls", title="Gold calls on every path", run=run)
