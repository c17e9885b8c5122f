"""Ctrl-C in a turn of a chat, at the worst moment: while something is being drawn."""

import os
import signal

import pytest

from toolbus.agent import Agent, RunEvent, RunResult, TextDelta
from toolbus.cli.chat.asking import Asking
from toolbus.cli.chat.backstage import backstage
from toolbus.cli.chat.turns import Turns
from toolbus.cli.output.screen import Screen, Settings
from toolbus.testing import ScriptedModel


class Drawing:
    """A view that Ctrl-C comes upon in the middle of a drawing."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def begin(self) -> None:
        self.drawn.append("begun")

    def hear(self, event: RunEvent) -> None:
        assert isinstance(event, TextDelta)
        os.kill(os.getpid(), signal.SIGINT)
        self.drawn.append(event.text)

    def settled(self, call: str, *, allowed: bool) -> None:
        raise AssertionError("nobody was asked")

    def pause(self) -> None:
        raise AssertionError("nobody was asked")

    def go_on(self) -> None:
        raise AssertionError("nobody was asked")

    def finish(self, result: RunResult[str]) -> None:
        raise AssertionError("it was not stopped")

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.drawn.append("stopped")


def test_ctrl_c_stops_the_turn_once_what_is_being_drawn_is_drawn() -> None:
    view = Drawing()
    with backstage() as stage:
        agent = stage.held(Agent(model=ScriptedModel(["One two three."])))
        with pytest.raises(KeyboardInterrupt):
            Turns(stage, agent, view, Asking(Screen(Settings()), None), ()).take("go")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert view.drawn[0] == "begun"
    assert len(view.drawn) == 3, "more was heard after Ctrl-C"
    assert view.drawn[-1] == "stopped"
