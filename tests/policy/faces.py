"""Every way to make a call, with a person who answers, or nobody: what each face tells, and its trail."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIResponsesModel, RunConfig, Runner
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # typed in part
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.models.openai import OpenAIChatModel

from tests import warm
from tests.cli.running import toolbus, write_config
from tests.cli.terminal import terminal
from tests.conftest import SERVERS
from tests.inside.audit import Query, read_events
from tests.wire import Provider
from tests.wire import ToolCall as WireCall
from toolbus import ApprovalRequest, Interactions, Toolbus, ToolbusError
from toolbus.adapters import langchain, openai_agents, pydantic_ai
from toolbus.agent import Agent, ApprovalAsked
from toolbus.extension import McpBridgeExtension
from toolbus.testing import ScriptedModel, ToolCall

Answer: TypeAlias = Literal["once", "no"] | None
"""A person's answer; None if nobody can be asked."""
OWN = ("seq", "time", "id", "run", "face", "by", "ms", "bytes", "prev", "hash")
"""Fields that differ between faces, or between runs."""
POLICY: list[dict[str, Any]] = [
    {
        "tools": "desk/echo",
        "arguments": {"properties": {"text": {"const": "secret"}}, "required": ["text"]},
        "do": "deny",
        "reason": "it stays here",
    },
    {"tools": "desk/fail", "do": "deny", "reason": "nobody wants it"},
    {"tools": "desk/echo", "do": "ask", "reason": "read it first"},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, and who answers."""

    folder: Path
    text: str
    answer: Answer = None

    @property
    def config(self) -> Path:
        return self.folder / "toolbus.yaml"

    @property
    def audit(self) -> Path:
        return self.folder / "audit.jsonl"

    def bus(self, interactions: Interactions | None = None) -> Toolbus:
        return Toolbus(self.config, interactions=interactions or Interactions())

    @property
    def recorded(self) -> list[Mapping[str, Any]]:
        """The lines of the trail about calls."""
        return [event for event in read_events(self.audit, Query()) if event["event"] in ("decided", "ended")]

    @property
    def trail(self) -> list[dict[str, Any]]:
        """The lines without the fields of one run or one face."""
        return [{key: value for key, value in event.items() if key not in OWN} for event in self.recorded]


def case(folder: Path, text: str, answer: Answer = None) -> Case:
    """A folder with a config, whose everyday server is a process."""
    folder.mkdir()
    entry = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    write_config(folder, {"desk": entry}, policy=POLICY, audit={"file": "audit.jsonl", "content": "full"})
    return Case(folder=folder, text=text, answer=answer)


@contextmanager
def model(call: WireCall) -> Generator[Provider]:
    """A provider whose model makes the call, and then stops."""
    with Provider([[call], "Done."]) as provider, pytest.MonkeyPatch.context() as patch:
        for name, value in provider.environment.items():
            patch.setenv(name, value)
        yield provider


async def by_bus(case: Case) -> str:
    def approve(request: ApprovalRequest) -> str:
        assert (request.rule, request.reason) == ("policy[2]", "read it first")
        assert request.arguments == {"text": case.text}
        return case.answer or "no"

    async with case.bus(Interactions(approve=approve if case.answer else None)) as bus:
        try:
            return (await bus.call("desk_echo", {"text": case.text})).text
        except ToolbusError as error:
            return str(error)


async def by_agent(case: Case) -> str:
    scripted = ScriptedModel([ToolCall("desk_echo", {"text": case.text}), "Done."])
    async with case.bus() as bus, Agent(scripted, tools=[bus]) as agent:
        run = agent.send("Go.")
        if case.answer is None:
            await run.final
        else:
            async for event in run:
                if isinstance(event, ApprovalAsked):
                    assert (event.rule, event.reason) == ("policy[2]", "read it first")
                    assert event.arguments == {"text": case.text}
                    event.settle("once" if case.answer == "once" else False)
        assert run.result is not None
        return run.result.calls[0].text


async def by_langchain(case: Case) -> str:
    with model(WireCall("desk_echo", {"text": case.text})) as provider:
        async with case.bus() as bus:
            saver = None if case.answer is None else InMemorySaver()
            agent: Any = create_agent("openai:gpt-5.1", middleware=[langchain.live(bus)], checkpointer=saver)
            thread = {"configurable": {"thread_id": "1"}}
            state = await agent.ainvoke({"messages": [{"role": "user", "content": "Go."}]}, thread)
            if "__interrupt__" in state:
                [asked] = state["__interrupt__"]
                assert asked.value == {
                    "server": "desk",
                    "tool": "echo",
                    "name": "desk_echo",
                    "rule": "policy[2]",
                    "reason": "read it first",
                    "arguments": {"text": case.text},
                }
                state = await agent.ainvoke(
                    Command(resume="once" if case.answer == "once" else False), thread
                )
        assert state["messages"][-1].text == "Done."
        return provider.asked[-1].given[-1].text


async def _by_openai_tools(case: Case, tools: list[Any], name: str) -> str:
    with model(WireCall(name, {"text": case.text})) as provider:
        async with AsyncOpenAI() as client:
            agent = OpenAIAgent(name="clerk", model=OpenAIResponsesModel("gpt-5.1", client), tools=tools)
            quiet = RunConfig(tracing_disabled=True)
            run = await Runner.run(agent, "Go.", run_config=quiet)
            if run.interruptions:
                [asked] = run.interruptions
                assert json.loads(asked.arguments or "") == {"text": case.text}
                state = run.to_state()
                if case.answer == "once":
                    state.approve(asked)
                else:
                    state.reject(asked)
                run = await Runner.run(agent, state, run_config=quiet)
        assert run.final_output == "Done."
        return provider.asked[-1].given[-1].text


async def by_openai_agents(case: Case) -> str:
    async with case.bus() as bus:
        return await _by_openai_tools(case, openai_agents.tools(bus), "desk_echo")


async def by_extension(case: Case) -> str:
    document = json.loads(case.config.read_text())
    servers = [{"alias": alias, **entry} for alias, entry in document.pop("servers").items()]
    (case.folder / "manifest.json").write_text(json.dumps({"config": {"servers": servers, **document}}))
    extension = McpBridgeExtension(case.folder / "manifest.json")
    await extension.initialize()
    await extension.start()
    try:
        tools: list[Any] = list(extension.get_tools())
        return await _by_openai_tools(case, tools, "mcp_desk_echo")
    finally:
        await extension.stop()


async def by_pydantic_ai(case: Case) -> str:
    with model(WireCall("desk_echo", {"text": case.text})) as provider:
        async with (
            case.bus() as bus,
            PydanticAgent(
                OpenAIChatModel("gpt-5.1"),
                output_type=[str, DeferredToolRequests],
                toolsets=[pydantic_ai.toolset(bus)],
            ) as agent,
        ):
            run = await agent.run("Go.")
            if isinstance(run.output, DeferredToolRequests):
                [call] = run.output.approvals
                asked: Mapping[str, Any] = run.output.metadata[call.tool_call_id]
                assert (asked["rule"], asked["reason"]) == ("policy[2]", "read it first")
                assert asked["arguments"] == {"text": case.text}
                results = DeferredToolResults(approvals={call.tool_call_id: case.answer == "once"})
                run = await agent.run(message_history=run.all_messages(), deferred_tool_results=results)
        assert run.output == "Done."
        return provider.asked[-1].given[-1].text


async def by_command_line(case: Case) -> str:
    return await asyncio.to_thread(_by_command_line, case)


def _by_command_line(case: Case) -> str:
    words = ("call", "desk_echo", f"text={case.text}")
    if case.answer is None:
        done = toolbus(*words, folder=case.folder)
        return done.stdout.strip() or " ".join(done.stderr.split())
    with terminal(*words, folder=case.folder, width=200) as screen:
        shown = screen.until("ne[v]er: ")
        assert "desk_echo of server desk" in shown
        assert "rule policy[2] asks: read it first" in shown
        assert f'"text": "{case.text}"' in shown
        screen.press("y\n" if case.answer == "once" else "n\n")
        screen.ended()
        return " ".join(screen.plain.rpartition("ne[v]er: ")[2].split())


FACES: Mapping[str, Callable[[Case], Awaitable[str]]] = {
    "bus": by_bus,
    "agent": by_agent,
    "langchain": by_langchain,
    "openai-agents": by_openai_agents,
    "pydantic-ai": by_pydantic_ai,
    "extension": by_extension,
    "cli": by_command_line,
}
