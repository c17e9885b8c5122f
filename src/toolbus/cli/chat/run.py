"""Run a chat: start the servers, run the turns, close everything."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.adapters.approval import ApprovalMode
from toolbus.agent import Agent, ModelFailed
from toolbus.agent.models import Model, model_of
from toolbus.cli.chat.background import background_loop
from toolbus.cli.chat.conversation import ChatTurns, Prompter, without_secrets
from toolbus.cli.chat.dialog import ChatSignIn, Dialog, FailedCalls
from toolbus.cli.chat.models import ModelChoice, advice, display_name
from toolbus.cli.chat.view import ChatView, JsonView, TerminalView
from toolbus.cli.input.elicitation import at_terminal
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import UNATTENDED, command_line, open_bus
from toolbus.cli.sign_in import tokens_of
from toolbus.config import BusConfig
from toolbus.core.ask.interactions import Interactions, QuestionRouting
from toolbus.core.values.errors import ServerDown

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


def run_chat(
    screen: Screen,
    config: BusConfig,
    choice: ModelChoice,
    prompt: str | None,
    approve: ApprovalMode,
    out: Path | None,
) -> int:
    """Answer the prompt, or run a dialog without one; return the exit code."""
    model = create_model(choice)
    can_ask = at_terminal(screen)
    with background_loop() as loop:
        asking = Interactions(
            elicit=loop.elicit, approve=loop.approve, _routing=QuestionRouting(approver="terminal")
        )
        interactions = asking if can_ask else UNATTENDED
        tokens = tokens_of(config)  # one store for the bus and for signing in, also if it is in memory
        failed = FailedCalls()
        started = [alias for alias, server in config.servers.items() if not server.lazy]
        bus = loop.enter(open_bus(screen, config, started, failed.on_event, interactions, tokens=tokens))
        sign_in = ChatSignIn(screen, loop, bus, config, tokens, failed, can_ask=can_ask)
        sign_in.offer()
        _report_down_servers(screen, config, bus)

        def agent_with(model: Model) -> Agent:
            loop.enter(model)  # its HTTP client
            return loop.enter(Agent(model, tools=[bus.view(caller=command_line())], approve=approve))

        prompter = Prompter(screen, can_ask=can_ask)
        view = _view(screen, out, is_dialog=prompt is None)
        conversation = ChatTurns(loop, agent_with(model), view, prompter, choice.secrets)
        if prompt is not None:
            conversation.send(prompt)
            return 0

        def switch_model(name: str) -> None:
            other = replace(choice, model=name)
            conversation.switch_agent(agent_with(create_model(other)), other.secrets)

        dialog = Dialog(screen, conversation, bus, switch_model, sign_in)
        return dialog.run(display_name(choice.model))


def create_model(choice: ModelChoice) -> Model:
    """Create the model; raises `ModelFailed` with a hint for the terminal."""
    try:
        return model_of(choice.model, choice.keys)
    except ModelFailed as error:
        plain = without_secrets(error, choice.secrets)
        reason = advice(str(plain).removeprefix(f"model {plain.model!r}: "))
        raise ModelFailed(plain.model, reason) if reason else plain from None


def _view(screen: Screen, out: Path | None, *, is_dialog: bool) -> ChatView:
    if screen.as_json:
        return JsonView(out)
    return TerminalView(screen, out, streams=is_dialog or screen.out.is_terminal)


def _report_down_servers(screen: Screen, config: BusConfig, bus: "Toolbus") -> None:
    """Print the servers that are down; raises `ServerDown` if one is required."""
    for alias, status in bus.servers.items():
        if status.state == "ready":
            continue
        reason = (status.error or "").removeprefix(f"server {alias!r}: ")
        if config.servers[alias].required:
            raise ServerDown(alias, status.state, reason)
        screen.note(f"server {alias!r}: not connected ({status.state}): {reason}")
