"""The adapter for CrewAI."""

import asyncio
import gc
import json
import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from tests.adapters.contract import Contract, Harness, Point, Stage
from tests.adapters.speech import ReAct, SpokenHarness, SpokenProvider, SpokenStage, spoken
from tests.adapters.studio import Heard, heard
from tests.conftest import Place
from tests.patience import until
from tests.servers.everyday import PNG
from tests.wire import Asked, ToolCall
from toolbus import Toolbus, ToolResult
from toolbus.adapters.tool_calls import definition_of
from toolbus.call import Next, Operation
from toolbus.records import PromptResult
from toolbus.sync import SyncToolbus

os.environ.update(ReAct.environment)  # it is read by the import
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # CrewAI replaces one of its modules, of which Python warns
    from crewai import LLM, Agent, Crew, Task
    from crewai.hooks import (
        ToolCallHookContext,
        register_after_tool_call_hook,
        register_before_tool_call_hook,
        unregister_after_tool_call_hook,
        unregister_before_tool_call_hook,
    )

    from toolbus.adapters.crewai import BoundTool, BusTool, in_thread, live, messages, tools

ADD = ToolCall("desk_add", {"a": 1, "b": 2})


def clerk(**more: Any) -> Agent:
    """An agent for anything."""
    return Agent(role="clerk", goal="To help.", backstory="You keep notes.", llm="gpt-5.1", **more)


def crew(agent: Agent, prompt: str = "Go.") -> Crew:
    """A crew of one, with one task."""
    task = Task(description=prompt, expected_output="An answer.", agent=agent)
    return Crew(agents=[agent], tasks=[task])


class CrewAI(SpokenHarness):
    name = "crewai"
    speech = ReAct()
    cannot: ClassVar[Mapping[Point, str]] = {"parallel": "an agent makes one call a turn"}

    async def run(self, bus: Toolbus, prompt: str) -> str:
        agent = live(clerk(multimodal=True), bus)
        return str(await in_thread(crew(agent, prompt).kickoff))

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        # Not by an agent, which takes only text; the script ends its words all the same as for one.
        said: Any = await in_thread(LLM("gpt-5.1").call, messages(prompt))
        return str(said).rpartition("Final Answer: ")[2]


def nothing(context: ToolCallHookContext) -> None:
    """Says nothing to a call."""


@contextmanager
def hooks(
    before: Any = nothing,  # CrewAI's own types for these want the name of the argument
    after: Any = nothing,
) -> Generator[None]:
    """CrewAI's own hooks, which apply to all runs."""
    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)
    try:
        yield
    finally:
        unregister_before_tool_call_hook(before)
        unregister_after_tool_call_hook(after)


@pytest.fixture
async def stage(stage: Stage) -> SpokenStage:
    return spoken(stage)


@pytest.fixture
async def own_stage(own_stage: Stage) -> SpokenStage:
    return spoken(own_stage)


