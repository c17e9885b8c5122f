"""One durable run as a trace: model turns and calls on a time axis, answered and resumed in place."""

import time
from collections.abc import Sequence
from urllib.parse import urlencode

from toolbus.console.console import Console, RunFacts, RunQuestion, RunStep
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import run_url, server_link, tool_link
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.inbox.questions import answer_form, card, question_fields, reply_to
from toolbus.console.pages.runs.runs import runs_of
from toolbus.console.pages.runs.trace import Span, TimeAxis, spans
from toolbus.console.widgets import anchor, as_json, button, facts, moment, status, table
from toolbus.core.text.display import counted, duration, shortened
from toolbus.core.values.errors import ToolbusError

STEPS_SHOWN = 200
LOOKED_AT = 10.0
"""Seconds after which the trace of an open run is drawn again, if no step was added."""
LONGEST = 20_000
"""Characters of a prompt, an output or arguments that are shown."""
_WORDS = {"model": "model turn", "intent": "call", "offer": "tools offered"}
"""The words for steps that have other names in the store."""
_WAITS = {"wait": "waits for an answer", "queue": "waits for a worker"}
_COLUMNS = ("Step", "Outcome", "Took", "Time axis", "Tokens")


async def render(console: Console, request: PageRequest) -> Element:
    run = request.query.get("id")
    try:
        runs = runs_of(console)
        info, steps = await runs.get(run), await runs.steps(run)
    except ToolbusError as error:
        back = element("p", element("a", "All runs", href="runs"))
        return element("div", live("run", element("p", str(error), class_="problem")), back)
    page = request.query.get("page")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 0
    return element(
        "div",
        live("run", _head(info, steps)),
        info.question is not None and _question(info, info.question),
        live("run-end", _end(info)),
        live("run-trace", _trace(console, info, steps, number)),
    )


# Actions


async def answer(console: Console, request: PageRequest) -> str:
    runs, run, asked = runs_of(console), request.form.get("run"), request.form.get("question")
    question = (await runs.get(run)).question
    if question is None or question.id != asked:
        return request.fail("That question does not wait any more.", run_url(run))
    try:
        replies = {key: reply_to(one, request) for key, one in question.pending.questions.items()}
        await runs.answer(run, replies, question=asked)
    except ValueError as error:
        return request.fail(str(error), run_url(run))
    return request.say("Answered.", run_url(run))


async def cancel(console: Console, request: PageRequest) -> str:
    await runs_of(console).cancel(run := request.form.get("run"))
    return request.say(f"Canceled {run}.", run_url(run))


async def retry(console: Console, request: PageRequest) -> str:
    """Continue a run that failed or was canceled."""
    await runs_of(console).retry(run := request.form.get("run"))
    return request.say(f"{run} continues where it ended.", run_url(run))


async def accept(console: Console, request: PageRequest) -> str:
    """Let a run use the tools that changed."""
    tools = await runs_of(console).accept_changes(run := request.form.get("run"))
    said = f"Accepted {', '.join(tools)}." if tools else "Nothing is on hold any more."
    return request.say(said, run_url(run))


# What is shown


def _head(info: RunFacts, steps: Sequence[RunStep]) -> list[Child]:
    used = [(step.input_tokens or 0, step.output_tokens or 0) for step in steps]
    taken, given = sum(one for one, _ in used), sum(one for _, one in used)
    models = dict.fromkeys(step.model for step in steps if step.model)
    calls = sum(step.name == "call" for step in steps)
    known: dict[str, Child] = {
        "status": status(info.status),
        "agent": info.agent,
        "model": ", ".join(models) or None,
        "started": moment(info.created),
        "took": duration(max(0.0, (time.time() if info.is_open else info.updated) - info.created)),
        "steps": f"{len(steps)}, of which {counted(calls, 'call')}",
        "tokens": f"{taken:,} in, {given:,} out" if taken or given else None,
        "worker": info.worker,
        "workers so far": str(info.attempts),
    }
    return [
        element("p", element("a", "All runs", href="runs")),
        element("h2", info.id, class_="breakable"),
        facts(known),
        _text("Prompt", info.prompt),
    ]


def _end(info: RunFacts) -> list[Child]:
    """The end of a run, and the buttons to cancel or continue it."""
    return [
        bool(info.held) and _held(info),
        info.error is not None and element("p", info.error, class_="problem"),
        info.output is not None and _text("Output", info.output),
        element(
            "div",
            info.is_open and _button("Cancel", "cancel", info),
            info.status in ("failed", "cancelled") and _button("Continue", "retry", info),
            class_="actions",
        ),
    ]


def _text(label: str, text: str) -> list[Child]:
    if not text:
        return []
    return [element("h3", label), element("pre", shortened_text(text), tabindex=0, aria_label=label.lower())]


