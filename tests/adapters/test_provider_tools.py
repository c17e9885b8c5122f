"""The shared behavior of the adapters for the providers' packages, shown with responses as plain dicts."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import Place
from tests.wire import ToolCall
from toolbus import Toolbus
from toolbus.adapters.openai import tools
from toolbus.errors import ServerNotFound
from toolbus.records import Text, ToolResult
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
DESK = Place("memory", "modern", {}).config()


@pytest.fixture
async def bus() -> AsyncIterator[Toolbus]:
    async with Toolbus({"servers": {"desk": DESK}}) as bus:
        yield bus


def response(*calls: ToolCall, finish: str = "tool_calls") -> dict[str, Any]:
    """A chat completion with these calls, as JSON."""
    spelt = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(calls, 1)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": spelt or None}
    return {"choices": [{"finish_reason": finish, "message": message}]}


def texts(replies: list[Any]) -> list[str]:
    return [reply["content"] for reply in replies]


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_the_package_of_the_provider_is_not_imported(name: str) -> None:
    code = f"import sys, toolbus.adapters.{name}; sys.exit({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_replies_are_in_the_order_of_the_calls(bus: Toolbus) -> None:
    said = response(ToolCall("desk_echo", {"text": "tea"}), ToolCall("desk_add", {"a": 1, "b": 2}))
    assert await tools(bus).replies(said) == [
        {"role": "tool", "tool_call_id": "call_1", "content": "tea"},
        {"role": "tool", "tool_call_id": "call_2", "content": "3"},
    ]


async def test_a_response_without_calls_has_no_replies(bus: Toolbus) -> None:
    replies = await tools(bus).replies(response())
    assert (replies, replies.answers) == ([], ())


async def test_what_is_no_response_is_refused(bus: Toolbus) -> None:
    with pytest.raises(TypeError, match="openai-responses"):
        await tools(bus).replies({"output": []})
    with pytest.raises(TypeError, match="Chat Completions"):
        await tools(bus, dialect="openai-responses").replies(response())


async def test_an_unknown_name_is_told_to_the_model(bus: Toolbus) -> None:
    [told] = texts(await tools(bus).replies(response(ToolCall("desk_ad"))))
    assert told.startswith("MCP error: no tool named 'desk_ad' among")
    assert "did you mean 'desk_add'" in told


async def test_a_tool_that_was_not_offered_is_not_run(bus: Toolbus) -> None:
    await bus.add_server("other", DESK)
    [told] = texts(await tools(bus, "other").replies(response(ToolCall("desk_add", {"a": 1, "b": 2}))))
    assert "no tool named 'desk_add'" in told


async def test_functions_of_the_user_are_run_beside_the_tools(bus: Toolbus) -> None:
    def plain(city: str) -> dict[str, object]:
        return {"city": city, "sun": True}

    async def waited(city: str) -> str:
        return (await bus.call("desk_echo", {"text": city})).text

    async def whole() -> ToolResult:
        return ToolResult(content=(Text(text="all"),), structured={"n": 1})

    said = response(
        ToolCall("plain", {"city": "Oslo"}),
        ToolCall("desk_echo", {"text": "tea"}),
        ToolCall("waited", {"city": "Rome"}),
        ToolCall("whole"),
    )
    replies = await tools(bus).replies(said, {"plain": plain, "waited": waited, "whole": whole})
    assert texts(replies) == ['{"city": "Oslo", "sun": true}', "tea", "Rome", "all"]
    assert [answer.tool is None for answer in replies.answers] == [True, False, True, True]
    assert replies.answers[3].result.structured == {"n": 1}


async def test_an_error_of_the_users_function_is_told_and_logged(
    bus: Toolbus, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise LookupError("no such city")

    replies = await tools(bus).replies(response(ToolCall("broken")), {"broken": broken})
    assert texts(replies) == ["LookupError: no such city"]
    assert replies.answers[0].result.is_error
    assert "'broken' raised" in caplog.text


async def test_a_call_that_was_cut_off_is_not_run(bus: Toolbus) -> None:
    calls = ToolCall("desk_echo", {"text": "tea"}), ToolCall("desk_fail")
    whole, cut = texts(await tools(bus).replies(response(*calls, finish="length")))
    assert whole == "tea"
    assert "it was not run" in cut


async def test_the_answers_hold_what_the_model_is_not_told(bus: Toolbus) -> None:
    [answer] = (await tools(bus).replies(response(ToolCall("desk_many")))).answers
    assert answer.tool is not None
    assert (answer.tool.server, answer.call.id, answer.call.name) == ("desk", "call_1", "desk_many")
    assert (answer.result.structured, answer.result.meta["trace"]) == ({"n": 7}, "abc")


async def test_the_list_follows_the_catalog_unless_it_is_told_not_to(bus: Toolbus) -> None:
    live, held = tools(bus), tools(bus, follow=False)
    before = list(held)
    await bus.add_server("a_first", DESK)
    await bus.remove_server("desk")
    assert [tool["function"]["name"] for tool in live] == list(bus.catalog.names)
    assert held == before
    held.refresh()
    assert held == live


async def test_a_chosen_server_may_leave_and_come_back(
    bus: Toolbus, caplog: pytest.LogCaptureFixture
) -> None:
    offer = tools(bus, ["desk"])
    before = list(offer)
    await bus.remove_server("desk")
    assert offer == []
    await bus.add_server("desk", DESK)
    assert offer == before
    assert caplog.text == ""
    with pytest.raises(ServerNotFound):
        tools(bus, "dask")


async def test_a_tool_that_did_not_change_stays_the_same_object(bus: Toolbus) -> None:
    offer = tools(bus)
    before = list(offer)
    await bus.add_server("other", DESK)
    assert [id(tool) for tool in offer[: len(before)]] == [id(tool) for tool in before]


def test_without_a_loop() -> None:
    said = response(ToolCall("desk_echo", {"text": "tea"}), ToolCall("own"))
    with SyncToolbus({"servers": {"desk": DESK}}) as bus:
        chosen = [tool for tool in bus.bus.tools() if tool.name == "desk_echo"]
        own = {"own": lambda: bus.call("desk_add", {"a": 1, "b": 2}).text}
        assert texts(tools(bus).replies_sync(said, own)) == ["tea", "3"]
        assert texts(tools(chosen).replies_sync(said, own)) == ["tea", "3"]


async def test_without_await_where_a_loop_runs(bus: Toolbus) -> None:
    said = response(ToolCall("desk_echo", {"text": "tea"}))
    with SyncToolbus({"servers": {"desk": DESK}}) as other:
        assert texts(tools(other).replies_sync(said)) == ["tea"]
    with pytest.raises(RuntimeError, match="SyncToolbus"):
        tools(bus).replies_sync(said)
