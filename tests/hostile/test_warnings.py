"""Texts of a server or a client that are quoted in warnings, events and errors."""

import logging
from pathlib import Path

import pytest

from tests import warm
from tests.budget import within_budget
from tests.hostile.besieged import besieged
from tests.hostile.wordy import LONG
from tests.inside.core import MOST_CHARACTERS, CallEnded, CallStarted, Event
from toolbus import Answer, Interactions, Toolbus
from toolbus.errors import ServerError, ToolNotFound

ROOT = str(Path(__file__).parents[2])
MOST = MOST_CHARACTERS + 100
"""The maximum length, including the note about the cut."""


def longest(event: Event) -> int:
    return max(len(str(getattr(event, name))) for name in event.__dataclass_fields__)


@pytest.mark.anyio
async def test_a_server_that_is_quoted_at_length(caplog: pytest.LogCaptureFixture) -> None:
    """Every warning, event and log line keeps the beginning of a long text and says how much was cut."""
    events: list[Event] = []
    caplog.set_level(logging.INFO, "toolbus")
    wordy = {"command": warm.python(), "args": ["-m", "tests.hostile.wordy"], "cwd": ROOT, "era": "legacy"}
    config = {"servers": {"wordy": wordy}}
    interactions = Interactions(elicit=lambda _: Answer(action="decline"))
    async with Toolbus(config, interactions=interactions) as bus:
        bus.on_event(events.append)
        for tool in bus.tools():
            tool.definition("google")
        await bus.call("wordy/ask")
    lines = [record.getMessage() for record in caplog.records if record.name == "toolbus"]
    assert [line[:200] for line in lines if len(line) > MOST + 300] == []
    assert [event for event in events if longest(event) > MOST] == []
    assert any("... (299,808 more characters)': left out" in line for line in lines)


def test_an_unknown_tool_with_an_endless_name() -> None:
    """The error quotes the beginning of the name, and finding similar ones takes no time."""
    error = within_budget(lambda: ToolNotFound(LONG * 10, [f"tool_{number}" for number in range(1_000)]))
    assert str(error) == f"no tool named '{'x' * 200}... (2,999,800 more characters)' among 1000"


def test_an_error_of_any_length() -> None:
    """No error message is endless, even with long quotes."""
    error = ServerError("a", LONG)
    assert len(str(error)) < 100_100
    assert str(error).endswith("more characters)")


@pytest.mark.anyio
async def test_calls_of_tools_with_endless_names(tmp_path: Path) -> None:
    """A client that sends such names delays nobody, and its events are short."""
    async with besieged(tmp_path) as gateway:

        async def attack() -> None:
            for _ in range(5):
                answered = await gateway.call("bad", name="x" * 30_000, arguments={})
                assert len(answered.text) < 1_000

        cost = await gateway.cost(attack())
    cost.assert_bearable(mib=50)


@pytest.mark.anyio
async def test_the_events_of_a_call_with_an_endless_name() -> None:
    """The events of a call that is not made quote the beginning of the name."""
    events: list[Event] = []
    async with Toolbus({"servers": {}}) as bus:
        bus.on_event(events.append)
        with pytest.raises(ToolNotFound):
            await bus.call(LONG)
    calls = [event for event in events if isinstance(event, CallStarted | CallEnded)]
    assert len(calls) == 2
    assert max(map(longest, calls)) < 1_000