class TestCrewAI(Contract):
    harness: ClassVar[Harness] = CrewAI()

    async def test_the_whole_schema_reaches_the_model(self, stage: Stage) -> None:
        _, asked = await stage.play(["Done."])
        for tool in stage.bus.tools():
            said = definition_of(tool, "openai")
            assert (
                f"Tool Name: {said.name}\nTool Arguments: {json.dumps(said.parameters)}\n" in asked[0].system
            )

    async def test_arguments_that_are_not_known_are_told_to_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_echo", {"txt": ["a"]}))
        assert "argument 'txt' is unknown: did you mean 'text'?" in given.text
        [given] = await stage.told(ToolCall("desk_add", "{not json"))
        assert given.text.startswith("MCP error: wrong arguments for 'desk_add'")

    async def test_the_same_call_twice_in_a_row_is_made_twice(
        self, stage: Stage, web_ports: dict[str, int]
    ) -> None:
        made: list[dict[str, Any]] = []

        async def counted(call: Operation, further: Next) -> ToolResult:
            made.append(dict(call.arguments))
            return await further(call)

        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        async with Toolbus(config, hooks=[counted]) as bus:
            with stage.model([[ADD], [ADD], "Done."]):
                await in_thread(crew(clerk(tools=tools(bus))).kickoff)
        assert made == [{"a": 1, "b": 2}] * 2, "and CrewAI's fingerprints are not sent"

    async def test_a_hook_sees_all_that_came(self, stage: Stage) -> None:
        seen: list[tuple[str, Any, Any]] = []

        def look(context: ToolCallHookContext) -> None:
            assert isinstance(context.tool, BoundTool)
            assert context.tool.result is not None
            seen.append(
                (context.tool.metadata["server"], context.tool.result.structured, context.tool_result)
            )

        with hooks(after=look):
            await stage.told(ADD)
        assert seen == [("desk", {"result": 3}, "3")]

    @pytest.mark.parametrize(
        ("agrees", "told"), [(True, "tea"), (False, "Tool execution blocked by hook. Tool: desk_echo")]
    )
    async def test_a_person_is_asked_for_what_is_not_read_only(
        self, stage: Stage, agrees: bool, told: str
    ) -> None:
        def ask(context: ToolCallHookContext) -> bool | None:
            assert isinstance(context.tool, BoundTool)
            return agrees or context.tool.metadata["reads_only"] is True

        with hooks(before=ask):
            said, asked = await stage.play([[ADD], [ToolCall("desk_echo", {"text": "tea"})], "Done."])
        assert said == "Done."
        assert [given.text for given in asked[2].given] == ["3", told]

    async def test_an_agent_that_is_not_multimodal_reads_a_line(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            await in_thread(crew(clerk(tools=tools(stage.bus))).kickoff)
        assert "first\n[image: image/png, 70 B]\n[audio: audio/wav, 16 B]" in provider.asked[1].new[0].text
        assert provider.asked[1].images == ()

    async def test_runs_at_the_same_time_see_only_their_own_pictures(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            mine, other = ("a", "b") if "Task: ab" in str(asked.body) else ("b", "a")
            match len(asked.given):
                case 0:
                    return [ToolCall("desk_many")] if mine == "a" else [ADD]
                case 1:
                    return [ToolCall("desk_meet", {"mine": mine, "other": other})]
                case _:
                    return f"{len(asked.images)} pictures"

        offer = tools(own_stage.bus)
        with own_stage.model(script):
            crews = [crew(clerk(tools=offer, multimodal=True), prompt) for prompt in ("ab", "ba")]
            runs = await asyncio.gather(*(in_thread(each.kickoff) for each in crews))
        assert [str(run) for run in runs] == ["1 pictures", "0 pictures"]

    async def test_an_agent_without_a_crew(self, stage: Stage) -> None:
        with stage.model([[ADD], "It is 3."]) as provider:
            run = await in_thread(live(clerk(), stage.bus).kickoff, "Go.")
        assert (run.raw, provider.asked[1].new[0].text) == ("It is 3.", "3")

    async def test_an_agent_without_a_crew_is_told_a_prompt_in_words(self, stage: Stage) -> None:
        prompt = await stage.prompt("report")
        with stage.model([[ADD], "It is 3."]) as provider:
            run = await in_thread(live(clerk(), stage.bus).kickoff, messages(prompt, media=False))
        assert (run.raw, provider.asked[1].new[0].text) == ("It is 3.", "3")
        told = "[resource: memo://report.pdf, application/pdf, 8 B]\nWhat does it say?"
        assert heard(provider.asked[0]) == [Heard(role="user", text=told)]

    async def test_tools_of_the_agent_stay_beside_those_of_the_bus(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        [mine] = [tool for tool in tools(bus) if tool.name == "desk_echo"]
        with own_stage.model([]):
            agent = live(clerk(tools=[mine]), bus)
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: "desk_fresh" in [tool.name for tool in agent.tools or []])
        assert [tool.name for tool in agent.tools or []] == ["desk_echo", *bus.catalog.names]

    async def test_an_agent_that_is_gone_is_forgotten(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        with own_stage.model([]):
            live(clerk(), bus)
        gc.collect()  # the agent
        gc.collect()  # and what it held
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: not bus._hub._callbacks)  # pyright: ignore[reportPrivateUsage]  # what leaks

    async def test_a_list_is_a_snapshot_until_it_is_refreshed(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        offer = tools(bus)
        before = list(offer)
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: "desk_fresh" in bus.catalog)
        assert [*map(id, offer)] == [*map(id, before)]
        offer.refresh()
        assert [tool.name for tool in offer] == list(bus.catalog.names)

    def test_a_run_without_a_loop(self, web_ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        with (
            SpokenProvider([[ToolCall("desk_many")], "Seen."], ReAct()) as provider,
            SyncToolbus(config) as bus,
        ):
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            agent = live(clerk(multimodal=True), bus)
            assert str(crew(agent).kickoff()) == "Seen."
            [echo] = [tool for tool in agent.tools or [] if tool.name == "desk_echo"]
            assert isinstance(echo, BusTool)
            assert echo.run(text="hello") == "hello"
        assert provider.asked[1].images == (PNG,)
