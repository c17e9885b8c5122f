"""The lines of a running gateway: each event once, with whose it is."""

import json

import pytest

from tests.inside.cli import Screen, ServeLog, SharedOptions
from tests.inside.core import Event, StateChanged, ToolHeld


def test_an_event_of_several_views_is_one_line_with_its_user(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = ServeLog(Screen(SharedOptions(json=True)))
    held = ToolHeld(server="mail", tool="send", reason="it has changed")
    lost = StateChanged(server="mail", state="retrying", previous="ready", error="the connection was lost")
    back = StateChanged(server="mail", state="ready", previous="retrying")
    events: list[Event] = [held, held, lost, back, back]
    for event, user in zip(events, ("ann", "ann", "ann", "bob", "ann"), strict=True):
        log.on_event(event, user)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["user"]) for line in lines] == [
        ("ToolHeld", "ann"),
        ("StateChanged", "ann"),
        ("StateChanged", "ann"),
    ]
