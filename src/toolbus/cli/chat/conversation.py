"""Run the turns of a chat: send a prompt to the agent, show events, ask the user."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from toolbus.agent import Agent, ApprovalAsked, ModelFailed, RunResult
from toolbus.cli.chat.background import (
    BackgroundLoop,
    ChatTurn,
    PendingApproval,
    PendingQuestion,
    ThreadQuestion,
)
from toolbus.cli.chat.view import ChatView
from toolbus.cli.input.approval import EVERY, IN_CHAT, CallToApprove, ask_approval
from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.elicitation import ask_user
from toolbus.cli.output.screen import Screen, one_line
from toolbus.config.secrets.redact import redacted
from toolbus.core.ask.approval import ApprovalAnswer, is_approval
from toolbus.core.values.records import Prompt

NO_TERMINAL = "there is no terminal to ask for approval"
CHANGED = "{} is not the tool that you allowed: its definition has changed"
STOP_HINT = "Ctrl-C to stop the turn"


class Prompter:
    """Asks, and remembers tools that are always allowed, until they change; without a terminal, denies."""

    def __init__(self, screen: Screen, *, can_ask: bool) -> None:
        self._screen = screen
        self._can_ask = can_ask
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
        if not self._can_ask:
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


class ChatTurns:
    """The turns of one chat."""

    def __init__(
        self, loop: BackgroundLoop, agent: Agent, view: ChatView, prompter: Prompter, secrets: tuple[str, ...]
    ) -> None:
        self._loop = loop
        self.agent = agent
        self._view = view
        self._prompter = prompter
        self._secrets = secrets

    def switch_agent(self, agent: Agent, secrets: tuple[str, ...]) -> None:
        """Switch to another agent; it gets the history."""
        agent.history = self.agent.history
        self.agent, self._secrets = agent, secrets

    def send(self, prompt: str) -> None:
        """Send a prompt and show the answer; raises if the turn fails. Ctrl-C stops it."""
        self._forget_unsent()
        self._run_turn(prompt)

    def send_prompt(self, prompt: Prompt, arguments: Mapping[str, str]) -> None:
        """Send a server's prompt and show the answer."""
        self._forget_unsent()
        self._run_turn(None, self.agent.use_prompt(prompt.server, prompt.name, arguments))

    def _forget_unsent(self) -> None:
        """Drop a server's prompt whose turn failed, so that it is not sent with the next one."""
        history = self.agent.history
        self.agent.clear()
        self.agent.history = history

    def _run_turn(self, prompt: str | None, prepare: Coroutine[Any, Any, None] | None = None) -> None:
        turn = ChatTurn(self._loop, self.agent, prompt, prepare)
        with turn.ctrl_c_ends_waiting():
            try:
                result = self._follow(turn)
            except BaseException as error:
                turn.stop()
                self._view.stop()
                if isinstance(error, ModelFailed) and redacted(str(error), self._secrets) != str(error):
                    # Without its cause, which contains the secret too and would be printed with --debug.
                    raise without_secrets(error, self._secrets) from None
                raise
            self._view.finish(result)

    def _follow(self, turn: ChatTurn) -> RunResult[str]:
        self._view.begin()
        for event in turn:
            if isinstance(event, ThreadQuestion):
                self._view.pause()
                with turn.ctrl_c_raises():
                    self._answer(event)
                self._view.resume()
                continue
            self._view.on_event(event)
            if isinstance(event, ApprovalAsked):
                with turn.ctrl_c_raises():
                    answer = self._prompter.approve(event)
                turn.settle(event, answer)
                self._view.approval_settled(event.id, allowed=is_approval(answer))
        return turn.result

    def _answer(self, asked: ThreadQuestion[Any, Any]) -> None:
        match asked:
            case PendingQuestion():
                self._prompter.answer(asked)
            case PendingApproval():
                self._prompter.approve_other(asked)
            case _:
                raise AssertionError("there are no other questions")


def without_secrets(error: ModelFailed, secrets: tuple[str, ...]) -> ModelFailed:
    """The error without secrets: providers quote keys, and URLs contain passwords."""
    reason = str(error).removeprefix(f"model {error.model!r}: ")
    return ModelFailed(redacted(error.model, secrets), redacted(reason, secrets), error.status)
