"""Run a chat: start the servers, run the turns, close everything."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from toolbus.agent import Agent, ModelFailed
from toolbus.agent.models import Model, model_of
from toolbus.cli.chat.background import background_loop
from toolbus.cli.chat.conversation import Conversation, without_secrets
from toolbus.cli.chat.dialog import Dialog
from toolbus.cli.chat.json_view import JsonView
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.chat.models import ModelChoice, advice, display_name
from toolbus.cli.chat.options import ChatOptions
from toolbus.cli.chat.prompter import Prompter
from toolbus.cli.chat.sign_in import ChatSignIn, FailedCalls
from toolbus.cli.chat.view import TerminalView, View
from toolbus.cli.input.elicitation import at_terminal
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import UNATTENDED, command_line, open_bus
from toolbus.cli.sign_in import tokens_of
from toolbus.config import BusConfig
from toolbus.core.ask.interactions import Interactions
from toolbus.core.values.errors import ServerDown

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


def run_chat(
    screen: Screen, config: BusConfig, options: ChatOptions, choice: ModelChoice, prompt: str | None
) -> int:
    """Answer the prompt, or run a dialog without one; return the exit code."""
    model = create_model(choice)
    with background_loop() as loop:
        asking = Interactions(elicit=loop.elicit, approve=loop.approve, approver="terminal")
        interactions = asking if at_terminal(screen) else UNATTENDED
        tokens = tokens_of(config)  # one store for the bus and for signing in, also if it is in memory
        failed = FailedCalls()
        bus = loop.enter(
            open_bus(screen, config, config.servers, failed.on_event, interactions, tokens=tokens)
        )
        keyboard = Keyboard() if sys.stdin is not None and sys.stdin.isatty() else None
        own_keyboard = keyboard if at_terminal(screen) else None
        sign_in = ChatSignIn(screen, own_keyboard, loop, bus, config, tokens, failed)
        sign_in.offer()
        _report_down_servers(screen, config, bus)

        def agent_with(model: Model) -> Agent:
            loop.enter(model)  # its HTTP client
            return loop.enter(Agent(model, tools=[bus.view(caller=command_line())], approve=options.approve))

        prompter = Prompter(screen, own_keyboard)
        view = _view(screen, options, is_dialog=prompt is None)
        conversation = Conversation(loop, agent_with(model), view, prompter, choice.secrets)
        if prompt is not None:
            conversation.send(prompt)
            return 0
        assert keyboard is not None, "without a prompt there is a terminal"

        def switch_model(name: str) -> None:
            other = replace(choice, model=name)
            conversation.switch_agent(agent_with(create_model(other)), other.secrets)

        dialog = Dialog(screen, keyboard, conversation, bus, switch_model, sign_in)
        return dialog.run(display_name(choice.model))


def create_model(choice: ModelChoice) -> Model:
    """Create the model; raises `ModelFailed` with a hint for the terminal."""
    try:
        return model_of(choice.model, choice.keys)
    except ModelFailed as error:
        plain = without_secrets(error, choice.secrets)
        reason = advice(str(plain).removeprefix(f"model {plain.model!r}: "))
        raise ModelFailed(plain.model, reason) if reason else plain from None


def _view(screen: Screen, options: ChatOptions, *, is_dialog: bool) -> View:
    if screen.as_json:
        return JsonView(options.out)
    return TerminalView(screen, options.out, streams=is_dialog or screen.out.is_terminal)


def _report_down_servers(screen: Screen, config: BusConfig, bus: "Toolbus") -> None:
    """Print the servers that are down; raises `ServerDown` if one is required."""
    for alias, status in bus.servers.items():
        if status.state == "ready":
            continue
        reason = (status.error or "").removeprefix(f"server {alias!r}: ")
        if config.servers[alias].required:
            raise ServerDown(alias, status.state, reason)
        screen.note(f"server {alias!r}: not connected ({status.state}): {reason}")