def shortened_text(text: str) -> str:
    """A long text without its end."""
    rest = len(text) - LONGEST
    return text if rest <= 0 else f"{text[:LONGEST]}\n[{rest:,} more characters]"


def _button(label: str, action: str, info: RunFacts, hint: str = "") -> Element:
    return button(label, f"run/{action}", {"run": info.id}, hint=hint or f"{label} {info.id}")


def _held(info: RunFacts) -> Element:
    return element(
        "div",
        element("p", f"Changed since the run began, and on hold: {', '.join(sorted(info.held))}"),
        _button("Accept the changes", "accept", info, f"Accept the changes for {info.id}"),
        class_="problem",
    )


def _question(info: RunFacts, question: RunQuestion) -> Element:
    """The question of a run; live by itself, so that a half-typed answer stays."""
    pending, place = question.pending, anchor("question", f"{info.id} {question.id}")
    title = "Allow a call?" if question.is_approval else f"{pending.server} asks"
    questions = pending.questions.values()
    fields: list[Child] = [
        [element("p", one.message, class_="description"), question_fields(one, None, place)]
        for one in questions
    ]
    buttons = [("accept", "Send"), ("decline", "Decline")]
    known: dict[str, Child] = {"server": server_link(pending.server), "tool": pending.tool}
    return card(
        place,
        title,
        facts({**known, "since": moment(info.updated)}),
        element("pre", shortened_text(as_json(dict(pending.arguments))), tabindex=0, aria_label="arguments"),
        answer_form(
            "run/answer",
            {"run": info.id, "question": question.id},
            fields,
            buttons[1:] if any(one.fault is not None for one in questions) else buttons,
        ),
    )


# The trace


def _trace(console: Console, info: RunFacts, steps: Sequence[RunStep], page: int) -> list[Child]:
    """The steps on the time axis; the last of them, unless another page is wanted."""
    if not steps:
        return [element("h2", "Trace"), element("p", "No step is recorded yet.", class_="empty")]
    # An open run is not another one each time that it is looked at.
    found = spans(info, steps, time.time() // LOOKED_AT * LOOKED_AT)
    last = (len(found) - 1) // STEPS_SHOWN + 1
    number = page if 0 < page <= last else last
    shown, axis = found[(number - 1) * STEPS_SHOWN : number * STEPS_SHOWN], TimeAxis(found)
    note = " Long waits are shortened on the axis." if axis.is_shortened else ""
    axis_words = f"From {duration(0)} to {duration(axis.seconds)}.{note}"
    rows = [_row(console, axis, span) for span in shown]
    return [
        element("h2", "Trace"),
        element("p", axis_words, class_="faint"),
        element("div", table("Steps", _COLUMNS, rows, number=4), class_="trace"),
        _pages(info, number, last),
    ]


def _pages(info: RunFacts, number: int, last: int) -> Child:
    def link(text: str, page: int) -> Element:
        return element("a", text, href=f"run?{urlencode({'id': info.id, 'page': page})}", class_="button")

    return element(
        "nav",
        number > 1 and link("Earlier steps", number - 1),
        number < last and link("Later steps", number + 1),
        class_="actions",
        aria_label="Pages of the trace",
    )


def _row(console: Console, axis: TimeAxis, span: Span) -> list[Child]:
    step = span.step
    if step is None:
        words = _WAITS[span.kind]
        return [element("span", words, class_="faint"), None, _took(span), axis.bar(span, words)]
    label = f"{_WORDS.get(step.name, step.name)} {step.about or step.model}".strip()
    error = step.error and element("div", shortened(step.error, 1_000), class_="problem")
    return [
        _named(console, step),
        [status(step.outcome), error],
        _took(span),
        axis.bar(span, label),
        _tokens(step),
    ]


def _took(span: Span) -> Element:
    return element("span", duration(span.seconds), class_="when")


def _named(console: Console, step: RunStep) -> Child:
    """A step, with a link to its tool."""
    word = _WORDS.get(step.name, step.name)
    if step.name == "model":
        return [element("strong", word), step.model and [" ", element("span", step.model, class_="faint")]]
    spec = console.bus.catalog.get(step.tool or step.about) or console.bus.catalog.get(step.about)
    return [word, " ", tool_link(spec.name) if spec is not None else step.about]


def _tokens(step: RunStep) -> str | None:
    if step.input_tokens is None and step.output_tokens is None:
        return None
    return f"{step.input_tokens or 0:,} in, {step.output_tokens or 0:,} out"


PAGE = Page(
    path="run",
    title="Run",
    render=render,
    every=2.0,
    under="runs",
    actions={"answer": answer, "cancel": cancel, "retry": retry, "accept": accept},
    is_there=lambda console: console.runs is not None,
)
