"""Servers that are switched on and off while a bus runs, and buses that are opened without a file."""

import asyncio
from typing import Any

import pytest

from tests.patience import PATIENCE, until
from toolbus import ConfigError, ServerNotFound, SyncToolbus, Toolbus, ToolNotFound
from toolbus.events import CatalogChanged, Event
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio


def served() -> FakeServer:
    def ping() -> str:
        return "pong"

    return FakeServer([ping])


def config(**servers: Any) -> dict[str, Any]:
    return {"servers": {alias: {"server": served()} | more for alias, more in servers.items()}}


async def test_a_server_that_the_config_disables_can_be_enabled_and_is_where_it_would_have_been() -> None:
    given = config(a={}, b={"enabled": False}, c={})
    async with Toolbus(given) as bus:
        events = bus.events(CatalogChanged)
        await bus.enable("b")
        await bus.enable("b")
        assert (await anext(events)).added == ("b_ping",)
        switched = bus.catalog.names, list(bus.servers), bus.config.disabled
        await bus.disable("b")
        assert (await anext(events)).removed == ("b_ping",)
        assert (list(bus.servers), bus.config.disabled) == (["a", "c"], ("b",))
    given["servers"]["b"] = given["servers"]["b"] | {"enabled": True}
    async with Toolbus(given) as other:
        assert (other.catalog.names, list(other.servers), other.config.disabled) == switched


async def test_a_disabled_server_is_gone_from_every_view_and_comes_back_to_each() -> None:
    async with Toolbus(config(a={}, b={})) as bus:
        one, other, ann = bus.view(servers="a"), bus.view(servers=["a", "b"]), bus.as_user("ann")
        seen = [one, other, ann]
        before = [view.catalog.names for view in seen]
        await bus.disable("a")
        assert [view.catalog.names for view in seen] == [(), ("b_ping",), ("b_ping",)]
        for view in seen:
            with pytest.raises(ToolNotFound) as unknown:
                await view.call("a_ping")
            assert unknown.value.sent is False
        with pytest.raises(ServerNotFound, match="it is disabled; enable it first"):
            bus.view(servers="a")
        await bus.enable("a")
        assert [view.catalog.names for view in seen] == before
        assert [(await view.call("a/ping")).text for view in seen] == ["pong"] * 3


async def test_enabling_another_server_does_not_disturb_a_call_that_waits() -> None:
    entered, opened = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        entered.set()
        await opened.wait()
        return "done"

    servers = {"slow": {"server": FakeServer([wait])}, "b": {"server": served(), "enabled": False}}
    async with asyncio.timeout(PATIENCE), Toolbus({"servers": servers}) as bus:
        waiting = asyncio.create_task(bus.call("slow_wait"))
        await entered.wait()
        await bus.enable("b")
        assert (await bus.call("b_ping")).text == "pong"
        await bus.disable("b")
        opened.set()
        assert (await waiting).text == "done"


async def test_a_reload_keeps_what_was_switched_until_the_config_says_the_same() -> None:
    given = config(a={}, b={"enabled": False})
    off = {"servers": given["servers"] | {"a": given["servers"]["a"] | {"enabled": False}}}
    async with Toolbus(given) as bus:
        await bus.disable("a")
        await bus.enable("b")
        await bus.reload(given)
        assert bus.catalog.names == ("b_ping",)
        await bus.reload(off)  # now both say so
        assert bus.catalog.names == ("b_ping",)
        await bus.reload(given)
        assert bus.catalog.names == ("a_ping", "b_ping")
        await bus.reload({"servers": {"a": given["servers"]["a"]}})
        with pytest.raises(ServerNotFound):
            await bus.enable("b")


async def test_a_disabled_server_can_be_removed_and_its_alias_is_taken_until_then() -> None:
    async with Toolbus(config(a={}, b={"enabled": False})) as bus:
        with pytest.raises(ConfigError, match="already exists"):
            await bus.add_server("b", served())
        await bus.remove_server("b")
        await bus.add_server("b", served())
        assert bus.catalog.names == ("a_ping", "b_ping")
        for switch in (bus.enable, bus.disable):
            with pytest.raises(ServerNotFound, match="did you mean 'b'"):
                await switch("bb")


async def test_a_wrong_entry_of_a_disabled_server_is_told_when_it_is_enabled() -> None:
    async with Toolbus({"servers": {"a": {"server": served()}, "b": {"enabled": False, "urll": "x"}}}) as bus:
        with pytest.raises(ConfigError, match="urll"):
            await bus.enable("b")
        assert (bus.catalog.names, bus.config.disabled) == (("a_ping",), ("b",))


def test_servers_as_keywords_are_the_same_config() -> None:
    fake = served()
    keywords = {"self": "https://a.test/mcp", "hooks": ["npx", "-y", "x"], "c": {"command": "d"}, "e": fake}
    written = {
        "naming": "{tool}",
        "servers": {
            "self": "https://a.test/mcp",
            "hooks": {"command": "npx", "args": ["-y", "x"]},
            "c": {"command": "d"},
            "e": {"server": fake},
        },
    }
    events: list[Event] = []
    made = [kind.from_servers({"naming": "{tool}", "on_event": events.append}, **keywords)
            for kind in (Toolbus, SyncToolbus)]  # fmt: skip
    assert [bus.config for bus in made] == [Toolbus(written).config] * 2
    wrong_options: list[dict[str, Any]] = [{"servers": {}}, {"hokks": []}]
    for wrong in wrong_options:
        with pytest.raises((TypeError, ConfigError)):
            Toolbus.from_servers(wrong, a="https://a.test")
    with pytest.raises(ConfigError, match="neither command nor url"):
        Toolbus.from_servers(a=[])


def test_a_synchronous_bus_switches_servers_and_filters_events() -> None:
    with SyncToolbus.from_servers(a=served(), b={"server": served(), "enabled": False}) as bus:
        events = bus.events(CatalogChanged)
        bus.enable("b")
        bus.disable("a")
        seen = [next(events), next(events)]
        assert [(event.added, event.removed) for event in seen] == [(("b_ping",), ()), ((), ("a_ping",))]
        assert bus.tool("b/ping").execute().text == "pong"


async def test_events_of_several_types_are_filtered_and_others_are_not_types() -> None:
    async with Toolbus(config(a={})) as bus:
        view = bus.view(servers="a").events(CatalogChanged)
        await bus.call("a_ping")
        await bus.disable("a")
        assert (await anext(view)).removed == ("a_ping",)
        with pytest.raises(TypeError, match="is not a type of event"):
            bus.events(ToolNotFound)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await until(lambda: not bus.running)
