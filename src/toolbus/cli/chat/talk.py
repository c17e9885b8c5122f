"""A chat from its first word to its last: servers up, turns one after another, all closed again."""

import sys
from typing import TYPE_CHECKING

from toolbus.agent import Agent, ModelFailed
from toolbus.agent.models import model_of
from toolbus.cli.chat.asking import Asking
from toolbus.cli.chat.backstage import backstage
from toolbus.cli.chat.dialog import Dialog
from toolbus.cli.chat.jsonlines import JsonLines
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.chat.models import secrets_of, shown
from toolbus.cli.chat.turns import Turns, without_secrets
from toolbus.cli.chat.view import Shown, View
from toolbus.cli.chat.wanted import Wanted
from toolbus.cli.questions import at_terminal
from toolbus.cli.screen import Screen
from toolbus.cli.session import UNATTENDED, opened
from toolbus.config import BusConfig
from toolbus.errors import ServerDown
from toolbus.interactions import Interactions

if TYPE_CHECKING:
    from toolbus.bus import Toolbus


def talk(screen: Screen, config: BusConfig, wanted: Wanted, model: str, prompt: str | None) -> int:
    """Answer the prompt, or without one whatever a person asks; gives the exit code."""
    secrets = secrets_of(model)
    try:
        the_model = model_of(model)
    except ModelFailed as error:
        raise without_secrets(error, secrets) from None
    with backstage() as stage:
        person = Interactions(elicit=stage.elicit) if at_terminal(screen) else UNATTENDED
        bus = stage.held(opened(screen, config, config.servers, interactions=person))
        _check(screen, config, bus)
        stage.held(the_model)  # its HTTP client
        agent = stage.held(Agent(the_model, tools=[bus], approve=wanted.approve))
        keyboard = Keyboard() if sys.stdin is not None and sys.stdin.isatty() else None
        asking = Asking(screen, keyboard if at_terminal(screen) else None)
        turns = Turns(stage, agent, _view(screen, wanted, is_dialog=prompt is None), asking, secrets)
        if prompt is not None:
            turns.take(prompt)
            return 0
        assert keyboard is not None, "without a prompt there is a terminal"
        return Dialog(screen, keyboard, turns, agent, bus).run(shown(model))


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
