"""What a server asks, in the terminal: a form field by field, or an address to visit.

Nothing is sent that the person has not seen, no address is ever opened, and what the server wrote is shown
as its own words: below its name, and indented.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from rich.text import Text

from toolbus.cli.input.fields import described, expected, shown
from toolbus.cli.input.typed import Interrupted, answered, can_ask
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import UNATTENDED
from toolbus.core.elicitation import Answer, Elicitation
from toolbus.core.forms import Field
from toolbus.core.interactions import Interactions

DECLINE = "/decline"
CANCELS = "Ctrl-C to cancel"
YES, NO = ("y", "yes"), ("n", "no")


def at_terminal(screen: Screen) -> bool:
    """Whether a person can be asked: with `--json` nobody is."""
    return can_ask() and not screen.as_json


def interactions(screen: Screen) -> Interactions:
    """The person at the terminal, as those take it who ask; unattended where there is none."""
    one_at_a_time = asyncio.Lock()

    async def elicit(question: Elicitation) -> Answer:
        async with one_at_a_time:
            with screen.still():
                try:
                    return await asked(screen, question)
                except Interrupted:
                    return question.cancel()

    return Interactions(elicit=elicit) if at_terminal(screen) else UNATTENDED


async def asked(screen: Screen, question: Elicitation, leaving: str = CANCELS) -> Answer:
    """What the person says to a question; `Interrupted` on Ctrl-C, which does what `leaving` says."""
    try:
        return await _Asking(screen, question, leaving).answer()
    except Interrupted:
        screen.note("")
        raise
    except asyncio.CancelledError:
        screen.note("\nthe server no longer waits for an answer")
        raise


class _Declined(Exception):
    """The person says no."""


class _Asking:
    """One question, from its first line to the answer."""

    def __init__(self, screen: Screen, question: Elicitation, leaving: str) -> None:
        self._screen = screen
        self._question = question
        self._leaving = leaving

    async def answer(self) -> Answer:
        self._introduce()
        try:
            return await (self._filled() if self._question.url is None else self._visited())
        except _Declined:
            return self._question.decline()

    def _introduce(self) -> None:
        question = self._question
        whose = f", for its tool {question.tool!r}" if question.tool else ""
        self._say(f"server {question.server!r} asks{whose}:", "bold yellow", indent=0)
        self._say(question.message)
        if question.url is not None:
            self._screen.err.print(Text("  ").append_text(_address(question.url)))
        self._say(f"(Ctrl-D or {DECLINE} to decline, {self._leaving})", "dim")

    async def _filled(self) -> Answer:
        fields = self._question.form.fields
        if not fields:
            await self._agreed("accept? [y/n]: ", None)
        values = {field.name: await self._value(field) for field in fields}
        if len(fields) > 1:
            given = [(one_line(f.title), shown(f, v)) for f in fields if (v := values[f.name]) is not None]
            width = max((len(title) for title, _ in given), default=0)
            for title, value in given:
                self._say(f"{title:{width}}  {value}")
            await self._agreed("send this? [Y/n]: ", True)
        return self._question.accept(values)

    async def _value(self, field: Field) -> Any:
        """What is typed, or the default; None if it may be left out, and is."""
        for line in described(field):
            self._say(line)
        default = "" if field.default is None else f" [{one_line(shown(field, field.default))}]"
        hints = ", ".join(hint for hint in ("required" if field.required else "", expected(field)) if hint)
        prompt = f"{one_line(field.title)}{f' ({hints})' if hints else ''}{default}: "
        while True:
            text = await self._typed(prompt)
            if text.strip():
                try:
                    return field.read(text)
                except ValueError as error:
                    self._say(str(error), "red")
            elif field.default is not None or not field.required:
                return field.default
            else:
                self._say(f"{field.name!r} is required", "red")

    async def _visited(self) -> Answer:
        await self._agreed("Did you open it and finish there? [y/N]: ", False)
        return self._question.accept()

    async def _agreed(self, prompt: str, default: bool | None) -> None:
        """Come back if the person says yes."""
        word = None
        while word is None:
            typed = (await self._typed(prompt)).strip().lower()
            word = True if typed in YES else False if typed in NO else None if typed else default
        if not word:
            raise _Declined

    async def _typed(self, prompt: str) -> str:
        try:
            line = (await answered(prompt)).rstrip("\r\n")
        except EOFError:
            self._screen.note("")
            raise _Declined from None
        if line.strip() == DECLINE:
            raise _Declined
        return line

    def _say(self, text: str, style: str = "", indent: int = 2) -> None:
        for line in visible(text).splitlines():
            self._screen.err.print(Text(" " * indent + line, style=style))


def _address(url: str) -> Text:
    """All of it, with the host highlighted: that is whom one would trust."""
    host = urlsplit(url).netloc
    before, slashes, after = url.partition(f"//{host}")
    return (
        Text(visible(f"{before}{slashes[:2]}")).append(visible(host), "bold reverse").append(visible(after))
    )
