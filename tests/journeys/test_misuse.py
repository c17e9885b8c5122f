"""Mistakes of users and their own code: reported at once, and nothing else broken."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Fifo, scripted
from tests.conftest import Place, plain
from tests.inside.bus import calls_of
from tests.patience import PATIENCE, until
from toolbus import ArgumentsError, ConnectFailed, ShaperFailed, Tool, Toolbus, ToolNotFound, ToolResult
from toolbus.call import Next, Operation
from toolbus.events import Event, Warned
from toolbus.records import ToolSpec
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


async def test_half_an_emoji_costs_only_its_own_call(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        other = asyncio.create_task(bus.call("day_meet", {"mine": place.era + "j", "other": place.era + "j"}))
        if place.transport == "memory":  # where nothing is turned into bytes
            assert (await bus.call("day_echo", {"text": "\ud83d"})).text == "\ud83d"
        else:
            with pytest.raises(ArgumentsError):
                await bus.call("day_echo", {"text": "\ud83d"})
        assert not (await other).is_error
        assert bus.servers["day"].restarts == 0


async def test_an_argument_whose_name_is_no_text_is_refused(place: Place) -> None:
    arguments: Any = {1: "x"}
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        with pytest.raises(ArgumentsError, match="names must be strings, not 1"):
            await bus.call("day_echo", arguments)


def test_a_callback_that_waits_for_its_own_bus_is_told_so() -> None:
    caught: list[BaseException] = []

    def on_event(_: Event) -> None:
        try:
            bus.call("a_echo")
        except RuntimeError as error:
            caught.append(error)

    bus = SyncToolbus({"servers": {"a": plain()}}, on_event=on_event)
    with bus:
        bus.call("a_echo", {"text": "x"})
    assert "cannot wait for the bus it runs on" in str(caught[0])


class Strict:
    """A registry that refuses one tool."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add_tool(self, tool: Tool) -> None:
        if tool.name == "two_echo":
            raise ValueError("no thanks")
        self.names.append(tool.name)


async def test_a_registry_that_raises_hurts_neither_servers_nor_catalog() -> None:
    registry = Strict()
    async with Toolbus({"servers": {"one": plain()}}) as bus:
        bus.register_into(registry)
        await bus.add_server("two", plain())
        assert bus.catalog.names == ("one_echo", "two_echo")
        await bus.add_server("three", plain())
        assert registry.names == ["one_echo", "three_echo"]
        assert (await bus.call("three_echo", {"text": "fine"})).text == "fine"


async def test_a_shaper_that_raises_is_named() -> None:
    def careless(tools: list[ToolSpec]) -> list[ToolSpec]:
        raise KeyError("missing")

    with pytest.raises(ShaperFailed) as caught:
        await Toolbus({"servers": {"a": plain()}}, shapers=[careless]).start()
    assert caught.value.shaper.endswith("careless")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["sleep", "600"], "timed out after 1 s"),
        (["yes"], r"timed out after 1 s|more than 100,000 messages .* check that the command starts an MCP"),
    ],
)
async def test_a_program_that_is_no_server_is_given_up_in_the_time_for_connecting(
    command: list[str], reason: str
) -> None:
    config = {"command": command[0], "args": command[1:], "timeouts": {"connect": 1}}

    async with asyncio.timeout(PATIENCE), Toolbus({"servers": {"a": config}}) as bus:
        assert bus.servers["a"].state == "failed"
        assert re.search(reason, str(bus.servers["a"].error))


async def test_events_of_a_stopped_bus_are_over() -> None:
    bus = Toolbus({"servers": {"a": plain()}})
    await bus.start()
    await bus.stop()
    async with asyncio.timeout(PATIENCE):
        assert [event async for event in bus.events()] == []


