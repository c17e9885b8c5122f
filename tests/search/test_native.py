"""Providers that load tools: requests with their own fields, and the same beginning at every turn."""

import json
from itertools import pairwise
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.agent.stage import MODELS, final, provided
from tests.servers.everyday import everyday
from tests.wire import Asked, Provider, ToolCall
from tests.wire.turn import JSON, Turn
from toolbus import Toolbus
from toolbus.adapters import anthropic, openai
from toolbus.agent import Agent
from toolbus.events import CallStarted, Event

pytestmark = pytest.mark.anyio

SCRIPT: list[Turn] = [
    [ToolCall("search_tools", {"queries": ["add two numbers"]})],
    [ToolCall("a_add", {"a": 1, "b": 2})],
    [ToolCall("search_tools", {"queries": ["echo a text", "b_add"]})],
    [ToolCall("b_add", {"a": 2, "b": 2})],
    "Done.",
]


def _config(**settings: Any) -> dict[str, Any]:
    servers = {"a": {"server": everyday()}, "b": {"server": everyday()}}
    return {"servers": servers, "expose": "search", "always": ["a/echo"], **settings}


async def _messages(bus: Toolbus, **options: Any) -> None:
    toolbox = anthropic.tools(bus, **options)
    said: list[Any] = [{"role": "user", "content": "Go."}]
    async with AsyncAnthropic(max_retries=0) as client:
        while True:
            message = await client.messages.create(
                model="claude-sonnet-5", max_tokens=99, messages=said, tools=toolbox
            )
            if not (replies := await toolbox.replies(message)):
                return
            said += [message.to_param(), *replies]


async def _responses(bus: Toolbus, **options: Any) -> None:
    toolbox = openai.tools(bus, dialect="openai-responses", **options)
    said: list[Any] = [{"role": "user", "content": "Go."}]
    async with AsyncOpenAI(max_retries=0) as client:
        while True:
            response = await client.responses.create(model="gpt-5.5", input=said, tools=toolbox)
            if not (replies := await toolbox.replies(response)):
                return
            said += [*response.model_dump(exclude_none=True)["output"], *replies]


RUNS = {"anthropic": _messages, "responses": _responses}
HISTORY = {"anthropic": "messages", "responses": "input"}


def _check_prefix(asked: list[Asked]) -> None:
    """Everything but the end of the conversation is the same, byte for byte."""
    key = HISTORY[asked[0].wire]
    for before, after in pairwise(asked):
        rest = [{name: value for name, value in one.body.items() if name != key} for one in (before, after)]
        assert json.dumps(rest[0]) == json.dumps(rest[1])
        said, more = (json.dumps(one.body[key])[:-1] for one in (before, after))
        assert more.startswith(said)


def _references(asked: Asked) -> list[str]:
    [result] = asked.body["messages"][-1]["content"]
    assert {part["type"] for part in result["content"]} == {"tool_reference"}
    return [part["tool_name"] for part in result["content"]]


def _loaded(asked: Asked) -> dict[str, list[JSON]]:
    output: JSON = asked.body["input"][-1]
    assert (output["type"], output["execution"], output["status"]) == (
        "tool_search_output",
        "client",
        "completed",
    )
    return {one["name"]: one["tools"] for one in output["tools"] if one["type"] == "namespace"}


async def _played(wire: str, script: Any = SCRIPT, **options: Any) -> tuple[Provider, list[str]]:
    events: list[Event] = []
    with provided(script) as provider:
        async with Toolbus(_config(), on_event=events.append) as bus:
            await RUNS[wire](bus, **options)
    return provider, [event.tool for event in events if isinstance(event, CallStarted)]


async def test_anthropic_loads_what_our_index_finds() -> None:
    provider, called = await _played("anthropic")
    first, second, third, fourth, last = provider.asked
    loaded = {name for name, tool in first.tools.items() if not tool.get("defer_loading")}
    assert loaded == {"a_echo", "read_result", "search_tools"}
    assert sum(tool.get("defer_loading") is True for tool in first.tools.values()) == 31
    assert "call_tool" not in json.dumps(first.body)
    assert _references(second)[0] == "a_add"
    assert [third.new[0].text, last.new[0].text] == ["3", "4"]
    assert "b_add" in _references(fourth)
    assert called == ["search_tools", "add", "search_tools", "add"]
    _check_prefix(provider.asked)


async def test_openai_loads_what_our_index_finds() -> None:
    provider, called = await _played("responses")
    first, second, third, fourth, last = provider.asked
    assert list(first.tools) == ["a_echo", "read_result", "tool_search"]
    search = first.tools["tool_search"]
    assert (search["type"], search["execution"]) == ("tool_search", "client")
    assert "b (16)" in search["description"]
    assert search["parameters"]["required"] == ["queries"]
    found = _loaded(second)["a"]
    assert found[0]["name"] == "a_add"
    assert all(tool["defer_loading"] is True and tool["type"] == "function" for tool in found)
    assert [third.new[0].text, last.new[0].text] == ["3", "4"]
    assert "b_add" in [tool["name"] for tool in _loaded(fourth)["b"]]
    call = next(item for item in third.body["input"] if item.get("type") == "function_call")
    assert call["namespace"] == "a"
    assert called == ["search_tools", "add", "search_tools", "add"]
    _check_prefix(provider.asked)


