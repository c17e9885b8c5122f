"""An agent that makes one call and answers: through its framework's own MCP integration, and through ours.

The model is each framework's own kind of stand-in, in the process. The agent is measured, with its way to the
server and back over stdio. Both sides keep their connection and their list of tools.
"""

import json
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, TypeAlias

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.mcp import MCPServerStdio
from fastmcp.client.transports import StdioTransport
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # typed in part
from langchain_core._api import LangChainBetaWarning
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import AbstractToolset, AgentRunResultEvent
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from bench.sides import STDIO, bench_bus
from toolbus.adapters import langchain, openai_agents, pydantic_ai
from toolbus.agent import Agent as ToolbusAgent

with warnings.catch_warnings():
    warnings.simplefilter("ignore", LangChainBetaWarning)
    from langchain.mcp import MCPAdapter

TURNS = 10
"""Runs of the agent in a round."""
TOOL = "echo"
TEXT = "hello"
ARGUMENTS = {"text": TEXT}
Run: TypeAlias = Callable[[], Awaitable[object]]


def echo_name(names: Iterable[str]) -> str:
    """The name of the tool to call, with any prefix."""
    return next(name for name in names if name.endswith(TOOL))


def answer(result: object) -> str:
    """The model's answer after the call: a call that failed is not a turn."""
    return "Done." if TEXT in str(result) else f"The call failed: {result}"


async def timed(run: Run) -> list[float]:
    """Seconds of each of some runs; the agent has to come to its answer."""
    times: list[float] = []
    for _ in range(TURNS):
        began = perf_counter()
        said = await run()
        times.append(perf_counter() - began)
        assert said == "Done.", said
    return times


# OpenAI Agents SDK


class Scripted(Model):
    """Calls the tool, then answers."""

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002  # its name there
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        if not isinstance(input, str) and len(input) > 1:
            text = ResponseOutputText(text=answer(input[-1]["output"]), type="output_text", annotations=[])
            said = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)
        name = echo_name(tool.name for tool in kwargs.get("tools") or args[1])
        call = ResponseFunctionToolCall(
            arguments=json.dumps(ARGUMENTS), call_id="c", name=name, type="function_call"
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("the benchmark does not stream")


def openai_run(agent: Agent) -> Run:
    """One run of such an agent."""
    quiet = RunConfig(tracing_disabled=True)

    async def run() -> object:
        return (await Runner.run(agent, "Go.", run_config=quiet)).final_output

    return run


@asynccontextmanager
async def openai_own() -> AsyncGenerator[Run]:
    """With the SDK's own server class, its list cached."""
    params: Any = STDIO
    async with MCPServerStdio(params, cache_tools_list=True) as server:
        yield openai_run(Agent(name="bench", model=Scripted(), mcp_servers=[server]))


@asynccontextmanager
async def openai_ours() -> AsyncGenerator[Run]:
    """The run with toolbus."""
    async with bench_bus(None, "modern") as bus:
        yield openai_run(Agent(name="bench", model=Scripted(), tools=openai_agents.tools(bus, follow=True)))


# LangChain


class Fake(FakeMessagesListChatModel):
    """Takes any tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Say yes."""
        return self


def langchain_run(tools: list[Any]) -> Run:
    """One run of an agent with these tools."""
    name = echo_name(tool.name for tool in tools)
    call: Any = {"name": name, "args": ARGUMENTS, "id": "c", "type": "tool_call"}
    model = Fake(responses=[AIMessage(content="", tool_calls=[call]), AIMessage(content="Done.")])
    agent: Any = create_agent(model, tools)  # pyright: ignore[reportUnknownVariableType]  # typed in part

    async def run() -> object:
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "Go."}]})
        returned, _ = state["messages"][-2:]
        return answer(returned.content)

    return run


@asynccontextmanager
async def langchain_own() -> AsyncGenerator[Run]:
    """With `langchain.mcp`, its connection held."""
    async with MCPAdapter(StdioTransport(**STDIO)) as adapter:
        yield langchain_run(await adapter.list_tools())


@asynccontextmanager
async def langchain_ours() -> AsyncGenerator[Run]:
    """The run with toolbus."""
    async with bench_bus(None, "modern") as bus:
        yield langchain_run(langchain.tools(bus))


# pydantic-ai


def _played(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
    if len(messages) > 1:
        return PydanticResponse(parts=[TextPart(_answered(messages))])
    name = echo_name(tool.name for tool in info.function_tools)
    return PydanticResponse(parts=[ToolCallPart(name, ARGUMENTS)])


async def _streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    if len(messages) > 1:
        yield _answered(messages)
    else:
        name = echo_name(tool.name for tool in info.function_tools)
        yield {0: DeltaToolCall(name, json.dumps(ARGUMENTS), tool_call_id="c")}


def _answered(messages: list[ModelMessage]) -> str:
    [returned] = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return answer(returned.content)


def pydantic_run(toolset: AbstractToolset[Any]) -> Run:
    """One run of an agent with that toolset."""
    agent = PydanticAgent(FunctionModel(_played), toolsets=[toolset])

    async def run() -> object:
        return (await agent.run("Go.")).output

    return run


@asynccontextmanager
async def agent_own() -> AsyncGenerator[Run]:
    """pydantic-ai itself, streaming, with the same tools as our agent."""
    async with bench_bus(None, "modern") as bus:
        agent = PydanticAgent(FunctionModel(stream_function=_streamed), toolsets=[pydantic_ai.toolset(bus)])

        async def run() -> object:
            said: object = None
            async with agent.run_stream_events("Go.") as events:
                async for event in events:
                    if isinstance(event, AgentRunResultEvent):
                        said = event.result.output
            return said

        yield run


@asynccontextmanager
async def agent_ours() -> AsyncGenerator[Run]:
    """`toolbus.agent.Agent`, a new conversation each time."""
    async with bench_bus(None, "modern") as bus:
        agent = ToolbusAgent(FunctionModel(stream_function=_streamed), tools=[bus])

        async def run() -> object:
            agent.history = []
            return await agent.send("Go.").final

        yield run


@asynccontextmanager
async def pydantic_own() -> AsyncGenerator[Run]:
    """With its MCP toolset, its connection held."""
    async with MCPToolset[Any](StdioTransport(**STDIO)) as toolset:
        yield pydantic_run(toolset)


@asynccontextmanager
async def pydantic_ours() -> AsyncGenerator[Run]:
    """The run with toolbus."""
    async with bench_bus(None, "modern") as bus:
        yield pydantic_run(pydantic_ai.toolset(bus))
