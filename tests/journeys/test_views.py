"""A view is the same API for a part of the bus: some servers, some tools, or another caller."""

from typing import Any

import pytest

from tests.inside.bus import calls_of
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Caller, ServerNotFound, Toolbus, ToolNotFound
from toolbus.events import CallStarted, CatalogChanged, Event
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


def config(**more: Any) -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}, **more}


async def test_a_view_of_servers_shows_and_reaches_these_alone() -> None:
    async with Toolbus(config()) as bus:
        view = bus.view(servers="day")
        assert {spec.origin.server for spec in view.catalog} == {"day"}
        assert [tool.name for tool in view.tools()] == [tool.name for tool in bus.tools("day")]
        assert list(view.servers) == list(await view.health()) == list(await view.wait_ready()) == ["day"]
        assert (
            {item.server for item in view.resources()} == {item.server for item in view.prompts()} == {"day"}
        )
        assert list(view.config.servers) == list(view.inventories) == ["day"]
        assert (await view.call("day_add", {"a": 1, "b": 2})).structured == {"result": 3}
        with pytest.raises(ToolNotFound):
            await view.call("ask_tell", {"text": "x"})
        with pytest.raises(ToolNotFound):
            await view.call("ask/tell", {"text": "x"})
        with pytest.raises(ServerNotFound) as missing:
            await view.read_resource("ask", "board://now")
        assert "known servers: day" in str(missing.value)
        for narrow in (view.resources, view.prompts, view.templates, view.tools):
            with pytest.raises(ServerNotFound):
                narrow("ask")
        with pytest.raises(ServerNotFound):
            view.view(servers=["ask"])


async def test_patterns_choose_tools_by_public_name_or_origin() -> None:
    async with Toolbus(config()) as bus:
        view = bus.view(include=["day_a*", "ask/tel?"])
        assert set(view.catalog.names) == {"day_add", "ask_tell"}
        narrower = view.view(include="day_*")
        assert set(narrower.catalog.names) == {"day_add"}
        with pytest.raises(ToolNotFound):
            await narrower.call("ask_tell", {"text": "x"})
        tool = next(tool for tool in bus.tools() if tool.name == "ask_tell")
        with pytest.raises(ToolNotFound):
            await calls_of(narrower).run(tool.spec, {"text": "x"})


async def test_the_resource_tools_of_a_view_stay_within_its_servers() -> None:
    async with Toolbus(config(resource_tools=True)) as bus:
        view = bus.view(servers=["day"])
        listed = await view.call("list_resources")
        inside = await view.call("read_resource", {"server": "day", "uri": "memo://greeting"})
        with pytest.raises(ServerNotFound):
            await view.call("read_resource", {"server": "ask", "uri": "board://now"})
        other = await view.call("list_resources", {"server": "ask"})
    assert list(listed.structured) == ["day"]
    assert not inside.is_error
    assert other.is_error
    assert "known servers: day" in other.text


async def test_a_view_follows_the_catalog_and_receives_its_own_events_only() -> None:
    async with Toolbus(config()) as bus:
        day, ask = bus.view(servers="day"), bus.view(servers="ask")
        of_day, of_ask = list[Event](), list[Event]()
        day.on_event(of_day.append)
        stop = ask.on_event(of_ask.append)
        listening = day.events()
        await bus.call("day_add", {"a": 1, "b": 2})
        await bus.add_server("more", {"server": everyday()})
        await bus.remove_server("day")
        assert len(day.catalog) == 0
        assert day.servers == {}
        stop()
        await bus.call("ask_tell", {"text": "x"})
    assert [event.server for event in of_day if isinstance(event, CallStarted)] == ["day"]
    [gone] = [event for event in of_day if isinstance(event, CatalogChanged)]
    assert (gone.added, "day_add" in gone.removed) == ((), True)
    assert of_ask == []
    assert [event async for event in listening] == of_day


async def test_a_registry_that_a_view_fills_gets_its_tools_alone_and_calls_for_its_caller() -> None:
    seen: list[Caller] = []

    async def guard(operation: Any) -> None:
        seen.append(operation.caller)

    class Registry(dict[str, Any]):
        def add_tool(self, tool: Any) -> None:
            self[tool.name] = tool

    registry = Registry()
    async with Toolbus(config(), guards=[guard]) as bus:
        ann = Caller(face="host", user="ann", session="1")
        bus.view(servers="day", include="day_a*", caller=ann).register_into(registry)
        assert set(registry) == {"day_add"}
        await registry["day_add"].execute(a=1, b=2)
        assert bus.caller == Caller()
    assert seen == [ann]


def test_the_synchronous_bus_has_views_too() -> None:
    with SyncToolbus(config()) as bus:
        view = bus.view(servers="day", caller=Caller(user="ann"))
        assert view.bus.caller.user == "ann"
        assert {tool.name for tool in view.tools()} == {tool.name for tool in bus.tools("day")}
        assert view.call("day_echo", {"text": "hi"}).text == "hi"
        with pytest.raises(ToolNotFound):
            view.call("ask_tell", {"text": "x"})
