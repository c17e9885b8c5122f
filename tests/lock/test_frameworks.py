"""A held tool is absent in every framework, and a model that still knows it is told why it is held."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIResponsesModel, RunConfig, Runner
from httpx import AsyncClient
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # typed in part
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam
from pydantic_ai import Agent as PydanticAgent

from tests.inside.bus import calls_of
from tests.lock.place import OFFER, Place
from tests.lock.test_mutations import MUTATIONS, mutated
from tests.patience import PATIENCE, until
from tests.wire import Asked, Provider, Say, ToolCall
from toolbus import Toolbus
from toolbus.adapters import langchain, openai, openai_agents, pydantic_ai
from toolbus.agent import Agent
from toolbus.events import CallEnded
from toolbus.testing import ScriptedModel
from toolbus.testing import ToolCall as ScriptedCall

# Frameworks keep their HTTP clients open for the next run, which a test never has.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
REPRESENTATIVES = ("description", "added", "swapped", "renamed")
ARGUMENTS = {"path": "x", "mode": "text"}
QUIET = RunConfig(tracing_disabled=True)
REASON = "its description changed since toolbus.lock was written"
Reply = Say | str | list[ToolCall]


class Framework(ABC):
    """The way to run an agent of a framework with the tools of a bus, as its page shows."""

    @abstractmethod
    async def run(self, bus: Toolbus) -> None:
        """Let an agent with a live list of tools come to its end."""


class LangChain(Framework):
    async def run(self, bus: Toolbus) -> None:
        await self._invoke(middleware=[langchain.live(bus)])

    async def _invoke(self, **options: Any) -> None:
        async with AsyncClient() as client:  # LangChain's own would be left open
            chat = ChatOpenAI(model="gpt-5.1", http_async_client=client)
            agent: Any = create_agent(chat, **options)
            await agent.ainvoke({"messages": [{"role": "user", "content": "Go."}]})


class LangChainList(LangChain):
    async def run(self, bus: Toolbus) -> None:
        await self._invoke(tools=langchain.tools(bus))


class OpenAIAgents(Framework):
    async def run(self, bus: Toolbus) -> None:
        async with AsyncOpenAI() as client:
            model = OpenAIResponsesModel("gpt-5.1", client)
            agent = OpenAIAgent(name="clerk", model=model, tools=cast(Any, openai_agents.tools(bus)))
            await Runner.run(agent, "Go.", run_config=QUIET)


class PydanticAI(Framework):
    async def run(self, bus: Toolbus) -> None:
        async with PydanticAgent("openai-chat:gpt-5.1", toolsets=[pydantic_ai.toolset(bus)]) as agent:
            await agent.run("Go.")


class OpenAI(Framework):
    async def run(self, bus: Toolbus) -> None:
        tools = openai.tools(bus)
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Go."}]
        async with AsyncOpenAI() as client:
            while True:
                done = await client.chat.completions.create(model="gpt-5.1", messages=messages, tools=tools)
                if not (replies := await tools.replies(done)):
                    return
                said = cast(ChatCompletionMessageParam, done.choices[0].message.to_dict())
                messages += [said, *replies]


class OwnAgent(Framework):
    async def run(self, bus: Toolbus) -> None:
        async with Agent("openai-chat:gpt-5.1", tools=[bus]) as agent:
            await agent.send("Go.").final


FRAMEWORKS: Sequence[type[Framework]] = (
    LangChain,
    LangChainList,
    OpenAIAgents,
    PydanticAI,
    OpenAI,
    OwnAgent,
)


@contextmanager
def model(script: Sequence[Reply] | Callable[[Asked], Reply]) -> Generator[Provider]:
    """The environment leads to a model that follows the script."""
    with Provider(script) as provider, pytest.MonkeyPatch.context() as patch:
        for name, value in provider.environment.items():
            patch.setenv(name, value)
        yield provider


@asynccontextmanager
async def opened(place: Place) -> AsyncGenerator[Toolbus]:
    async with asyncio.timeout(PATIENCE), Toolbus(place.config) as bus:
        await bus.wait_ready()
        yield bus


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", REPRESENTATIVES)
async def test_a_held_tool_is_not_offered_to_the_model(
    name: str, framework: type[Framework], tmp_path: Path
) -> None:
    place, mutation = Place(tmp_path), MUTATIONS[name]
    place.approve()
    place.offer(mutated(mutation))
    async with opened(place) as bus:
        with model(["Done."]) as provider:
            await framework().run(bus)
    [asked] = provider.asked
    missing = {*mutation.held, *mutation.gone}
    assert sorted(asked.tools) == sorted(f"files_{one}" for one in {"read", "stat", "write"} - missing)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
async def test_a_model_that_was_offered_the_tool_before_is_told_why_it_is_held(
    framework: type[Framework], tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.approve()
    async with opened(place) as bus:
        loop = asyncio.get_running_loop()

        def script(asked: Asked) -> Reply:
            if asked.given:
                return "Done."
            assert "files_read" in asked.tools
            place.offer(mutated(MUTATIONS["description"]))
            asyncio.run_coroutine_threadsafe(until(lambda: bool(bus.held)), loop).result(PATIENCE)
            return [ToolCall("files_read", ARGUMENTS), ToolCall("files_stat")]

        with model(script) as provider:
            await framework().run(bus)
    [read, stat] = provider.asked[-1].given
    assert (REASON in read.text, "toolbus lock approve files/read" in read.text) == (True, True)
    assert stat.text == "ran stat"
    assert place.calls == ["stat"]


@pytest.mark.parametrize("framework", [LangChain, OpenAI, OwnAgent], ids=lambda one: one.__name__)
async def test_a_model_that_remembers_the_name_is_told_why_it_is_held(
    framework: type[Framework], tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.approve()
    place.offer(mutated(MUTATIONS["description"]))
    async with opened(place) as bus:
        with model([[ToolCall("files_read", ARGUMENTS)], "Done."]) as provider:
            await framework().run(bus)
    first, second = provider.asked
    assert "files_read" not in first.tools
    assert REASON in second.given[0].text
    assert place.calls == []


async def test_the_scripted_model_of_an_agent_is_told_why_a_tool_is_held(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    place.offer(mutated(MUTATIONS["description"]))
    told: list[str] = []

    def last(results: list[str]) -> str:
        told.extend(results)
        return "Done."

    scripted = ScriptedModel([ScriptedCall("files_read", ARGUMENTS), last])
    async with opened(place) as bus:
        ended: list[CallEnded] = []
        bus.on_event(lambda event: ended.append(event) if isinstance(event, CallEnded) else None)
        async with Agent(scripted, tools=[bus]) as agent:
            run = agent.send("Go.")
            assert await run.final == "Done."
        reason = bus.held["files/read"].reason
    assert scripted.offered[0] == ["files_stat", "files_write"]
    assert told == [f"tool 'files_read' was refused: {reason}"]
    assert [(one.name, one.reason) for one in ended] == [("files_read", "refused")]
    assert place.calls == []


async def test_a_tool_object_of_a_held_tool_is_refused_with_the_reason(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    async with opened(place) as bus:
        [tool] = [tool for tool in bus.tools() if tool.name == "files_read"]
        place.offer(mutated(MUTATIONS["description"]))
        await until(lambda: bool(bus.held))
        result = await tool.execute(**ARGUMENTS)
        assert (result.is_error, str(tool.origin) in bus.catalog) == (True, False)
        assert REASON in result.text
    assert place.calls == []


async def test_a_view_tells_the_reason_only_for_the_tools_of_its_servers(tmp_path: Path) -> None:
    place = Place(tmp_path, more={"other": {"command": "no-such-program"}})
    place.approve()
    place.offer({**OFFER, "tools": mutated(MUTATIONS["description"])["tools"]})
    async with opened(place) as bus:
        await until(lambda: bool(bus.held))
        other = bus.view(servers=["other"])
        assert (list(bus.held), list(other.held)) == (["files/read"], [])
        assert "was refused" in str(calls_of(bus).missing("files_read", []))
        assert "was refused" not in str(calls_of(other).missing("files_read", []))
