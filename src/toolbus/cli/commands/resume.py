"""`toolbus resume`: the rest of a call that waits for an answer; another process may have begun it."""

import time
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

from toolbus.cli.commands.call import Wanted, progress, told
from toolbus.cli.input.arguments import content, texts
from toolbus.cli.input.fields import expected, shown
from toolbus.cli.input.questions import asked, at_terminal
from toolbus.cli.input.typed import Interrupted
from toolbus.cli.options import Settings
from toolbus.cli.outcome import Usage
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.core.elicitation import Action, Answer, Elicitation, Pending
from toolbus.core.errors import ServerError
from toolbus.core.forms import Field

Answers: TypeAlias = Mapping[str, Answer]
INTERRUPTED = 130
_ACTIONS: tuple[Action, ...] = ("accept", "decline", "cancel")
LATER = "Ctrl-C to answer later"


def only(**said: bool) -> Action | None:
    """The one action that was said; `Usage` if there are two."""
    found: list[Action] = [action for action in _ACTIONS if said[action]]
    if len(found) > 1:
        raise Usage(f"--{found[0]} and --{found[1]} cannot be combined; keep one")
    return found[0] if found else None


def run(settings: Settings, file: str, words: Sequence[str], action: Action | None, wanted: Wanted) -> int:
    """Answer what the call waits for, and print what comes of it."""
    wanted.check()
    pending = _stored(file)
    _refuse_faulty(pending)
    answers = _given(pending, words, action)
    return run_async(lambda: _resumed(settings, pending, answers, wanted))


async def _resumed(settings: Settings, pending: Pending, answers: Answers | None, wanted: Wanted) -> int:
    screen, config = Screen(settings), configured(settings)
    checked(config, [pending.server])
    if answers is None:
        try:
            answers = await _asked(screen, pending)
        except Interrupted:
            screen.note("nothing was sent; the call is still waiting")
            return INTERRUPTED
    async with opened(screen, config, [pending.server]) as bus:
        spec = await bus.find(f"{pending.server}/{pending.tool}")
        began = time.perf_counter()
        while True:
            with progress(screen, spec.name) as progressed:
                result = await bus.resume(pending, answers, timeout=wanted.timeout, on_progress=progressed)
            if result.pending is None or wanted.on_input == "suspend" or not at_terminal(screen):
                break
            pending = result.pending
            try:
                answers = await _asked(screen, pending)
            except Interrupted:
                told(screen, spec, result, wanted.out, time.perf_counter() - began)
                return INTERRUPTED
    return told(screen, spec, result, wanted.out, time.perf_counter() - began)


def _stored(file: str) -> Pending:
    try:
        return Pending.from_json(content(file, "FILE"))
    except ValueError:
        where = "stdin" if file == "-" else repr(file)
        raise Usage(
            f"{where} is not a suspended call; create one with 'toolbus call --on-input suspend'"
        ) from None


def _refuse_faulty(pending: Pending) -> None:
    """`ServerError` for what a person must not be shown."""
    for question in pending.questions.values():
        if question.fault is not None:
            raise ServerError(pending.server, f"{question.fault}; the call cannot be answered")


def _given(pending: Pending, words: Sequence[str], action: Action | None) -> Answers | None:
    """The answers that stand on the command line; None if there are none."""
    questions = pending.questions
    if words and action is not None:
        raise Usage(f"KEY=VALUE and --{action} cannot be combined; keep one")
    try:
        if words:
            if len(questions) != 1:
                raise Usage(f"the call asks {len(questions)} questions; answer them on a terminal")
            return {key: _filled(question, words) for key, question in questions.items()}
        match action:
            case "accept":
                return {key: question.accept() for key, question in questions.items()}
            case "decline":
                return {key: question.decline() for key, question in questions.items()}
            case "cancel":
                return {key: question.cancel() for key, question in questions.items()}
            case None:
                return None if questions else {}
    except ValueError as error:
        raise Usage(f"{error}", _needed(pending)) from None


def _filled(question: Elicitation, words: Sequence[str]) -> Answer:
    """The form with these values; ValueError says what does not fit."""
    if question.url is not None:
        raise Usage("the server asks you to visit a URL, not to fill in a form; pass --accept when done")
    fields = {field.name: field for field in question.form.fields}
    values: dict[str, object] = {}
    for name, typed in texts(words).items():
        if name not in fields:
            close = get_close_matches(name, fields, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(fields) or 'none'}"
            raise Usage(f"{name}: no such field; {hint}")
        if len(typed) > 1 and fields[name].kind != "choices":
            raise Usage(f"{name} is given twice; keep one")
        values[name] = fields[name].read(",".join(typed))
    return question.accept(values)


async def _asked(screen: Screen, pending: Pending) -> Answers:
    """What the person at the terminal says; `Usage` if there is none."""
    if not at_terminal(screen):
        raise Usage(f"{pending}; answer with KEY=VALUE, --accept, --decline or --cancel", _needed(pending))
    return {key: await asked(screen, question, LATER) for key, question in pending.questions.items()}


def _needed(pending: Pending) -> tuple[str, ...]:
    """A line for each thing that is to be filled in, or visited."""
    lines: list[str] = []
    for question in pending.questions.values():
        if question.url is not None:
            lines.append(f"  visit {question.url}")
            continue
        fields = question.form.fields
        width = max((len(field.name) for field in fields), default=0)
        lines += [f"  {field.name:{width}}  {_told(field)}" for field in fields]
    return tuple(lines)


def _told(field: Field) -> str:
    default = None if field.default is None else f"default {shown(field, field.default)}"
    facts = ["required" if field.required else "optional", _choices(field) or expected(field), default]
    about = " ".join(field.description.split())
    return ", ".join(fact for fact in facts if fact) + (f": {about}" if about else "")


def _choices(field: Field) -> str:
    return " or ".join(field.choices)
