"""Ctrl-C in a turn of a chat, at the worst moment: while something is being drawn."""

import os
import signal

import pytest

from tests.inside.cli import ChatTurns, ChatView, Prompter, Screen, SharedOptions, background_loop
from toolbus.agent import Agent, RunEvent, RunResult, TextDelta
from toolbus.testing import ScriptedModel


class Drawing(ChatView):
    """A view that Ctrl-C comes upon in the middle of a drawing."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def begin(self) -> None:
        self.drawn.append("begun")

    def on_event(self, event: RunEvent) -> None:
        assert isinstance(event, TextDelta)
        os.kill(os.getpid(), signal.SIGINT)
        self.drawn.append(event.text)

    def approval_settled(self, call: str, *, allowed: bool) -> None:
        raise AssertionError("nobody was asked")

    def pause(self) -> None:
        raise AssertionError("nobody was asked")

    def resume(self) -> None:
        raise AssertionError("nobody was asked")

    def finish(self, result: RunResult[str]) -> None:
        raise AssertionError("it was not stopped")

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.drawn.append("stopped")


def test_ctrl_c_stops_the_turn_once_what_is_being_drawn_is_drawn() -> None:
    view = Drawing()
    with background_loop() as loop:
        agent = loop.enter(Agent(model=ScriptedModel(["One two three."])))
        with pytest.raises(KeyboardInterrupt):
            ChatTurns(loop, agent, view, Prompter(Screen(SharedOptions()), can_ask=False), ()).send("go")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert view.drawn[0] == "begun"
    assert len(view.drawn) == 3, "more was heard after Ctrl-C"
    assert view.drawn[-1] == "stopped"
