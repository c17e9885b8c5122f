"""`toolbus resume`: resume a call that is waiting for an answer, possibly from another process."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

from toolbus.cli.commands.use.call import CallOptions, call_progress, print_outcome
from toolbus.cli.errors import Usage
from toolbus.cli.input.approval import ONE_CALL, ask_approval
from toolbus.cli.input.arguments import content, texts
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.elicitation import ask_user, at_terminal
from toolbus.cli.input.fields import display_value, expected_value
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import (
    async_command,
    command_line,
    load_trusted_config,
    open_bus,
    selected_servers,
)
from toolbus.config import BusConfig
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.values.elicitation import Action, Answer, Elicitation, Pending
from toolbus.core.values.errors import ServerError
from toolbus.core.values.forms import Field
from toolbus.core.values.records import ToolResult, ToolSpec

Answers: TypeAlias = Mapping[str, Answer]
INTERRUPTED = 130
_ACTIONS: tuple[Action, ...] = ("accept", "decline", "cancel")
LATER_HINT = "Ctrl-C to answer later"


def chosen_action(**flags: bool) -> Action | None:
    """The action whose flag is set, if any; raises `Usage` if there are two."""
    found: list[Action] = [action for action in _ACTIONS if flags[action]]
    if len(found) > 1:
        raise Usage(f"--{found[0]} and --{found[1]} cannot be combined; keep one")
    return found[0] if found else None


def run(
    settings: SharedOptions, file: str, words: Sequence[str], action: Action | None, options: CallOptions
) -> int:
    """Answer the pending questions and print the result."""
    options.check()
    pending = _load_pending(file)
    _reject_invalid(pending)
    answers = given_answers(pending, words, action)
    return _resume(settings, pending, answers, options)


@async_command
async def _resume(
    settings: SharedOptions, pending: Pending, answers: Answers | None, options: CallOptions
) -> int:
    screen, config = Screen(settings), load_trusted_config(settings)
    selected_servers(config, [pending.server])
    try:
        if answers is None and (pending.call is None or not at_terminal(screen)):
            answers = await ask_answers(screen, pending)
        return await _resume_on_bus(screen, config, pending, answers, options)
    except Interrupted:
        screen.note("nothing was sent; the call is still waiting")
        return INTERRUPTED


async def _resume_on_bus(
    screen: Screen, config: BusConfig, pending: Pending, answers: Answers | None, options: CallOptions
) -> int:
    async with open_bus(screen, config, [pending.server]) as bus:
        own = bus.view(caller=command_line())
        spec = await own.find(f"{pending.server}/{pending.tool}")
        if answers is None:
            answers = await _ask_approval(screen, own.approval_needed(spec, pending.arguments), pending)
        watch = Stopwatch()
        while True:
            with call_progress(screen, spec.name) as progressed:
                result = await own.resume(pending, answers, timeout=options.timeout, on_progress=progressed)
            if result.pending is None or options.on_input == "suspend" or not at_terminal(screen):
                break
            pending = result.pending
            try:
                answers = await ask_answers(screen, pending)
            except Interrupted:
                _print_result(screen, spec, pending, result, options, watch.seconds)
                return INTERRUPTED
    return _print_result(screen, spec, pending, result, options, watch.seconds)


def _print_result(
    screen: Screen, spec: ToolSpec, pending: Pending, result: ToolResult, options: CallOptions, seconds: float
) -> int:
    if pending.script is None:
        return print_outcome(screen, spec, result, options.out, seconds)
    from toolbus.cli.commands.use.run import print_outcome as print_script

    return print_script(screen, result, seconds)


def _load_pending(file: str) -> Pending:
    try:
        return Pending.from_json(content(file, "FILE"))
    except ValueError:
        where = "stdin" if file == "-" else repr(file)
        raise Usage(
            f"{where} is not a suspended call; create one with 'toolbus call --on-input suspend'"
        ) from None


def _reject_invalid(pending: Pending) -> None:
    """Raise `ServerError` for a question that must not be shown to a user."""
    for question in pending.questions.values():
        if question.fault is not None:
            raise ServerError(pending.server, f"{question.fault}; the call cannot be answered")


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
            close = get_close_matches(name, fields, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(fields) or 'none'}"
            raise Usage(f"{name}: no such field; {hint}")
        if len(typed) > 1 and fields[name].kind != "choices":
            raise Usage(f"{name} is given twice; keep one")
        values[name] = fields[name].read(",".join(typed))
    return question.accept(values)


async def ask_answers(screen: Screen, pending: Pending) -> Answers:
    """Ask on the terminal; raises `Usage` without one."""
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
    choice = await ask_approval(screen, request, ONE_CALL)
    return {key: question.accept({"answer": choice}) for key, question in pending.questions.items()}


def field_lines(pending: Pending) -> tuple[str, ...]:
    """One line per form field to fill in or URL to visit."""
    lines: list[str] = []
    for question in pending.questions.values():
        if question.url is not None:
            lines.append(f"  visit {question.url}")
            continue
        fields = question.form.fields
        width = max((len(field.name) for field in fields), default=0)
        lines += [f"  {field.name:{width}}  {_field_summary(field)}" for field in fields]
    return tuple(lines)


def _field_summary(field: Field) -> str:
    default = None if field.default is None else f"default {display_value(field, field.default)}"
    facts = ["required" if field.required else "optional", _choices(field) or expected_value(field), default]
    about = " ".join(field.description.split())
    return ", ".join(fact for fact in facts if fact) + (f": {about}" if about else "")


def _choices(field: Field) -> str:
    return " or ".join(field.choices)
