"""Run the turns of a chat: send a prompt to the agent, show events, ask the user."""

from collections.abc import Coroutine, Mapping
from typing import Any

from toolbus.agent import Agent, ApprovalAsked, ModelFailed, RunResult
from toolbus.cli.chat.background import Asked, BackgroundLoop, PendingApproval, PendingQuestion, Turn
from toolbus.cli.chat.prompter import Prompter
from toolbus.cli.chat.view import View
from toolbus.config.secrets.redact import redacted
from toolbus.core.ask.approval import is_approval
from toolbus.core.values.records import Prompt


class Conversation:
    """The turns of one chat."""

    def __init__(
        self, loop: BackgroundLoop, agent: Agent, view: View, prompter: Prompter, secrets: tuple[str, ...]
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
        turn = Turn(self._loop, self.agent, prompt, prepare)
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

    def _follow(self, turn: Turn) -> RunResult[str]:
        self._view.begin()
        for event in turn:
            if isinstance(event, Asked):
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

    def _answer(self, asked: Asked[Any, Any]) -> None:
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
