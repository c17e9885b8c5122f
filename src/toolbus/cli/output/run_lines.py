"""Durable runs, their steps, questions and events, as lines and as JSON."""

import json
from collections.abc import Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.errors import FAILED
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.agent.durable import DurableEvent, RunInfo, Step
    from toolbus.agent.durable.lease import WorkerRow
    from toolbus.agent.durable.questions import WaitingCall

STYLES = {
    "queued": "dim",
    "running": "cyan",
    "waiting": "yellow",
    "done": "green",
    "failed": "red",
    "cancelled": "dim",
}
_STEPS = {"offer": "tools offered", "model": "model request", "intent": "call"}
"""What steps are called here, if not by the name that the store has."""
_OUTCOMES = {"failed": "red", "refused": "red", "unknown": "yellow", "waits": "yellow", "begun": "cyan"}


def run_json(
    info: "RunInfo", steps: "Sequence[Step] | None" = None, *, has_worker: bool | None = None
) -> dict[str, JSON]:
    """A run for `--json`; `has_worker` if it is known whether a worker takes runs of its agent."""
    question = (
        None
        if info.question is None
        else {
            "id": info.question.id,
            "message": info.question.message,
            "is_approval": info.question.is_approval,
            **json.loads(info.question.pending.to_json())["pending"],
        }
    )
    facts: dict[str, JSON] = {
        "id": info.id,
        "agent": info.agent,
        "version": info.version,
        "status": info.status,
        "prompt": info.prompt,
        "created": info.created,
        "updated": info.updated,
        "worker": info.worker,
        "attempts": info.attempts,
        "question": question,
        "answered": info.answered,
        "held": sorted(info.held),
        "output": info.output,
        "structured": info.structured,
        "error": info.error,
    }
    if has_worker is not None:
        facts["has_worker"] = has_worker
    if steps is not None:
        facts["steps"] = [
            {
                "number": step.number,
                "name": step.name,
                "about": step.about,
                "outcome": step.outcome,
                "at": step.at,
            }
            for step in steps
        ]
    return facts


def worker_json(row: "WorkerRow", workers: "Sequence[WorkerRow]") -> dict[str, JSON]:
    """A worker for `--json`; `workers` are all that live."""
    from toolbus.agent.durable.settings import named

    agents: list[dict[str, JSON]] = []
    for queue, tools in sorted(row.tools.items()):
        agent, _, version = named(queue).partition("@")
        agents.append(
            {
                "agent": agent,
                "version": version or None,
                "tools": _tools(tools),
                "not_in_all": _rare(queue, row, workers),
            }
        )
    return {"id": row.worker, "toolbus": row.version, "agents": agents, "runs": list(row.runs)}


def worker_rows(row: "WorkerRow", workers: "Sequence[WorkerRow]") -> list[list[Text]]:
    """A worker as columns, one line for each agent."""
    from toolbus.agent.durable.settings import named

    lines: list[list[Text]] = []
    for queue, tools in sorted(row.tools.items()):
        rare = ", ".join(_rare(queue, row, workers))
        names = (row.worker, named(queue), row.version, str(len(row.runs)))
        about = Text(str(len(_tools(tools))))
        about.append(visible(f", not on every worker: {rare}") if rare else "", style="yellow")
        lines.append([*(Text(visible(name)) for name in names), about])
    return lines


def _rare(queue: str, row: "WorkerRow", workers: "Sequence[WorkerRow]") -> list[str]:
    """The tools that not all workers of an agent have: during a deploy, those that were added or removed."""
    others = [one.tools[queue] for one in workers if queue in one.tools]
    return [tool for tool in _tools(row.tools[queue]) if not all(tool in other for other in others)]


def _tools(tools: "Set[str]") -> list[str]:
    """Each tool once, by the name that models call; `server/*` if those of a server are not known."""
    return sorted(tool for tool in tools if "/" not in tool or tool.endswith("/*"))


def step_row(step: "Step") -> list[Text]:
    """A step as columns."""
    at = "" if step.at is None else datetime.fromtimestamp(step.at).astimezone().strftime("%H:%M:%S")
    what = f"{_STEPS.get(step.name, step.name)} {step.about}".strip()
    return [
        Text(at, style="dim"),
        Text(visible(what)),
        Text(step.outcome, style=_OUTCOMES.get(step.outcome, "dim")),
    ]


def question_lines(asked: "WaitingCall") -> list[str]:
    """What a run waits for."""
    pending = asked.pending
    who = "toolbus asks" if asked.is_approval else f"server {pending.server!r} asks"
    return [
        f"waits for an answer to {asked.id}: {who} about {pending.server}/{pending.tool}",
        f"  {asked.message}",
    ]


def event_line(event: "DurableEvent") -> Text:
    """An event as one line, texts whole."""
    from toolbus.agent.durable import QuestionAnswered, QuestionAsked
    from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned

    match event:
        case TextDelta():
            return Text(visible(event.text))
        case ThinkingDelta():
            return Text(visible(event.text), style="dim")
        case ToolCalled():
            return Text(visible(f"> {event.name} {json.dumps(dict(event.arguments))}"), style="cyan")
        case ToolReturned():
            style = "red" if event.is_error else "dim"
            return Text(visible(f"< {event.name}: {one_line(event.text)}"), style=style)
        case QuestionAsked():
            return Text(visible(f"? {event.id}: {event.message}"), style="yellow")
        case QuestionAnswered():
            return Text(visible(f"  {event.id} answered: {event.action}"), style="dim")


def print_end(screen: Screen, info: "RunInfo") -> int:
    """Print why a run ended without an output, if it did; return the exit code."""
    if info.status == "done":
        return 0
    if not screen.as_json:
        how = "was cancelled" if info.status == "cancelled" else f"failed: {info.error}"
        screen.note(f"run {info.id!r} {how}")
    return FAILED
