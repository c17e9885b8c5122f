"""A person's word: on a call before it is made (yes, no, or always in this chat), and on what servers ask."""

import asyncio

from rich.text import Text

from toolbus.agent import ApprovalAsked
from toolbus.cli.chat.backstage import Asked
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.input.questions import asked as put
from toolbus.cli.input.typed import Interrupted
from toolbus.cli.output.screen import Screen, escaped_json, one_line

QUESTION = "run it? [y]es, [n]o, [a]lways in this chat: "
ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
NOBODY = "there is no terminal to ask for approval"
STOPS = "Ctrl-C to stop the turn"


class Asking:
    """Asks, and remembers what may always be run; without a keyboard it denies."""

    def __init__(self, screen: Screen, keyboard: Keyboard | None) -> None:
        self._screen = screen
        self._keyboard = keyboard
        self._always: set[tuple[str | None, str]] = set()

    def word(self, asked: ApprovalAsked) -> bool | str:
        """True, or why not; KeyboardInterrupt on Ctrl-C, which is a no as well."""
        if (asked.server, asked.name) in self._always:
            return True
        if self._keyboard is None:
            self._screen.note(f"{asked.name} was not run: {NOBODY}; allow it with --approve never")
            return NOBODY
        self._show(asked)
        while True:
            try:
                answer = ANSWERS.get(self._keyboard.answer(QUESTION).strip().lower())
            except EOFError:
                self._screen.note("")
                answer = "no"
            if answer == "always":
                self._always.add((asked.server, asked.name))
            if answer is not None:
                return answer != "no"

    def answer(self, asked: Asked) -> None:
        """Ask what a server asks, and settle it; KeyboardInterrupt on Ctrl-C, which is no answer."""
        try:
            asyncio.run(self._answered(asked))
        except Interrupted:
            raise KeyboardInterrupt from None

    async def _answered(self, asked: Asked) -> None:
        if asked.answer.done():
            return
        asking = asyncio.ensure_future(put(self._screen, asked.question, STOPS))
        loop = asyncio.get_running_loop()
        # The server may be gone before the person is done.
        asked.answer.add_done_callback(lambda _: loop.call_soon_threadsafe(asking.cancel))
        try:
            await asyncio.wait([asking])
            if not asking.cancelled():
                asked.settle(asking.result())
        finally:
            asked.settle(asked.question.cancel())  # whatever happened: the server must not wait for ever

    def _show(self, asked: ApprovalAsked) -> None:
        """All of it: whoever allows a call must have seen what is sent."""
        whose = f" of server {asked.server}" if asked.server is not None else ""
        self._screen.err.print(
            Text(f"{one_line(asked.name)}{one_line(whose) and whose}", style="bold yellow")
        )
        self._screen.err.print(Text(escaped_json(dict(asked.arguments), indent=2)))
