"""Durable runs, their steps, questions and events, as lines and as JSON, and commands about them."""

import json
import shlex
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING

from toolbus.cli.output.screen import Cell, Screen, one_line, picked, styled, visible
from toolbus.core.text.display import without_passwords
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.agent.durable import DurableEvent, RunInfo, Step
    from toolbus.agent.durable.lease import WorkerRow
    from toolbus.agent.durable.questions import WaitingCall
    from toolbus.core.values.elicitation import Answer

STYLES = {
    "queued": "dim",
    "running": "cyan",
    "waiting": "yellow",
    "done": "green",
    "failed": "red",
    "cancelled": "dim",
}
_STEPS = {"offer": "tools offered", "model": "model request", "intent": "call"}
"""The names of steps here, where the store's names differ."""
_OUTCOMES = {"failed": "red", "refused": "red", "unknown": "yellow", "waits": "yellow", "begun": "cyan"}


def run_json(
    info: "RunInfo", steps: "Sequence[Step] | None" = None, *, has_worker: bool | None = None
) -> dict[str, JSON]:
    """A run for `--json`; `has_worker` if it is known whether a worker takes runs of its agent."""
    question = (
        None
        if info.question is None
        else {
            **picked(info.question, "id message is_approval"),
            **json.loads(info.question.pending.to_json())["pending"],
        }
    )
    facts: dict[str, JSON] = {
        **picked(info, "id agent version status prompt created updated worker attempts"),
        "question": question,
        "answered": info.answered,
        "held": sorted(info.held),
        **picked(info, "output structured error"),
    }
    if has_worker is not None:
        facts["has_worker"] = has_worker
    if steps is not None:
        facts["steps"] = [picked(step, "number name about outcome at") for step in steps]
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


def worker_rows(row: "WorkerRow", workers: "Sequence[WorkerRow]") -> list[list[Cell]]:
    """A worker as columns, one line for each agent."""
    from toolbus.agent.durable.settings import named

    lines: list[list[Cell]] = []
    for queue, tools in sorted(row.tools.items()):
        rare = ", ".join(_rare(queue, row, workers))
        names = (row.worker, named(queue), row.version, str(len(row.runs)))
        missing = visible(f", not on every worker: {rare}") if rare else ""
        lines.append([*map(visible, names), styled(str(len(_tools(tools))), (missing, "yellow"))])
    return lines


def _rare(queue: str, row: "WorkerRow", workers: "Sequence[WorkerRow]") -> list[str]:
    """The tools that not all workers of an agent have: during a deploy, those that were added or removed."""
    others = [one.tools[queue] for one in workers if queue in one.tools]
    return [tool for tool in _tools(row.tools[queue]) if not all(tool in other for other in others)]


def _tools(tools: "Set[str]") -> list[str]:
    """Each tool once, by the name that models call; `server/*` if a server's tools are not known."""
    return sorted(tool for tool in tools if "/" not in tool or tool.endswith("/*"))


def step_row(step: "Step") -> list[Cell]:
    """A step as columns."""
    at = "" if step.at is None else datetime.fromtimestamp(step.at).astimezone().strftime("%H:%M:%S")
    what = f"{_STEPS.get(step.name, step.name)} {step.about}".strip()
    return [(at, "dim"), visible(what), (step.outcome, _OUTCOMES.get(step.outcome, "dim"))]


def question_lines(asked: "WaitingCall") -> list[str]:
    """The question that a run waits for."""
    pending = asked.pending
    who = "toolbus asks" if asked.is_approval else f"server {pending.server!r} asks"
    return [
        f"waits for an answer to {asked.id}: {who} about {pending.server}/{pending.tool}",
        f"  {asked.message}",
    ]


def event_line(event: "DurableEvent") -> tuple[str, str]:
    """An event as one line and its style, texts whole."""
    from toolbus.agent.durable import QuestionAnswered, QuestionAsked
    from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned

    match event:
        case TextDelta():
            return visible(event.text), ""
        case ThinkingDelta():
            return visible(event.text), "dim"
        case ToolCalled():
            return visible(f"> {event.name} {json.dumps(dict(event.arguments))}"), "cyan"
        case ToolReturned():
            style = "red" if event.is_error else "dim"
            return visible(f"< {event.name}: {one_line(event.text)}"), style
        case QuestionAsked():
            return visible(f"? {event.id}: {event.message}"), "yellow"
        case QuestionAnswered():
            return visible(f"  {event.id} answered: {event.action}"), "dim"


def note_end(screen: Screen, info: "RunInfo") -> None:
    """Print why a run ended without an output, if it did."""
    if info.status != "done":
        how = "was cancelled" if info.status == "cancelled" else f"failed: {info.error}"
        screen.note(f"run {info.id!r} {how}")


# The commands that a message suggests, whole: to be copied and run


class Hints:
    """Commands with the `--store` that the user has given, without its password."""

    def __init__(self, store: str | None) -> None:
        self._store = [] if store is None else ["--store", without_passwords(store)]

    def runs(self, *words: str) -> str:
        """A command of `toolbus runs`."""
        return self._command("runs", *words)

    def answer(self, run: str, asked: "WaitingCall") -> str:
        """The way to answer a question, as a sentence."""
        command = self.runs("resume", run, "--question", asked.id, *_blank_answer(asked))
        if asked.is_approval:
            return f"to refuse the call, answer=no; to allow it, run: {command}"
        return f"to answer, run: {command}"

    def no_worker(self, agent: str, version: str | None, pinned: Sequence[str] = ()) -> str:
        """That nobody executes the runs of an agent, or of its version, and what to do.

        `pinned` are the versions that have workers.
        """
        options = [] if agent == "agent" else ["--agent", agent]
        if version is not None:
            options += ["--version", version]
        which = repr(agent) if version is None else f"{agent!r} of version {version!r}"
        others = f"its workers take only runs of version {' and '.join(pinned)}; " if pinned else ""
        return (
            f"no worker takes runs of {which} now; {others}start one: toolbus runs worker MODULE:NAME, or, "
            f"with the servers of your config, {self.runs('worker', *options)}"
        )

    def _command(self, *words: str) -> str:
        return shlex.join(["toolbus", *words, *self._store])


def answer_text(answers: "Mapping[str, Answer]", *, is_approval: bool) -> str:
    """The answer, in a few words."""
    said: list[str] = []
    for answer in answers.values():
        content = answer.content or {}
        if answer.action != "accept" or not content:
            said.append(answer.action)
        elif is_approval:
            said.append(str(content.get("answer")))
        else:
            said += [f"{name}={value}" for name, value in content.items()]
    return " ".join(said)


def _blank_answer(asked: "WaitingCall") -> list[str]:
    """The words of an answer, to be filled in; none if only a terminal can ask."""
    questions = list(asked.pending.questions.values())
    if len(questions) != 1:
        return []
    fields = () if questions[0].url is not None else questions[0].form.fields
    if asked.is_approval:
        return [f"{field.name}={next(iter(field.choices))}" for field in fields]  # the first one allows it
    return [f"{field.name}=..." for field in fields if field.required] or ["--accept"]
