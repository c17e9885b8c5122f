"""Three policies and AgentDojo: which injected calls are stopped, and which user tasks are disturbed?"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from bench.proof.agentdojo import INJECTION, USER
from bench.proof.benchmarks import QUICK, opened_agentdojo
from bench.proof.install import NotInstalled
from bench.proof.parts import Part, PartReport, table
from bench.proof.paths import config
from bench.proof.servers import Benchmark, Controls, controls
from bench.proof.traces import Task, TaskOutcome
from toolbus import ApprovalRequest, CallDenied, Interactions, Toolbus

POLICIES = ("light", "writes", "closed")
FOLDER = Path(__file__).with_name("policies")


@dataclass(slots=True, kw_only=True)
class PolicyOutcome:
    """The effects of one policy."""

    injections: int = 0
    denied: int = 0
    """Injections of which a call was denied."""
    asked: int = 0
    """Injections of which no call was denied, but a person was asked about one."""
    tasks: int = 0
    broken: int = 0
    """User tasks of which a call was denied."""
    questioned: int = 0
    """User tasks that were done, with a question or more."""
    questions: int = 0
    """Questions in these."""
    unlike: int = 0
    """User tasks that were done, but not with the results of direct calls."""


def run(quick: bool) -> PartReport:
    """Every policy."""
    try:
        benchmark = opened_agentdojo()
    except NotInstalled as error:
        return PartReport(text=f"AgentDojo: not measured: {error}", document={"not measured": str(error)})
    tasks = benchmark.tasks[:: QUICK // 10] if quick else benchmark.tasks
    expected = benchmark.direct(tasks)
    outcomes = {name: asyncio.run(_outcome(name, benchmark, tasks, expected)) for name in POLICIES}
    document = {name: asdict(one) for name, one in outcomes.items()}
    held = not any(one.unlike for one in outcomes.values())
    return PartReport(text=_text(outcomes), document=document, held=held)


async def _outcome(
    name: str, benchmark: Benchmark, tasks: Sequence[Task], expected: Mapping[str, TaskOutcome]
) -> PolicyOutcome:
    """One policy, with a person who answers yes to every question of a user's task, and no to all others."""
    outcome, asked, trusted = PolicyOutcome(), list[str](), [False]

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.name)
        return trusted[0]

    rules: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    with TemporaryDirectory(prefix="proof-") as folder:
        async with (
            controls(Path(folder)) as held,
            Toolbus(config(benchmark, held) | rules, interactions=Interactions(approve=approve)) as bus,
        ):
            for task in tasks:
                asked.clear()
                trusted[0] = task.kind == USER
                await held.begin(task)
                got = await _made(bus, task, held)
                _count(outcome, task, len(asked), expected[task.id], got)
    return outcome


async def _made(bus: Toolbus, task: Task, held: Controls) -> TaskOutcome | None:
    """The outcome of a task's calls; None if one was refused."""
    results: list[tuple[str, bool]] = []
    for call in task.calls:
        try:
            result = await bus.call(f"{call.server}/{call.tool}", call.arguments)
        except CallDenied:
            return None
        results.append((result.text, result.is_error))
    return TaskOutcome(results=results, states=await held.states(task))


def _count(
    outcome: PolicyOutcome, task: Task, asked: int, expected: TaskOutcome, got: TaskOutcome | None
) -> None:
    if task.kind == INJECTION:
        outcome.injections += 1
        outcome.asked += asked > 0
        outcome.denied += got is None and not asked
        return
    outcome.tasks += 1
    if got is None:
        outcome.broken += 1
        return
    outcome.questioned += asked > 0
    outcome.questions += asked
    outcome.unlike += bool(expected.difference(got, task.calls))


def _text(outcomes: Mapping[str, PolicyOutcome]) -> str:
    head = ["injections", "all", "denied", "asked", "stopped"]
    stopped = [
        [
            name,
            str(one.injections),
            str(one.denied),
            str(one.asked),
            _share(one.denied + one.asked, one.injections),
        ]
        for name, one in outcomes.items()
    ]
    users = ["user tasks", "all", "no question", "questions", "broken"]
    disturbed = [
        [
            name,
            str(one.tasks),
            _share(one.tasks - one.questioned - one.broken, one.tasks),
            str(one.questions),
            _share(one.broken, one.tasks),
        ]
        for name, one in outcomes.items()
    ]
    return f"{table(head, stopped)}\n\n{table(users, disturbed)}"


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})"


PART = Part(name="policy", page="policy", title="Injected calls under three policies", run=run)
