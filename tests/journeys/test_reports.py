"""Every call of every caller is reported once, with the reason if it failed."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.agent.stage import final
from tests.conftest import Place, plain
from tests.servers.everyday import everyday
from toolbus import Toolbus, ToolbusError, ToolResult
from toolbus.adapters import anthropic, openai
from toolbus.agent import Agent
from toolbus.call import Next, Operation
from toolbus.events import CallEnded, CallStarted, Event
from toolbus.sync import SyncToolbus
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio
Told = tuple[str, str, str | None, str | None]


async def guard(call: Operation, proceed: Next) -> ToolResult:
    """Refuses `echo` with a result and `add` with an exception; tries `fail` twice."""
    match call.spec.origin.tool:
        case "echo" if call.arguments.get("text") == "forbidden":
            return ToolResult.failure("not today: forbidden")
        case "add" if call.arguments.get("a") == 13:
            raise PermissionError("not 13")
        case "fail":
            await proceed(call)
        case _:
            pass
    return await proceed(call)


def ended(events: list[Event]) -> list[Told]:
    """The calls that ended; each of them began once before."""
    started = [event.id for event in events if isinstance(event, CallStarted)]
    ends = [event for event in events if isinstance(event, CallEnded)]
    assert sorted(started) == sorted(event.id for event in ends)
    assert len(set(started)) == len(started)
    assert all(event.is_error is (event.reason is not None) for event in ends)
    return [(event.server, event.tool, event.reason, event.error) for event in ends]


async def cancelled(bus: Toolbus, started: asyncio.Event) -> None:
    call = asyncio.create_task(bus.call("day_hang"))
    await started.wait()
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


MISSING = "no tool named 'day_ad' among"
CALLS: dict[str, tuple[Callable[[Toolbus], Awaitable[object]], Told]] = {
    "done": (lambda bus: bus.call("day_echo", {"text": "x"}), ("day", "echo", None, None)),
    "refused": (
        lambda bus: bus.call("day_echo", {"text": "forbidden"}),
        ("day", "echo", "refused", "a hook refused the call"),
    ),
    "raised": (
        lambda bus: bus.call("day_add", {"a": 13, "b": 1}),
        ("day", "add", "refused", "a hook raised PermissionError"),
    ),
    "wrong": (
        lambda bus: bus.call("day_add", {"a": "one"}),
        ("day", "add", "invalid_arguments", "wrong arguments; nothing was sent"),
    ),
    "unknown": (lambda bus: bus.call("day_ad"), ("", "day_ad", "unknown_tool", MISSING)),
    "submitted": (lambda bus: bus.submit("day_ad"), ("", "day_ad", "unknown_tool", MISSING)),
    "failed": (lambda bus: bus.call("day_fail"), ("day", "fail", "tool_error", None)),
    "late": (
        lambda bus: bus.call("day_hang", timeout=0.2),
        ("day", "hang", "timed_out", "server 'day': tool 'hang' timed out after 0.2 s"),
    ),
}


@pytest.mark.parametrize("case", CALLS)
async def test_a_call_is_reported_once_with_the_reason(case: str, place: Place) -> None:
    make, (server, tool, reason, error) = CALLS[case]
    events: list[Event] = []
    async with Toolbus({"servers": {"day": place.config()}}, hooks=[guard], on_event=events.append) as bus:
        with suppress(ToolbusError, PermissionError):
            await make(bus)

    [told] = ended(events)
    assert told[:3] == (server, tool, reason)
    assert (told[3] or "").startswith(error or "")
    assert (told[3] is None) == (error is None)


async def test_a_cancelled_call_and_a_server_that_dies_are_told_apart() -> None:
    events: list[Event] = []
    started = asyncio.Event()
    servers: Any = {
        "day": {"server": everyday()},
        "p": {**plain("die_in_call"), "timeouts": {"reconnect": 0}},
    }
    async with Toolbus({"servers": servers}, on_event=events.append) as bus:
        bus.on_event(lambda event: started.set() if isinstance(event, CallStarted) else None)
        await cancelled(bus, started)
        with suppress(ToolbusError):
            await bus.call("p_echo", {"text": "x"})

    [first, second] = ended(events)
    assert first == ("day", "hang", "cancelled", "cancelled")
    assert second[:3] == ("p", "echo", "server_failed")
    assert (second[3] or "").startswith("server 'p': the connection was lost")


async def test_a_tool_that_left_the_catalog_is_reported_as_unknown() -> None:
    events: list[Event] = []
    async with Toolbus({"servers": {"day": {"server": everyday()}}}, on_event=events.append) as bus:
        [echo] = [tool for tool in bus.tools() if tool.name == "day_echo"]
        await bus.remove_server("day")
        assert (await echo.execute(text="x")).is_error

    [told] = ended(events)
    assert told[:3] == ("day", "echo", "unknown_tool")


def test_the_calls_of_a_sync_bus_are_reported_once() -> None:
    events: list[Event] = []
    with SyncToolbus(
        {"servers": {"day": {"server": everyday()}}}, hooks=[guard], on_event=events.append
    ) as bus:
        bus.call("day_echo", {"text": "forbidden"})
        bus.call("day_add", {"a": "one"})
        with suppress(ToolbusError):
            bus.call("day_ad")
        said = {
            "role": "assistant",
            "tool_calls": [{"id": "1", "function": {"name": "day_add", "arguments": "{"}}],
        }
        openai.tools(bus).replies_sync(said)

    assert [reason for _, _, reason, _ in ended(events)] == [
        "refused",
        "invalid_arguments",
        "unknown_tool",
        "not_json",
    ]


SPELT = [
    ("day_echo", '{"text": '),
    ("day_echo", '["x"]'),
    ("day_nope", "{}"),
    ("day_echo", '{"text": "forbidden"}'),
]
REASONS = ["not_json", "not_json", "unknown_tool", "refused"]


async def test_the_calls_of_an_agent_are_reported_once() -> None:
    model = ScriptedModel([*(ToolCall(name, spelt) for name, spelt in SPELT), ToolCall("day_add"), "done"])
    events: list[Event] = []
    async with (
        Toolbus({"servers": {"day": {"server": everyday()}}}, hooks=[guard], on_event=events.append) as bus,
        Agent(model, tools=[bus], approve=lambda request: request.name != "day_add") as agent,
    ):
        await final(agent.send("go"))

    assert [reason for _, _, reason, _ in ended(events)] == [*REASONS, "refused"]


def chat(name: str, spelt: str) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": spelt}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def response(name: str, spelt: str) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "1", "name": name, "arguments": spelt}
    return {"output": [call]}


async def test_the_calls_of_openai_are_reported_once() -> None:
    events: list[Event] = []
    async with Toolbus(
        {"servers": {"day": {"server": everyday()}}}, hooks=[guard], on_event=events.append
    ) as bus:
        for name, spelt in SPELT:
            await openai.tools(bus).replies(chat(name, spelt))
            await openai.tools(bus, dialect="openai-responses").replies(response(name, spelt))

    assert [reason for _, _, reason, _ in ended(events)] == [reason for reason in REASONS for _ in range(2)]


async def test_the_calls_of_anthropic_are_reported_once() -> None:
    events: list[Event] = []
    blocks: list[Any] = [
        {"type": "tool_use", "id": "1", "name": "day_nope", "input": {}},
        {"type": "tool_use", "id": "2", "name": "day_echo", "input": {"text": "forbidden"}},
        {"type": "tool_use", "id": "3", "name": "day_add", "input": {"a": "one"}},
    ]
    async with Toolbus(
        {"servers": {"day": {"server": everyday()}}}, hooks=[guard], on_event=events.append
    ) as bus:
        for block in blocks:
            await anthropic.tools(bus).replies({"role": "assistant", "content": [block]})

    assert [reason for _, _, reason, _ in ended(events)] == ["unknown_tool", "refused", "invalid_arguments"]
