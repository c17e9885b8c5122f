"""A catalog that stays alive: change notices of both eras end in one event."""

import asyncio

import pytest

from tests.conftest import Place
from tests.patience import PATIENCE
from toolbus import Tool, Toolbus, ToolNotFound
from toolbus.events import CallEnded, CallStarted, CatalogChanged, Event, StateChanged

pytestmark = pytest.mark.anyio


async def _changed(events: object) -> CatalogChanged:
    async with asyncio.timeout(PATIENCE):
        async for event in events:  # type: ignore[attr-defined]
            if isinstance(event, CatalogChanged):
                return event
    raise AssertionError("the bus ended without a change")


async def test_a_tool_that_comes_and_goes_is_announced_and_callable_meanwhile(place: Place) -> None:
    name = f"grown_{place.transport}_{place.era}"
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        events = bus.events()
        await bus.call("day_grow", {"name": name})
        came = await _changed(events)
        answer = await bus.call(f"day_{name}")
        await bus.call("day_shrink", {"name": name})
        went = await _changed(events)
        with pytest.raises(ToolNotFound):
            await bus.call(f"day_{name}")
    assert (came.added, came.removed, came.changed) == ((f"day_{name}",), (), ())
    assert answer.text == f"I am {name}"
    assert (went.added, went.removed, went.changed) == ((), (f"day_{name}",), ())


class Registry:
    """A host's registry, as the seeds have them."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def add_tool(self, tool: Tool) -> None:
        self.tools[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        del self.tools[name]


async def test_a_registry_follows_the_catalog_and_is_emptied_at_the_end(place: Place) -> None:
    name = f"reg_{place.transport}_{place.era}"
    everything, chosen = Registry(), Registry()
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        bus.register_into(everything)
        bus.register_into(chosen, tools=["day_echo", "day/add"])
        assert sorted(everything.tools) == sorted(bus.catalog.names)
        events = bus.events()
        await bus.call("day_grow", {"name": name})
        await _changed(events)
        assert f"day_{name}" in everything.tools
        await bus.call("day_shrink", {"name": name})
        await _changed(events)
        assert sorted(everything.tools) == sorted(bus.catalog.names)
        assert sorted(chosen.tools) == ["day_add", "day_echo"]
        assert (await chosen.tools["day_add"].execute(a=1, b=1)).text == "2"
    assert (everything.tools, chosen.tools) == ({}, {})


async def test_what_happens_is_told_as_typed_events_to_listener_and_callback(place: Place) -> None:
    heard: list[Event] = []
    async with Toolbus({"servers": {"day": place.config()}}, on_event=heard.append) as bus:
        events = bus.events()
        await bus.call("day_fail")
    told = [event async for event in events]
    states = [e.state for e in heard if isinstance(e, StateChanged)]
    assert states == ["connecting", "ready", "closed"]
    [started] = [e for e in told if isinstance(e, CallStarted)]
    [ended] = [e for e in told if isinstance(e, CallEnded)]
    assert (started.name, started.server, started.tool) == ("day_fail", "day", "fail")
    assert (ended.id, ended.is_error, ended.error) == (started.id, True, None)
    assert [e for e in heard if e in told] == told


async def test_servers_are_added_and_removed_while_the_bus_runs(place: Place) -> None:
    async with Toolbus({"servers": {"one": place.config(include=["echo"])}}) as bus:
        await bus.add_server("two", place.config(include=["add"]))
        assert bus.catalog.names == ("one_echo", "two_add")
        assert (await bus.call("two_add", {"a": 1, "b": 2})).text == "3"
        await bus.remove_server("one")
        assert bus.catalog.names == ("two_add",)
        assert list(bus.servers) == ["two"]


async def test_a_reload_applies_only_the_difference(place: Place) -> None:
    kept, changed = place.config(include=["echo"]), place.config(include=["add"])
    async with Toolbus({"servers": {"kept": kept, "changed": changed, "gone": kept}}) as bus:
        since = {alias: status.since for alias, status in bus.servers.items()}
        await bus.reload({"servers": {"kept": kept, "changed": changed | {"include": ["fail"]}, "new": kept}})
        assert bus.catalog.names == ("kept_echo", "changed_fail", "new_echo")
        assert bus.servers["kept"].since == since["kept"]
        assert bus.servers["changed"].since > since["changed"]
        assert {s.state for s in bus.servers.values()} == {"ready"}