async def test_a_hook_that_raises_is_an_error_result_of_execute() -> None:
    async def broken(call: Operation, following: Next) -> ToolResult:
        raise RuntimeError("hook bug")

    async with Toolbus({"servers": {"a": plain()}}, hooks=[broken]) as bus:
        [tool] = bus.tools()
        assert await tool.execute() == ToolResult.failure("RuntimeError: hook bug")
        with pytest.raises(RuntimeError, match="hook bug"):
            await bus.call("a_echo")


async def test_a_reload_that_fails_leaves_everything_as_it_was() -> None:
    async with Toolbus({"servers": {"a": plain()}}) as bus:
        since = bus.servers["a"].since
        with pytest.raises(ConnectFailed):
            await bus.reload({"servers": {"b": {"command": "no-such-program", "required": True}}})
        assert bus.catalog.names == ("a_echo",)
        assert bus.servers["a"].since == since


async def test_a_listener_that_is_there_twice_leaves_one_at_a_time() -> None:
    heard: list[Event] = []
    listener = heard.append
    bus = Toolbus({"servers": {"a": plain()}}, on_event=listener)
    first, _ = bus.on_event(listener), bus.on_event(listener)
    first()
    first()
    calls_of(bus).warn("a", None, "odd")
    assert [event.message for event in heard if isinstance(event, Warned)] == ["odd"] * 2


async def test_an_include_that_matches_nothing_is_a_warning() -> None:
    heard: list[Event] = []
    async with Toolbus({"servers": {"a": plain(include=["ehco", "echo"])}}, on_event=heard.append):
        pass
    assert [e.message for e in heard if isinstance(e, Warned)] == ["include: no tool matches 'ehco'"]


async def test_a_tool_of_a_server_that_is_down_is_not_mistaken_for_a_slip_of_the_pen() -> None:
    servers = {"mine": {"command": "no-such-program"}, "web": plain()}
    async with Toolbus({"servers": servers}) as bus:
        with pytest.raises(ToolNotFound) as caught:
            await bus.call("mine_echo")
    message = (
        "no tool named 'mine_echo' among 1: server 'mine' is not connected (failed): "
        "spawn failed: command 'no-such-program' not found; install it, or give its full path"
    )
    assert (str(caught.value), caught.value.close_matches) == (message, [])


async def test_a_misspelled_tool_of_a_server_that_reconnects_is_suggested(tmp_path: Path) -> None:
    tools = [{"name": name} for name in ("read_file", "write_file")]
    with Fifo(tmp_path / "control") as control:
        entry = scripted(tmp_path, "disk", tools=tools, control=control.path)
        async with Toolbus({"servers": {"disk": entry, "web": plain()}}) as bus:
            # It comes back, and does not answer before it is told to.
            scripted(tmp_path, "disk", tools=tools, control=control.path, waits=True)
            control.say("die")
            await until(lambda: bus.servers["disk"].state != "ready")
            for name in ("disk_raed_file", "read_file", "disk/raed_file"):
                with pytest.raises(ToolNotFound) as caught:
                    await bus.call(name)
                message = str(caught.value)
                assert caught.value.close_matches[0] in ("disk_read_file", "disk/read_file"), name
                assert message.endswith("? (not connected: disk)"), name
            with pytest.raises(ToolNotFound, match=r"server 'disk' is not connected"):
                await bus.call("disk_zzz")
            control.say("go")


@pytest.mark.parametrize("timeout", [0, -1])
async def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    async with Toolbus({"servers": {"a": plain()}}) as bus:
        with pytest.raises(ValueError, match="more than 0"):
            await bus.call("a_echo", timeout=timeout)
        with pytest.raises(TypeError, match="not Tool"):
            await bus.call(bus.tools()[0])  # type: ignore[arg-type]


async def test_a_wrong_timeout_is_refused_before_a_server_is_connected() -> None:
    async with Toolbus({"servers": {"a": {**plain(), "lazy": True}}}) as bus:
        with pytest.raises(ValueError, match="more than 0"):
            await bus.call("a_echo", timeout=0)
        assert bus.servers["a"].state == "idle"
