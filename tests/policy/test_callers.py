"""The caller: every face names itself on its operations, and a run of an agent has an id of its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents.tool_context import ToolContext

from tests.servers.everyday import everyday
from toolbus import Caller, Operation, Toolbus
from toolbus.adapters import anthropic, langchain, openai_agents
from toolbus.adapters.tool_list import ToolList
from toolbus.agent import Agent
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

ADD = ToolCall("desk_add", {"a": 1, "b": 2})


class Callers:
    """A guard that keeps the caller of every operation."""

    def __init__(self) -> None:
        self.seen: list[Caller] = []

    async def __call__(self, operation: Operation) -> None:
        self.seen.append(operation.caller)


@pytest.fixture
def callers() -> Callers:
    return Callers()


@pytest.fixture
async def bus(callers: Callers) -> AsyncIterator[Toolbus]:
    async with Toolbus({"servers": {"desk": {"server": everyday()}}}, guards=[callers]) as bus:
        yield bus


async def test_a_framework_is_named(bus: Toolbus, callers: Callers) -> None:
    for source in (bus, bus.tools()):
        await next(tool for tool in langchain.tools(source) if tool.name == "desk_add").ainvoke(ADD.arguments)
        [tool] = [tool for tool in openai_agents.tools(source) if tool.name == "desk_add"]
        context: Any = ToolContext(None, tool_name="desk_add", tool_call_id="1", tool_arguments="{}")
        await tool.on_invoke_tool(context, '{"a": 1, "b": 2}')  # pyright: ignore  # a function tool
    block = {"type": "tool_use", "id": "1", "name": "desk_add", "input": {"a": 1, "b": 2}}
    await anthropic.tools(bus).replies({"role": "assistant", "content": [block]})
    faces = ["langchain", "openai-agents", "langchain", "openai-agents", "anthropic"]
    assert [caller.face for caller in callers.seen] == faces


async def test_every_run_of_an_agent_has_an_id(bus: Toolbus, callers: Callers) -> None:
    model = ScriptedModel([[ADD, ADD], "One.", ADD, "Two."])
    async with Agent(model, tools=[bus]) as agent:
        await agent.send("Go.").final
        await agent.send("Go.").final
    assert [caller.face for caller in callers.seen] == ["agent"] * 3
    runs = [caller.run for caller in callers.seen]
    assert runs[0] == runs[1] != runs[2]
    assert all(runs)


async def test_a_user_stays_the_caller_behind_a_face(bus: Toolbus, callers: Callers) -> None:
    ann = bus.view(caller=Caller(face="web", user="ann", session="1"))
    [tool] = [tool for tool in ToolList(ann, lambda tool: tool, face="mine") if tool.name == "desk_add"]
    await tool.run({"a": 1, "b": 2})
    assert callers.seen == [Caller(face="mine", user="ann", session="1")]
