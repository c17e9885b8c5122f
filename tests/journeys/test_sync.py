"""A bus without a loop does what the other one does: events, registries, sessions."""

import threading
from typing import Any

from tests.servers.everyday import everyday
from tests.users.counting_bus import counting
from toolbus import SyncToolbus
from toolbus.events import CallEnded, CallStarted, Event, StateChanged
from toolbus.sync import SyncTool


def config() -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}}}


class Shelf:
    """A user's registry, without an idea of asyncio."""

    def __init__(self) -> None:
        self.tools: dict[str, SyncTool] = {}

    def add_tool(self, tool: SyncTool, /) -> None:
        self.tools[tool.name] = tool

    def remove_tool(self, name: str, /) -> None:
        del self.tools[name]


def test_events_are_read_with_a_plain_loop_until_the_bus_stops() -> None:
    with SyncToolbus(config()) as bus:
        events = bus.events()
        bus.call("day_add", {"a": 1, "b": 2})
    assert [(type(event), getattr(event, "name", None)) for event in events] == [
        (CallStarted, "day_add"),
        (CallEnded, "day_add"),
        (StateChanged, None),
    ]


def test_a_thread_that_waits_for_events_gets_them_at_once_and_ends_with_the_bus() -> None:
    received: list[Event] = []
    first = threading.Event()

    def follow() -> None:
        for event in events:
            received.append(event)
            first.set()

    with SyncToolbus(config()) as bus:
        events = bus.view(include="day_add").events()
        follower = threading.Thread(target=follow)
        follower.start()
        bus.call("day_add", {"a": 1, "b": 2})
        assert first.wait(60)
    follower.join(60)
    assert not follower.is_alive()
    assert [type(event) for event in received[:2]] == [CallStarted, CallEnded]


def test_a_registry_gets_tools_that_run_without_a_loop_and_is_emptied_with_the_bus() -> None:
    shelf, chosen = Shelf(), Shelf()
    with SyncToolbus(config()) as bus:
        bus.register_into(shelf)
        bus.register_into(shelf)  # once more: the same registry, so nothing is added twice
        bus.register_into(chosen, [bus.tools()[0], "day_add"])
        assert tuple(shelf.tools) == bus.catalog.names
        assert set(chosen.tools) == {bus.tools()[0].name, "day_add"}
        assert shelf.tools["day_add"].execute(a=1, b=2).structured == {"result": 3}
        assert list(bus.inventories) == list(bus.config.servers) == ["day"]
        assert (bus.failures, bus.lock, bus.running) == ({}, None, True)
        bus.remove_server("day")
        assert [name for name in shelf.tools if name.startswith("day")] == []
    assert (shelf.tools, bus.running) == ({}, False)


def test_a_session_has_its_own_connection_and_ends() -> None:
    with SyncToolbus({"servers": {"me": counting()}}) as bus:
        bus.max_sessions = 1
        one = bus.as_user("", session="one")
        assert [one.call("me_count").text, one.call("me_count").text] == ["1", "2"]
        one.close()
        other = bus.as_user("", session="other")
        assert other.call("me_count").text == "1"
    other.close()
