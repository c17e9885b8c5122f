"""Ask a server's questions on the terminal: a form field by field, or a URL to visit.

The user sees everything before it is sent, and no URL is opened. The server's text is indented below its
name, so that it cannot pass for ours.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from rich.text import Text

from toolbus.cli.input.approval import ONE_CALL, ask_approval
from toolbus.cli.input.ask import Interrupted, ask_async, can_ask
from toolbus.cli.input.fields import display_value, expected_value, field_help
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import UNATTENDED
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.ask.interactions import Interactions, QuestionRouting
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.forms import Field

DECLINE = "/decline"
CANCEL_HINT = "Ctrl-C to cancel"
YES, NO = ("y", "yes"), ("n", "no")


def at_terminal(screen: Screen) -> bool:
    """Whether the user can be asked: on a terminal, without `--json`."""
    return can_ask() and not screen.as_json


def terminal_interactions(screen: Screen) -> Interactions:
    """Interactions that ask on the terminal, also about calls of the policy; unattended without one."""
    one_at_a_time = asyncio.Lock()

    async def elicit(question: Elicitation) -> Answer:
        async with one_at_a_time:
            with screen.without_spinner():
                try:
                    return await ask_user(screen, question)
                except Interrupted:
                    return question.cancel()

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        async with one_at_a_time:
            with screen.without_spinner():
                try:
                    choice = await ask_approval(screen, request, ONE_CALL)
                except Interrupted:
                    screen.note("")
                    return False
        return False if choice == "no" else choice

    return (
        Interactions(elicit=elicit, approve=approve, _routing=QuestionRouting(approver="terminal"))
        if at_terminal(screen)
        else UNATTENDED
    )


async def ask_user(screen: Screen, question: Elicitation, interrupt_hint: str = CANCEL_HINT) -> Answer:
    """Ask the user; raises `Interrupted` on Ctrl-C, whose effect `interrupt_hint` describes."""
    try:
        return await _Form(screen, question, interrupt_hint).answer()
    except Interrupted:
        screen.note("")
        raise
    except asyncio.CancelledError:
        screen.note("\nthe server no longer waits for an answer")
        raise


class _Declined(Exception):
    """The user declined."""


class _Form:
    """Asks one question."""

    def __init__(self, screen: Screen, question: Elicitation, interrupt_hint: str) -> None:
        self._screen = screen
        self._question = question
        self._interrupt_hint = interrupt_hint

    async def answer(self) -> Answer:
        self._print_request()
        try:
            return await (self._fill_form() if self._question.url is None else self._confirm_visit())
        except _Declined:
            return self._question.decline()

    def _print_request(self) -> None:
        question = self._question
        whose = f", for its tool {question.tool!r}" if question.tool else ""
        self._print(f"server {question.server!r} asks{whose}:", "bold yellow", indent=0)
        self._print(question.message)
        if question.url is not None:
            self._screen.err.print(Text("  ").append_text(_highlighted_url(question.url)))
        self._print(f"(Ctrl-D or {DECLINE} to decline, {self._interrupt_hint})", "dim")

    async def _fill_form(self) -> Answer:
        fields = self._question.form.fields
        if not fields:
            await self._confirm("accept? [y/n]: ", None)
        values = {field.name: await self._ask_field(field) for field in fields}
        if len(fields) > 1:
            given = [
                (one_line(f.title), display_value(f, v)) for f in fields if (v := values[f.name]) is not None
            ]
            width = max((len(title) for title, _ in given), default=0)
            for title, value in given:
                self._print(f"{title:{width}}  {value}")
            await self._confirm("send this? [Y/n]: ", True)
        return self._question.accept(values)

    async def _ask_field(self, field: Field) -> Any:
        """Ask for one value; an empty line means the default, or None if the field is optional."""
        for line in field_help(field):
            self._print(line)
        default = "" if field.default is None else f" [{one_line(display_value(field, field.default))}]"
        hints = ", ".join(
            hint for hint in ("required" if field.required else "", expected_value(field)) if hint
        )
        prompt = f"{one_line(field.title)}{f' ({hints})' if hints else ''}{default}: "
        while True:
            text = await self._read_line(prompt)
            if text.strip():
                try:
                    return field.read(text)
                except ValueError as error:
                    self._print(str(error), "red")
            elif field.default is not None or not field.required:
                return field.default
            else:
                self._print(f"{field.name!r} is required", "red")

    async def _confirm_visit(self) -> Answer:
        await self._confirm("Did you open it and finish there? [y/N]: ", False)
        return self._question.accept()

    async def _confirm(self, prompt: str, default: bool | None) -> None:
        """Ask yes or no; raises `_Declined` on no."""
        confirmed = None
        while confirmed is None:
            typed = (await self._read_line(prompt)).strip().lower()
            confirmed = True if typed in YES else False if typed in NO else None if typed else default
        if not confirmed:
            raise _Declined

    async def _read_line(self, prompt: str) -> str:
        try:
            line = (await ask_async(prompt)).rstrip("\r\n")
        except EOFError:
            self._screen.note("")
            raise _Declined from None
        if line.strip() == DECLINE:
            raise _Declined
        return line

    def _print(self, text: str, style: str = "", indent: int = 2) -> None:
        for line in visible(text).splitlines():
            self._screen.err.print(Text(" " * indent + line, style=style))


def _highlighted_url(url: str) -> Text:
    """The full URL with its host highlighted: that is what the user must trust."""
    host = urlsplit(url).netloc
    before, slashes, after = url.partition(f"//{host}")
    return (
        Text(visible(f"{before}{slashes[:2]}")).append(visible(host), "bold reverse").append(visible(after))
    )
