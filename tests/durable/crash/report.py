"""The outcome of a crash test, and the requirements for every run and every call."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.durable.crash.fleet import Fleet
from tests.durable.crash.plans import PLANS, SAFE, kind_of
from toolbus.agent.durable import RunInfo

COLUMNS = ("scenario", "runs", "done", "failed", "moved", "unknown", "no tool", "repeated", "lost", "seconds")
_SHOWN = 10


@dataclass(kw_only=True)
class Report:
    """The outcome of one scenario."""

    scenario: str
    seconds: float = 0
    runs: int = 0
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])
    """Runs that failed, by the kind of their error; those that never ended are `open`."""
    moved: int = 0
    """Runs that more than one worker executed."""
    unknown: int = 0
    """Calls whose outcome was unknown, and the model was told."""
    no_tool: int = 0
    """Calls that the model was told no tool for."""
    safe: int = 0
    """Calls that were repeated because that is safe."""
    repeated: int = 0
    """Effects that must not be repeated, and were."""
    lost: int = 0
    """Runs and calls that are gone."""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[str] = field(default_factory=list[str])
    """Violations of the requirements."""

    @property
    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        failed = ", ".join(f"{kind} {number}" for kind, number in self.failed.items()) or "0"
        numbers = (self.moved, self.unknown, self.no_tool, self.repeated, self.lost)
        return (
            self.scenario,
            str(self.runs),
            str(self.done),
            failed,
            *map(str, numbers),
            f"{self.seconds:.0f}",
        )

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**vars(self), "seconds": round(self.seconds, 1), "failed": dict(self.failed)}


def table(reports: Sequence[Report]) -> str:
    """All reports, a line each; then other facts, and the faults."""
    rows = [COLUMNS, *(report.row for report in reports)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    for report in reports:
        lines += [f"{report.scenario}: {name} {text}" for name, text in report.facts.items()]
    for report in reports:
        lines += [f"WRONG {report.scenario}: {fault}" for fault in report.faults[:_SHOWN]]
        if (more := len(report.faults) - _SHOWN) > 0:
            lines.append(f"WRONG {report.scenario}: and {more} more; --json has all of them")
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Something that happened."""

    at: float
    what: str
    run: str
    more: tuple[str, ...]


def happened(folder: Path) -> list[Line]:
    """All that was noted, in its order."""
    lines = [line.split() for line in (folder / "happened").read_text().splitlines()]
    return [Line(at=float(at), what=what, run=run, more=tuple(more)) for at, what, run, *more in lines]


class Judge:
    """Looks at all runs and effects after a scenario."""

    def __init__(self, fleet: Fleet, report: Report, infos: Iterable[RunInfo]) -> None:
        self.lines = happened(fleet.folder)
        self._infos = {info.id: info for info in infos}
        self._fleet = fleet
        self._report = report
        self._margin = 3 * float(fleet.settings["beat"])
        """Seconds until all workers know what another one has."""
        self.is_slow = False
        """Whether a worker lost its runs because this machine is busy; it may have got them back."""
        self._workers: dict[str, set[str]] = {}
        """The processes that executed each run."""
        self._effects: dict[tuple[str, int], list[str]] = {}
        for line in self.lines:
            if line.what == "model":
                self._workers.setdefault(line.run, set()).add(line.more[2])
            elif line.what == "effect":
                self._effects.setdefault((line.run, int(line.more[0])), []).append(line.more[2])

    def judge(self) -> None:
        """Fill the report."""
        report = self._report
        report.runs = len(self._infos)
        recorded = {line.run for line in self.lines if line.what == "started"}
        for run in sorted(recorded - self._infos.keys()):
            report.lost += 1
            report.faults.append(f"{run} was started, and is gone")
        report.moved = sum(len(pids) > 1 for pids in self._workers.values())
        if slow := sum("was declared dead" in one.log.read_text() for one in self._fleet.members):
            report.facts["workers that were declared dead, and joined again:"] = str(slow)
            self.is_slow = True
        for info in self._infos.values():
            self._judge_run(info)

    def _judge_run(self, info: RunInfo) -> None:
        report, plan = self._report, PLANS[info.prompt.split()[0]]
        for step, tool in enumerate(plan):
            effects = len(self._effects.get((info.id, step), ()))
            if effects > 1 and tool in SAFE:
                report.safe += 1
            elif effects > 1:
                report.repeated += 1
                report.faults.append(f"{info.id} step {step}: {tool} had {effects} effects")
        if info.status == "done":
            report.done += 1
            results: list[str] = json.loads(info.output or "[]")
            if len(results) != len(plan):
                report.lost += 1
                report.faults.append(f"{info.id} has {len(results)} results")
            for step, (tool, result) in enumerate(zip(plan, results, strict=False)):
                self._judge_call(info.id, step, tool, result)
            return
        kind = "open" if info.is_open else info.error_kind or info.status
        report.failed[kind] += 1
        if kind != "RunDiverged":
            report.faults.append(f"{info.id} is {info.status}: {info.error}")
        elif self._fleet.has(self._called(info.id, plan), info.updated, self._margin):
            report.faults.append(f"{info.id} ended with RunDiverged, although a worker had its tools")

    def _judge_call(self, run: str, step: int, tool: str, result: str) -> None:
        report, effects = self._report, self._effects.get((run, step), [])
        label = f"{run} step {step} ({tool}): {len(effects)} effects, result {result!r:.90}"
        match kind_of(result):
            case "ok":
                if result.split()[-1] not in effects:
                    report.lost += 1
                    report.faults.append(f"lost: {label}")
            case "unknown-outcome":
                report.unknown += 1
                if tool in SAFE:
                    report.faults.append(f"unknown, although it may be repeated: {label}")
                if len(self._workers[run]) == 1 and not self.is_slow:
                    report.faults.append(f"unknown, although its worker kept the run: {label}")
            case "unknown-tool":
                report.no_tool += 1
                if effects:
                    report.faults.append(f"told that there is no such tool: {label}")
                if self._fleet.has({tool}, self._told(run, step), self._margin):
                    report.faults.append(f"no tool, although a worker had it: {label}")
            case "odd":
                report.lost += 1
                report.faults.append(f"odd: {label}")

    def _told(self, run: str, step: int) -> float:
        """The time when the model was first told the outcome of a call."""
        return min(
            line.at
            for line in self.lines
            if line.what == "model" and line.run == run and int(line.more[0]) == step + 1
        )

    def _called(self, run: str, plan: Sequence[str]) -> set[str]:
        """The tools that a run has called."""
        steps = (int(line.more[0]) for line in self.lines if line.what == "model" and line.run == run)
        return set(plan[: max(steps) + 1])