@pytest.mark.parametrize("wire", RUNS)
async def test_without_native_a_model_gets_two_tools(wire: str) -> None:
    script = [SCRIPT[0], [ToolCall("call_tool", {"name": "a_add", "arguments": {"a": 1, "b": 2}})], "Done."]
    provider, _ = await _played(wire, script, native=False)
    assert list(provider.asked[0].tools) == ["a_echo", "search_tools", "call_tool"]
    assert '"a_add"' in provider.asked[1].new[0].text
    assert provider.asked[2].new[0].text == "3"
    assert "defer_loading" not in json.dumps(provider.asked[0].body)
    _check_prefix(provider.asked)


@pytest.mark.parametrize("wire", RUNS)
async def test_a_search_without_a_result_is_answered(wire: str) -> None:
    script = [
        [ToolCall("search_tools", {"queries": ["zzz"]})],
        [ToolCall("search_tools", {"queries": []})],
        "Done.",
    ]
    provider, _ = await _played(wire, script)
    if wire == "anthropic":
        assert "no tool fits 'zzz'" in provider.asked[1].new[0].text
        assert "queries" in provider.asked[2].new[0].text
    else:
        assert [_loaded(one) for one in provider.asked[1:]] == [{}, {}]


async def test_a_loaded_tool_stays_defined_after_its_server_left() -> None:
    async with Toolbus(_config()) as bus:
        toolbox = anthropic.tools(bus)
        block = {"type": "tool_use", "id": "1", "name": "search_tools", "input": {"queries": ["b_add"]}}
        await toolbox.replies({"role": "assistant", "content": [block]})
        await bus.remove_server("b")
        toolbox.refresh()
        # A request without it would be refused: the conversation refers to it.
        assert [tool["name"] for tool in toolbox if tool["name"].startswith("b_")][:1] == ["b_add"]
        gone = {"type": "tool_use", "id": "2", "name": "b_add", "input": {"a": 1, "b": 2}}
        [answer] = (await toolbox.replies({"role": "assistant", "content": [gone]})).answers
        assert answer.result.is_error
        assert "no tool named 'b_add'" in answer.result.text


async def test_options_for_caching_are_left_out_of_deferred_tools() -> None:
    servers = {
        "a": {
            "server": everyday(),
            "override": {"add": {"options": {"anthropic": {"cache_control": {"type": "ephemeral"}}}}},
        }
    }
    async with Toolbus({"servers": servers, "expose": "search"}) as bus:
        [added] = [tool for tool in anthropic.tools(bus) if tool["name"] == "a_add"]
        assert added.get("defer_loading") is True
        assert "cache_control" not in added
        [shown] = [tool for tool in anthropic.tools(bus.view(expose="all")) if tool["name"] == "a_add"]
        assert "cache_control" in shown


AGENTS = {"anthropic": MODELS["anthropic"], "responses": "openai-responses:gpt-5.5"}


@pytest.mark.parametrize("wire", AGENTS)
async def test_the_agent_searches_with_our_index(wire: str) -> None:
    events: list[Event] = []
    with provided(SCRIPT) as provider:
        async with (
            Toolbus(_config(), on_event=events.append) as bus,
            Agent(AGENTS[wire], tools=[bus], settings={"max_retries": 0}) as agent,  # pyright: ignore[reportArgumentType]  # a setting of the tests
        ):
            assert await final(agent.send("Go.")) == "Done."
    first, second = provider.asked[:2]
    deferred = [name for name, tool in first.tools.items() if tool.get("defer_loading") is True]
    assert len(deferred) == 31
    search = first.tools["search_tools" if wire == "anthropic" else "tool_search"]
    assert "b (16)" in search["description"]
    if wire == "anthropic":
        assert _references(second)[0] == "a_add"
    else:
        assert second.body["input"][-1]["tools"][0]["name"] == "a_add"
    started = [event for event in events if isinstance(event, CallStarted)]
    assert [event.tool for event in started] == ["search_tools", "add", "search_tools", "add"]
    assert [one.new[0].text for one in (provider.asked[2], provider.asked[4])] == ["3", "4"]
    _check_prefix(provider.asked)


@pytest.mark.parametrize("wire", ["chat", "google", "responses"])
async def test_the_agent_has_two_tools_where_a_model_cannot_load_them(wire: Any) -> None:
    script = [SCRIPT[0], [ToolCall("call_tool", {"name": "a_add", "arguments": {"a": 1, "b": 2}})], "Done."]
    with provided(script) as provider:
        async with Toolbus(_config()) as bus, Agent(MODELS[wire], tools=[bus]) as agent:
            assert await final(agent.send("Go.")) == "Done."
    for asked in provider.asked:
        assert list(asked.tools) == ["a_echo", "search_tools", "call_tool"]
    assert "3" in provider.asked[2].new[0].text


async def test_the_agent_takes_expose_and_always() -> None:
    with provided(["Done."]) as provider:
        async with (
            Toolbus(_config(expose="all")) as bus,
            Agent(MODELS["chat"], tools=[bus], expose="search", always="b/add") as agent,
        ):
            assert await final(agent.send("Go.")) == "Done."
        assert list(provider.asked[0].tools) == ["b_add", "search_tools", "call_tool"]
        with pytest.raises(TypeError, match="unexpected keyword argument 'exposes'"):
            Agent(MODELS["chat"], exposes="search")  # pyright: ignore[reportCallIssue]  # that is the point
        with pytest.raises(ValueError, match="expose must be one of"):
            Agent(MODELS["chat"], expose="some")  # pyright: ignore[reportArgumentType]  # that is the point
