"""Ask the user to approve calls (yes, no, or always in this chat) and to answer servers' questions."""

import asyncio

from rich.text import Text

from toolbus.agent import ApprovalAsked
from toolbus.cli.chat.background import PendingQuestion
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.elicitation import ask_user
from toolbus.cli.output.screen import Screen, escaped_json, one_line
from toolbus.core.approval import ApprovalAnswer

APPROVAL_PROMPT = "run it? [y]es, [n]o, [a]lways in this chat: "
ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
NO_TERMINAL = "there is no terminal to ask for approval"
CHANGED = "{} is not the tool that you allowed: its definition has changed"
STOP_HINT = "Ctrl-C to stop the turn"


class Prompter:
    """Asks, and remembers tools that are always allowed, until they change; without a keyboard, denies."""

    def __init__(self, screen: Screen, keyboard: Keyboard | None) -> None:
        self._screen = screen
        self._keyboard = keyboard
        self._always: dict[tuple[str | None, str], str | None] = {}
        """The digest of each tool that is always allowed, by server and name."""

    def approve(self, asked: ApprovalAsked) -> ApprovalAnswer:
        """Return True, or a reason for denial; KeyboardInterrupt on Ctrl-C."""
        tool = asked.server, asked.name
        if tool in self._always:
            if self._always[tool] == asked.digest:
                return True
            del self._always[tool]
            self._screen.note(CHANGED.format(one_line(asked.name)))
        if self._keyboard is None:
            self._screen.note(f"{asked.name} was not run: {NO_TERMINAL}; allow it with --approve never")
            return NO_TERMINAL
        self._show(asked)
        while True:
            try:
                answer = ANSWERS.get(self._keyboard.ask(APPROVAL_PROMPT).strip().lower())
            except EOFError:
                self._screen.note("")
                answer = "no"
            if answer == "always":
                self._always[tool] = asked.digest
            if answer is not None:
                return answer != "no"

    def answer(self, asked: PendingQuestion) -> None:
        """Ask a server's question and settle it; on Ctrl-C, cancels it and raises KeyboardInterrupt."""
        try:
            asyncio.run(self._ask(asked))
        except Interrupted:
            raise KeyboardInterrupt from None

    async def _ask(self, asked: PendingQuestion) -> None:
        if asked.answer.done():
            return
        task = asyncio.ensure_future(ask_user(self._screen, asked.question, STOP_HINT))
        loop = asyncio.get_running_loop()
        # The server may disconnect before the user answers.
        asked.answer.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))
        try:
            await asyncio.wait([task])
            if not task.cancelled():
                asked.settle(task.result())
        finally:
            asked.settle(asked.question.cancel())  # in any case: the server must not wait forever

    def _show(self, asked: ApprovalAsked) -> None:
        """Print the whole call: the user must see what is sent."""
        whose = f" of server {asked.server}" if asked.server is not None else ""
        self._screen.err.print(
            Text(f"{one_line(asked.name)}{one_line(whose) and whose}", style="bold yellow")
        )
        self._screen.err.print(Text(escaped_json(dict(asked.arguments), indent=2)))
