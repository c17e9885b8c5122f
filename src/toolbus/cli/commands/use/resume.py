"""`toolbus call --resume`: resume a call that waits for an answer, possibly from another process."""

from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from toolbus.bus.inner import calls_of
from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.errors import Usage
from toolbus.cli.input.arguments import check_out_folder, content, facts_by_name, hint, texts
from toolbus.cli.input.fields import display_value, expected_value
from toolbus.cli.output.results import call_outcome, call_progress, script_outcome
from toolbus.cli.output.screen import Screen
from toolbus.cli.parameters import (
    Accept,
    Cancel,
    Decline,
    FormValues,
    OnInput,
    Out,
    Timeout,
)
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.values.elicitation import Action, Answer, Elicitation, Pending
from toolbus.core.values.errors import ServerError
from toolbus.core.values.forms import Field

Answers: TypeAlias = Mapping[str, Answer]
INTERRUPTED = 130
_ACTIONS: tuple[Action, ...] = ("accept", "decline", "cancel")
LATER_HINT = "Ctrl-C to answer later"


@bus_command
def resume(
    own: Invocation,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Output of 'toolbus call --on-input suspend'; - for stdin."),
    ],
    pairs: FormValues = None,
    accept: Accept = False,
    decline: Decline = False,
    cancel: Cancel = False,
    timeout: Timeout = None,
    out: Out = None,
    on_input: OnInput = "ask",
) -> Coroutine[Any, Any, CommandResult | int]:
    """Resume a call that is waiting for an answer."""
    action = chosen_action(accept=accept, decline=decline, cancel=cancel)
    return resumed(own, file, pairs or [], action, timeout=timeout, out=out, on_input=on_input)


def resumed(
    own: Invocation,
    file: str,
    words: Sequence[str],
    action: Action | None,
    *,
    timeout: float | None,
    out: Path | None,
    on_input: Literal["ask", "suspend"],
) -> Coroutine[Any, Any, CommandResult | int]:
    """Check the answers, and resume the call in this file with them."""
    check_out_folder(out)
    pending = _load_pending(file)
    for question in pending.questions.values():
        if question.fault is not None:  # it must not be shown to a user
            raise ServerError(pending.server, f"{question.fault}; the call cannot be answered")
    answers = given_answers(pending, words, action)
    return _answered(own, pending, answers, timeout, out, on_input)


async def _answered(
    own: Invocation,
    pending: Pending,
    answers: Answers | None,
    timeout: float | None,
    out: Path | None,
    on_input: Literal["ask", "suspend"],
) -> CommandResult | int:
    """Resume the call with the answers; ask for them if there are none."""
    from toolbus.cli.input.ask import Interrupted
    from toolbus.cli.input.elicitation import at_terminal
    from toolbus.cli.session import command_line

    screen, watch, is_interrupted = own.screen, Stopwatch(), False
    own.selected([pending.server])
    try:
        if answers is None and (pending.call is None or not at_terminal(screen)):
            answers = await ask_answers(screen, pending)
        async with own.bus([pending.server]) as bus:
            view = bus.view(caller=command_line())
            spec = await calls_of(view).find(f"{pending.server}/{pending.tool}")
            if answers is None:
                answers = await _ask_approval(
                    screen, calls_of(view).approval_needed(spec, pending.arguments), pending
                )
            watch = Stopwatch()
            while True:
                with call_progress(screen, spec.name) as progressed:
                    result = await view.resume(pending, answers, timeout=timeout, on_progress=progressed)
                if result.pending is None or on_input == "suspend" or not at_terminal(screen):
                    break
                pending = result.pending
                try:
                    answers = await ask_answers(screen, pending)
                except Interrupted:
                    is_interrupted = True
                    break
    except Interrupted:
        screen.note("nothing was sent; the call is still waiting")
        return INTERRUPTED
    outcome = (
        call_outcome(screen, spec, result, out, watch.seconds)
        if pending.script is None
        else script_outcome(screen, result, watch.seconds)
    )
    return outcome._replace(code=INTERRUPTED) if is_interrupted else outcome


def chosen_action(**flags: bool) -> Action | None:
    """The action whose flag is set, if any; raises `Usage` if there are two."""
    found: list[Action] = [action for action in _ACTIONS if flags[action]]
    if len(found) > 1:
        raise Usage(f"--{found[0]} and --{found[1]} cannot be combined; keep one")
    return found[0] if found else None


def _load_pending(file: str) -> Pending:
    try:
        return Pending.from_json(content(file, "FILE"))
    except ValueError:
        where = "stdin" if file == "-" else repr(file)
        raise Usage(
            f"{where} is not a suspended call; create one with 'toolbus call --on-input suspend'"
        ) from None


def given_answers(pending: Pending, words: Sequence[str], action: Action | None) -> Answers | None:
    """The answers from the command line; None if there are none."""
    questions = pending.questions
    if words and action is not None:
        raise Usage(f"KEY=VALUE and --{action} cannot be combined; keep one")
    try:
        if words:
            if len(questions) != 1:
                raise Usage(f"the call asks {len(questions)} questions; answer them on a terminal")
            return {key: _fill_form(question, words) for key, question in questions.items()}
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
        raise Usage(f"{error}", field_lines(pending)) from None


def _fill_form(question: Elicitation, words: Sequence[str]) -> Answer:
    """The form filled with these values; raises ValueError if one is invalid."""
    if question.url is not None:
        raise Usage("the server asks you to visit a URL, not to fill in a form; pass --accept when done")
    fields = {field.name: field for field in question.form.fields}
    values: dict[str, object] = {}
    for name, typed in texts(words).items():
        if name not in fields:
            raise Usage(f"{name}: no such field; {hint(name, fields)}")
        if len(typed) > 1 and fields[name].kind != "choices":
            raise Usage(f"{name} is given twice; keep one")
        values[name] = fields[name].read(",".join(typed))
    return question.accept(values)


async def ask_answers(screen: Screen, pending: Pending) -> Answers:
    """Ask on the terminal; raises `Usage` without one."""
    from toolbus.cli.input.elicitation import ask_user, at_terminal

    if not at_terminal(screen):
        how = (
            "KEY=VALUE, --accept, --decline or --cancel"
            if pending.call is None
            else "answer=once, or as below"
        )
        raise Usage(f"{pending}; answer with {how}", field_lines(pending))
    return {key: await ask_user(screen, question, LATER_HINT) for key, question in pending.questions.items()}


async def _ask_approval(screen: Screen, request: ApprovalRequest | None, pending: Pending) -> Answers:
    """Ask whether the call is allowed, which shows it as `call` does, if it is still the same call."""
    if request is None or request.call != pending.call:
        return await ask_answers(screen, pending)
    from toolbus.cli.input.approval import ONE_CALL, ask_approval

    choice = await ask_approval(screen, request, ONE_CALL)
    return {key: question.accept({"answer": choice}) for key, question in pending.questions.items()}


def field_lines(pending: Pending) -> tuple[str, ...]:
    """One line per form field to fill in or URL to visit."""
    lines: list[str] = []
    for question in pending.questions.values():
        if question.url is not None:
            lines.append(f"  visit {question.url}")
            continue
        lines += facts_by_name(
            (field.name, _known(field), field.description) for field in question.form.fields
        )
    return tuple(lines)


def _known(field: Field) -> str:
    default = "" if field.default is None else f"default {display_value(field, field.default)}"
    expected = " or ".join(field.choices) or expected_value(field)
    return ", ".join(filter(None, ("required" if field.required else "optional", expected, default)))
