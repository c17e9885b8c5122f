"""A result as a program reads it: its data, its pictures, and whether a request was sent for it."""

import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus import CallDenied, SyncToolbus, Toolbus, ToolFailed, ToolNotFound, ToolResult
from toolbus.agent import Agent, generate, stream
from toolbus.records import Image, Text
from toolbus.testing import FakeServer, ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio


def add(a: int, b: int) -> int:
    return a + b


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON_VALUES)
def test_data_is_the_json_of_the_text(value: Any) -> None:
    assert ToolResult(content=(Text(text=json.dumps(value)),)).data == value


@pytest.mark.parametrize("text", ["", "plain", "NaN", "-Infinity", "{", "[" * 200_000, "9" * 5_000])
def test_data_is_the_text_if_that_is_not_json(text: str) -> None:
    assert ToolResult(content=(Text(text=text),)).data == text


def test_structured_content_comes_first_and_images_are_the_pictures() -> None:
    one, other = Image(data=b"1", mime_type="image/png"), Image(data=b"2", mime_type="image/png")
    result = ToolResult(content=(one, Text(text='{"a": 1}'), other), structured={"b": 2})
    assert (result.data, result.images) == ({"b": 2}, (one, other))


async def deny(operation: Any) -> None:
    if operation.arguments.get("b") == 13:
        raise CallDenied("the call", "13 brings bad luck")


async def test_sent_is_false_exactly_if_the_server_got_nothing() -> None:
    fake = FakeServer({"add": add})
    fake.fail("add", "disk full")
    async with Toolbus.from_servers({"guards": [deny]}, x=fake) as bus:
        tool = bus.tool("x_add")
        outcomes: list[tuple[bool, int]] = []
        for arguments in ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 13}, {"a": 1, "b": 2}):
            before = len(fake.calls)
            outcomes.append(((await tool.run(arguments)).sent, len(fake.calls) - before))
        assert outcomes == [(True, 1), (False, 0), (False, 0), (True, 1)]
        await bus.disable("x")
        assert (await tool.execute(a=1, b=2)).sent is False
    with pytest.raises(ToolNotFound) as unknown:
        bus.tool("x_ad")
    assert unknown.value.sent is False


def test_raise_for_error_says_that_nothing_was_sent() -> None:
    fake = FakeServer({"add": add})
    with SyncToolbus.from_servers({"guards": [deny]}, x=fake) as bus:
        tool = bus.tool("x/add")
        for arguments in ({"a": 1}, {"a": 1, "b": 13}):
            with pytest.raises(ToolFailed, match=r"tool 'x_add' was not called: .*nothing was sent") as error:
                tool.execute(**arguments).raise_for_error()
            assert error.value.sent is False
        fake.fail("add", "disk full")
        with pytest.raises(ToolFailed, match="tool 'x_add' failed: disk full") as error:
            tool.execute(a=1, b=2).raise_for_error()
        assert error.value.sent is True


async def test_a_run_is_awaited_as_its_final_is_and_can_be_iterated_as_well() -> None:
    async with Agent(ScriptedModel(["one", "two", "three"])) as agent:
        assert await agent.send("1") == "one"
        assert await agent.send("2").final == "two"
        run = agent.send("3")
        events = [type(event).__name__ async for event in run]
        assert (await run, await run, set(events)) == ("three", "three", {"TextDelta"})


async def test_an_error_and_a_question_reach_the_model_of_an_agent() -> None:
    fake = FakeServer({"add": add})
    fake.fail("add", "disk full")
    model = ScriptedModel([ToolCall("x_add", {"a": 1, "b": 2}), lambda results: results[-1]])
    async with Agent(model, mcp_servers={"x": {"server": fake}}) as agent:
        assert await agent.send("Add.") == "disk full"


def test_every_option_is_in_the_signature() -> None:
    options = inspect.signature(Agent).parameters
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in options.values())
    for function in (generate, stream):
        parameters = inspect.signature(function).parameters
        missing = options.keys() - parameters.keys()
        assert missing == {"durable"}
        assert {name: options[name].default for name in options if name not in missing} == {
            name: parameters[name].default for name in options if name not in missing
        }
