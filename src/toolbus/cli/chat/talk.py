"""A chat from its first word to its last: servers up, turns one after another, all closed again."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from toolbus.agent import Agent, ModelFailed
from toolbus.agent.models import Model, model_of
from toolbus.cli.chat.asking import Asking
from toolbus.cli.chat.backstage import backstage
from toolbus.cli.chat.dialog import Dialog
from toolbus.cli.chat.jsonlines import JsonLines
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.chat.models import Choice, advice, shown
from toolbus.cli.chat.turns import Turns, without_secrets
from toolbus.cli.chat.view import Shown, View
from toolbus.cli.chat.wanted import Wanted
from toolbus.cli.input.questions import at_terminal
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import UNATTENDED, opened
from toolbus.config import BusConfig
from toolbus.core.errors import ServerDown
from toolbus.core.interactions import Interactions

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


def talk(screen: Screen, config: BusConfig, wanted: Wanted, choice: Choice, prompt: str | None) -> int:
    """Answer the prompt, or without one whatever a person asks; gives the exit code."""
    model = _made(choice)
    with backstage() as stage:
        person = Interactions(elicit=stage.elicit) if at_terminal(screen) else UNATTENDED
        bus = stage.held(opened(screen, config, config.servers, interactions=person))
        _check(screen, config, bus)

        def agent_with(model: Model) -> Agent:
            stage.held(model)  # its HTTP client
            return stage.held(Agent(model, tools=[bus], approve=wanted.approve))

        keyboard = Keyboard() if sys.stdin is not None and sys.stdin.isatty() else None
        asking = Asking(screen, keyboard if at_terminal(screen) else None)
        view = _view(screen, wanted, is_dialog=prompt is None)
        turns = Turns(stage, agent_with(model), view, asking, choice.secrets)
        if prompt is not None:
            turns.take(prompt)
            return 0
        assert keyboard is not None, "without a prompt there is a terminal"

        def change(name: str) -> None:
            other = replace(choice, model=name)
            turns.change(agent_with(_made(other)), other.secrets)

        return Dialog(screen, keyboard, turns, bus, change).run(shown(choice.model))


def _made(choice: Choice) -> Model:
    """The model; `ModelFailed` says what to do in a terminal."""
    try:
        return model_of(choice.model, choice.keys)
    except ModelFailed as error:
        plain = without_secrets(error, choice.secrets)
        reason = advice(str(plain).removeprefix(f"model {plain.model!r}: "))
        raise ModelFailed(plain.model, reason) if reason else plain from None


def _view(screen: Screen, wanted: Wanted, *, is_dialog: bool) -> View:
    if screen.as_json:
        return JsonLines(wanted.out)
    return Shown(screen, wanted.out, streams=is_dialog or screen.out.is_terminal)


def _check(screen: Screen, config: BusConfig, bus: "Toolbus") -> None:
    """Say which servers are down; `ServerDown` if one of them is required."""
    for alias, status in bus.servers.items():
        if status.state == "ready":
            continue
        reason = (status.error or "").removeprefix(f"server {alias!r}: ")
        if config.servers[alias].required:
            raise ServerDown(alias, status.state, reason)
        screen.note(f"server {alias!r}: not connected ({status.state}): {reason}")
