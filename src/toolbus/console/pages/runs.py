"""The durable runs of a store: what they do, what they wait for, and how they ended."""

from collections.abc import Sequence
from urllib.parse import quote

from toolbus.console.html.elements import Child, Element, element, live
from toolbus.console.html.field_widgets import field_widget
from toolbus.console.html.fields import arguments_of, fields_of_form
from toolbus.console.html.results import as_json
from toolbus.console.html.widgets import Tone, anchor, badge, button, facts, moment, table
from toolbus.console.page import Notice, Page, PageRequest
from toolbus.console.state.console import Console
from toolbus.console.state.runs import ConsoleRuns, RunFacts, RunQuestion, RunStep
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.errors import ToolbusError

_MOST = 100
"""The newest runs that are shown."""
_TONES: dict[str, Tone] = {"running": "busy", "waiting": "busy", "done": "good", "failed": "bad"}
_OUTCOMES: dict[str, Tone] = {
    "failed": "bad",
    "refused": "bad",
    "unknown": "bad",
    "waits": "busy",
    "begun": "busy",
}


class NoRuns(ToolbusError):
    """The console has no store of runs."""


async def render(console: Console, request: PageRequest) -> Element:
    """All runs, or one of them."""
    try:
        runs = _runs(console)
        if (run := request.query.get("run")) != "":
            info, steps = await runs.get(run), await runs.steps(run)
            return element("div", live("run", _details(info, steps)))
        found = await runs.recent(ended=True, limit=_MOST)
    except ToolbusError as error:
        return element("div", live("runs", element("p", str(error), class_="problem")))
    empty = element("p", "There are no runs.", class_="empty")
    waiting = [_card(info, info.question) for info in found if info.question is not None]
    return element(
        "div", live("waiting", waiting, class_="cards"), live("runs", _table(found) if found else empty)
    )


# Actions


async def answer(console: Console, request: PageRequest) -> str:
    """Answer what a run waits for."""
    runs, run, asked = _runs(console), request.form.get("run"), request.form.get("question")
    question = (await runs.get(run)).question
    if question is None or question.id != asked:
        request.notice = Notice(text="That question does not wait any more.", kind="failed")
        return _place(run)
    try:
        replies = {key: _reply(one, request) for key, one in question.pending.questions.items()}
        await runs.answer(run, replies, question=asked)
    except ValueError as error:
        request.notice = Notice(text=str(error), kind="failed")
        return _place(run)
    request.notice = Notice(text="Answered.")
    return "runs"


async def cancel(console: Console, request: PageRequest) -> str:
    """Cancel a run."""
    await _runs(console).cancel(run := request.form.get("run"))
    request.notice = Notice(text=f"Cancelled {run}.")
    return _place(run)


async def retry(console: Console, request: PageRequest) -> str:
    """Continue a run that failed or was cancelled."""
    await _runs(console).retry(run := request.form.get("run"))
    request.notice = Notice(text=f"{run} continues where it ended.")
    return _place(run)


async def accept(console: Console, request: PageRequest) -> str:
    """Let a run use the tools that changed."""
    tools = await _runs(console).accept_changes(run := request.form.get("run"))
    request.notice = Notice(text=f"Accepted {', '.join(tools)}." if tools else "Nothing is held any more.")
    return _place(run)


def _reply(question: Elicitation, request: PageRequest) -> Answer:
    match request.form.get("answer"):
        case "accept" if question.url is not None:
            return question.accept()
        case "accept":
            return question.accept(arguments_of(fields_of_form(question.form), request.form.lists))
        case "decline":
            return question.decline()
        case _:
            return question.cancel()


def _runs(console: Console) -> ConsoleRuns:
    if console.runs is None:
        raise NoRuns("this console has no store of runs; start it with $TOOLBUS_RUNS")
    return console.runs


def _place(run: str) -> str:
    return f"runs?run={quote(run, safe='')}"


# What is shown


