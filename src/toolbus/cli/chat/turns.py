"""One turn after another: a prompt goes to the agent, what happens is shown, a person is asked."""

from collections.abc import Mapping

from toolbus.agent import Agent, ApprovalAsked, ModelFailed, RunResult
from toolbus.cli.chat.asking import Asking
from toolbus.cli.chat.backstage import Asked, Backstage, Turn
from toolbus.cli.chat.view import View
from toolbus.config.secrets.redact import redacted
from toolbus.core.records import Prompt


class Turns:
    """The turns of one chat."""

    def __init__(
        self, stage: Backstage, agent: Agent, view: View, asking: Asking, secrets: tuple[str, ...]
    ) -> None:
        self._stage = stage
        self.agent = agent
        self._view = view
        self._asking = asking
        self._secrets = secrets

    def change(self, agent: Agent, secrets: tuple[str, ...]) -> None:
        """Go on with another agent, which is told what was said."""
        agent.history = self.agent.history
        self.agent, self._secrets = agent, secrets

    def take(self, prompt: str) -> None:
        """Answer a prompt; raises what ended the turn early. Ctrl-C ends it."""
        self._forget_unsent()
        self._take(prompt)

    def use(self, prompt: Prompt, arguments: Mapping[str, str]) -> None:
        """Answer a prompt of a server, filled in."""
        self._forget_unsent()
        self._view.begin()
        try:
            self._stage.wait(self.agent.use_prompt(prompt.server, prompt.name, arguments))
        finally:
            self._view.pause()
        self._take(None)

    def _forget_unsent(self) -> None:
        """A prompt of a server whose turn failed must not go along with what is said next."""
        said = self.agent.history
        self.agent.clear()
        self.agent.history = said

    def _take(self, prompt: str | None) -> None:
        turn = self._stage.turn(self.agent, prompt)
        with turn.interrupts_waiting():
            try:
                result = self._followed(turn)
            except BaseException as error:
                turn.stop()
                self._view.stop()
                if isinstance(error, ModelFailed) and redacted(str(error), self._secrets) != str(error):
                    # Without what it came from: that says the same, and --debug would print it.
                    raise without_secrets(error, self._secrets) from None
                raise
            self._view.finish(result)

    def _followed(self, turn: Turn) -> RunResult[str]:
        self._view.begin()
        for event in turn:
            if isinstance(event, Asked):
                self._view.pause()
                with turn.interrupts_all():
                    self._asking.answer(event)
                self._view.go_on()
                continue
            self._view.hear(event)
            if isinstance(event, ApprovalAsked):
                with turn.interrupts_all():
                    decision = self._asking.decide(event)
                turn.settle(event, decision)
                self._view.settled(event.id, allowed=decision is True)
        return turn.result


def without_secrets(error: ModelFailed, secrets: tuple[str, ...]) -> ModelFailed:
    """The error as it may be printed: providers quote keys, and addresses hold passwords."""
    reason = str(error).removeprefix(f"model {error.model!r}: ")
    return ModelFailed(redacted(error.model, secrets), redacted(reason, secrets), error.status)
