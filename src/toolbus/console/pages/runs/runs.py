"""The durable runs of a store: what they do, what they wait for, and how they ended."""

from collections.abc import Sequence
from urllib.parse import quote

from toolbus.console.console import Console, ConsoleRuns, RunFacts, RunQuestion, RunStep
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.inbox.questions import answer_form, card, question_fields, reply_to
from toolbus.console.widgets import Tone, anchor, as_json, badge, button, facts, moment, table
from toolbus.core.values.errors import ToolbusError

_MOST = 100
"""The newest runs that are shown."""
_TONES: dict[str, Tone] = {
    **dict.fromkeys(("running", "waiting", "waits", "begun"), "busy"),
    **dict.fromkeys(("failed", "refused", "unknown"), "bad"),
    "done": "good",
}
"""The colors of the states of runs and of the outcomes of steps."""


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
    runs, run, asked = _runs(console), request.form.get("run"), request.form.get("question")
    question = (await runs.get(run)).question
    if question is None or question.id != asked:
        return request.fail("That question does not wait any more.", _place(run))
    try:
        replies = {key: reply_to(one, request) for key, one in question.pending.questions.items()}
        await runs.answer(run, replies, question=asked)
    except ValueError as error:
        return request.fail(str(error), _place(run))
    return request.say("Answered.", "runs")


async def cancel(console: Console, request: PageRequest) -> str:
    await _runs(console).cancel(run := request.form.get("run"))
    return request.say(f"Cancelled {run}.", _place(run))


async def retry(console: Console, request: PageRequest) -> str:
    """Continue a run that failed or was cancelled."""
    await _runs(console).retry(run := request.form.get("run"))
    return request.say(f"{run} continues where it ended.", _place(run))


async def accept(console: Console, request: PageRequest) -> str:
    """Let a run use the tools that changed."""
    tools = await _runs(console).accept_changes(run := request.form.get("run"))
    return request.say(f"Accepted {', '.join(tools)}." if tools else "Nothing is held any more.", _place(run))


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
            _badge(info.status),
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
            _badge(step.outcome),
            "" if step.at is None else moment(step.at),
        ]
        for step in steps
    ]
    return [
        element("p", element("a", "All runs", href="runs")),
        element("h2", info.id),
        facts(
            {
                "status": _badge(info.status),
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
        info.is_open and _button("Cancel", "cancel", info),
        info.status in ("failed", "cancelled") and _button("Continue", "retry", info),
    ]


def _badge(word: str) -> Element:
    return badge(word, _TONES.get(word, "quiet"))


def _button(label: str, action: str, info: RunFacts, hint: str = "") -> Element:
    return button(label, f"runs/{action}", {"run": info.id}, hint=hint or f"{label} {info.id}")


def _held(info: RunFacts) -> Element:
    return element(
        "div",
        element("p", f"Changed since the run began, and held: {', '.join(sorted(info.held))}"),
        _button("Accept the changes", "accept", info, f"Accept the changes for {info.id}"),
        class_="problem",
    )


def _card(info: RunFacts, question: RunQuestion) -> Element:
    pending, place = question.pending, anchor("question", f"{info.id} {question.id}")
    title = f"{info.id}: allow a call?" if question.is_approval else f"{info.id}: {pending.server} asks"
    questions = pending.questions.values()
    fields: list[Child] = [
        [element("p", one.message, class_="description"), question_fields(one, None, place)]
        for one in questions
    ]
    buttons = [("accept", "Send"), ("decline", "Decline")]
    known = {"server": pending.server, "tool": pending.tool, "agent": info.agent}
    return card(
        place,
        title,
        facts({**known, "since": moment(info.updated)}),
        element("pre", as_json(dict(pending.arguments)), tabindex=0, aria_label="arguments"),
        answer_form(
            "runs/answer",
            {"run": info.id, "question": question.id},
            fields,
            buttons[1:] if any(one.fault is not None for one in questions) else buttons,
        ),
    )


PAGE = Page(
    path="runs",
    title="Runs",
    render=render,
    every=2.0,
    actions={"answer": answer, "cancel": cancel, "retry": retry, "accept": accept},
    is_there=lambda console: console.runs is not None,
)