def _table(found: Sequence[RunFacts]) -> Element:
    rows: list[list[Child]] = [
        [
            element("a", info.id, href=_place(info.id)),
            badge(info.status, _TONES.get(info.status, "quiet")),
            info.agent,
            (info.error or info.output or info.prompt)[:200],
            moment(info.updated),
        ]
        for info in found
    ]
    return table("Runs", ("Run", "Status", "Agent", "About", "Updated"), rows)


def _details(info: RunFacts, steps: Sequence[RunStep]) -> list[Child]:
    rows: list[list[Child]] = [
        [
            f"{step.name} {step.about}".strip(),
            badge(step.outcome, _OUTCOMES.get(step.outcome, "quiet")),
            "" if step.at is None else moment(step.at),
        ]
        for step in steps
    ]
    return [
        element("p", element("a", "All runs", href="runs")),
        element("h2", info.id),
        facts(
            {
                "status": badge(info.status, _TONES.get(info.status, "quiet")),
                "agent": info.agent,
                "prompt": info.prompt,
                "started": moment(info.created),
                "worker": info.worker,
                "workers so far": str(info.attempts),
            }
        ),
        info.question is not None and _card(info, info.question),
        bool(info.held) and _held(info),
        info.output is not None and element("pre", info.output, tabindex=0, aria_label="output"),
        info.error is not None and element("p", info.error, class_="problem"),
        table("Steps", ("Step", "Outcome", "At"), rows),
        button("Cancel", "runs/cancel", {"run": info.id}, hint=f"Cancel {info.id}") if info.is_open else None,
        info.status in ("failed", "cancelled")
        and button("Continue", "runs/retry", {"run": info.id}, hint=f"Continue {info.id}"),
    ]


def _held(info: RunFacts) -> Element:
    return element(
        "div",
        element("p", f"Changed since the run began, and held: {', '.join(sorted(info.held))}"),
        button(
            "Accept the changes", "runs/accept", {"run": info.id}, hint=f"Accept the changes for {info.id}"
        ),
        class_="problem",
    )


def _card(info: RunFacts, question: RunQuestion) -> Element:
    pending, place = question.pending, anchor("question", f"{info.id} {question.id}")
    title = f"{info.id}: allow a call?" if question.is_approval else f"{info.id}: {pending.server} asks"
    fields: list[Child] = []
    buttons = [("accept", "Send"), ("decline", "Decline")]
    for one in pending.questions.values():
        fields.append(element("p", one.message, class_="description"))
        if one.fault is not None:
            fields.append(element("p", one.fault, class_="problem"))
            buttons = buttons[1:]
        elif one.url is not None:
            fields.append(element("p", "The server wants you to visit ", element("code", one.url)))
        else:
            fields += [field_widget(field, None, place) for field in fields_of_form(one.form)]
    return live(
        place,
        element("h2", title, id=f"{place}-title"),
        facts(
            {
                "server": pending.server,
                "tool": pending.tool,
                "agent": info.agent,
                "since": moment(info.updated),
            }
        ),
        element("pre", as_json(dict(pending.arguments)), tabindex=0, aria_label="arguments"),
        element(
            "form",
            element("input", type="hidden", name="run", value=info.id),
            element("input", type="hidden", name="question", value=question.id),
            fields,
            element("div", [_button(*one) for one in buttons], class_="actions"),
            method="post",
            action="runs/answer",
            class_="stacked",
        ),
        tag="article",
        class_="card",
        aria_labelledby=f"{place}-title",
    )


def _button(value: str, label: str) -> Element:
    return element(
        "button",
        label,
        type="submit",
        name="answer",
        value=value,
        class_="main" if value == "accept" else None,
        formnovalidate=value == "decline",
    )


PAGE = Page(
    path="runs",
    title="Runs",
    render=render,
    every=2.0,
    actions={"answer": answer, "cancel": cancel, "retry": retry, "accept": accept},
    is_there=lambda console: console.runs is not None,
)
