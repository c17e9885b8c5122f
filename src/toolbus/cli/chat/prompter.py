"""Ask the user to approve calls and to answer servers' questions, in a chat."""

import asyncio

from toolbus.agent import ApprovalAsked
from toolbus.cli.chat.background import PendingApproval, PendingQuestion
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.input.approval import EVERY, IN_CHAT, CallToApprove, ask_approval
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.elicitation import ask_user
from toolbus.cli.output.screen import Screen, one_line
from toolbus.core.ask.approval import ApprovalAnswer

NO_TERMINAL = "there is no terminal to ask for approval"
CHANGED = "{} is not the tool that you allowed: its definition has changed"
STOP_HINT = "Ctrl-C to stop the turn"


class Prompter:
    """Asks, and remembers tools that are always allowed, until they change; without a keyboard, denies."""

    def __init__(self, screen: Screen, keyboard: Keyboard | None) -> None:
        self._screen = screen
        self._keyboard = keyboard
        self._always: dict[tuple[str | None, str], str | None] = {}
        """The digest of each tool that is always allowed, by server and name; a rule asks nevertheless."""

    def approve(self, asked: ApprovalAsked) -> ApprovalAnswer:
        """Return the answer, or a reason for denial; KeyboardInterrupt on Ctrl-C."""
        if asked.answer.done():  # by a lasting answer to an equal question
            return asked.answer.result()
        tool = asked.server, asked.name
        if asked.rule is None and tool in self._always:
            if self._always[tool] == asked.digest:
                return True
            del self._always[tool]
            self._screen.note(CHANGED.format(one_line(asked.name)))
        answer = self._ask_about(asked)
        if answer in ("chat", "session", "always"):
            self._always[tool] = asked.digest
        return "once" if answer == "chat" else answer

    def approve_other(self, asked: PendingApproval) -> None:
        """Ask about a call that the agent did not ask about, and settle it."""
        if asked.answer.done():
            return
        answer: ApprovalAnswer = False
        try:
            answer = self._ask_about(asked.question)
        finally:
            asked.settle(answer)

    def _ask_about(self, call: CallToApprove) -> ApprovalAnswer:
        if self._keyboard is None:
            step = "--approve never" if call.rule is None else f"a change of rule {call.rule}"
            self._screen.note(f"{call.name} was not run: {NO_TERMINAL}; allow it with {step}")
            return NO_TERMINAL
        try:
            choice = asyncio.run(ask_approval(self._screen, call, IN_CHAT if call.rule is None else EVERY))
        except Interrupted:
            raise KeyboardInterrupt from None
        return False if choice == "no" else choice

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
