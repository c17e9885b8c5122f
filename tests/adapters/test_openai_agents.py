"""The adapter for the OpenAI Agents SDK."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner
from agents.items import ToolCallOutputItem
from openai import AsyncOpenAI

from tests.adapters.contract import Contract, Harness, Point, Stage
from tests.adapters.studio import REVIEW, heard
from tests.patience import until
from tests.wire import ToolCall
from toolbus import Toolbus
from toolbus.adapters.openai_agents import messages, tools
from toolbus.records import PromptResult

QUIET = RunConfig(tracing_disabled=True)


@asynccontextmanager
async def clerk(toolbox: list[Any]) -> AsyncGenerator[Agent]:
    """An agent with a client of its own: the SDK's is kept from one loop to the next."""
    async with AsyncOpenAI() as client:
        yield Agent(name="clerk", model=OpenAIResponsesModel("gpt-5.1", client), tools=toolbox)


class OpenAIAgents(Harness):
    name = "openai_agents"
    cannot: ClassVar[Mapping[Point, str]] = {
        "unknown": "it ends the run, unless its RunConfig says otherwise"
    }

    async def run(self, bus: Toolbus, prompt: str) -> str:
        async with clerk(tools(bus, follow=True)) as agent:
            return str((await Runner.run(agent, prompt, run_config=QUIET)).final_output)

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        async with clerk(tools(bus, follow=True)) as agent:
            return str((await Runner.run(agent, messages(prompt), run_config=QUIET)).final_output)


class TestOpenAIAgents(Contract):
    harness: ClassVar[Harness] = OpenAIAgents()

    async def test_the_output_of_a_call_carries_server_and_structured_content(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_add", {"a": 1, "b": 2})], "Done."]):
            async with clerk(tools(stage.bus)) as agent:
                run = await Runner.run(agent, "Go.", run_config=QUIET)
        [output] = [item for item in run.new_items if isinstance(item, ToolCallOutputItem)]
        assert output.custom_data is not None
        assert output.custom_data["server"] == "desk"
        assert output.custom_data["annotations"]["readOnlyHint"] is True
        assert output.custom_data["structured"] == {"result": 3}
        assert output.custom_data["is_error"] is False

    async def test_a_name_that_no_tool_has_is_told_to_the_model_if_wanted(self, stage: Stage) -> None:
        config = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")
        with stage.model([[ToolCall("desk_nowhere")], "Done."]) as provider:
            async with clerk(tools(stage.bus)) as agent:
                run = await Runner.run(agent, "Go.", run_config=config)
        assert (run.final_output, "desk_nowhere" in provider.asked[1].new[0].text) == ("Done.", True)

    @pytest.mark.parametrize(("agrees", "told"), [(True, "hello"), (False, "not approved")])
    async def test_a_person_is_asked_for_what_is_not_read_only(
        self, stage: Stage, agrees: bool, told: str
    ) -> None:
        calls = [ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "hello"})]
        with stage.model([calls, "Done."]) as provider:
            async with clerk(tools(stage.bus, approve="writes")) as agent:
                run = await Runner.run(agent, "Go.", run_config=QUIET)
                assert [item.name for item in run.interruptions] == ["desk_echo"]
                state = run.to_state()
                if agrees:
                    state.approve(run.interruptions[0])
                else:
                    state.reject(run.interruptions[0])
                run = await Runner.run(agent, state, run_config=QUIET)
            assert run.final_output == "Done."
            assert told in provider.asked[1].given[-1].text

    async def test_arguments_that_are_no_json_are_told_to_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", "{not json"))
        assert given.text.startswith("MCP error: the arguments are not valid JSON")

    async def test_chat_completions_take_the_same_tools(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            async with AsyncOpenAI() as client:
                model = OpenAIChatCompletionsModel("gpt-5.1", client)
                agent = Agent(name="clerk", model=model, tools=tools(stage.bus))
                run = await Runner.run(agent, "Go.", run_config=QUIET)
        assert run.final_output == "Done."
        assert provider.asked[1].given[0].text.startswith("first")

    async def test_chat_completions_take_the_same_prompt(self, stage: Stage) -> None:
        said = messages(await stage.prompt("review", {"of": "tea"}))
        with stage.model(["Done."]) as provider:
            async with AsyncOpenAI() as client:
                agent = Agent(name="clerk", model=OpenAIChatCompletionsModel("gpt-5.1", client))
                await Runner.run(agent, said, run_config=QUIET)
        assert heard(provider.asked[0]) == REVIEW

    async def test_a_list_is_a_snapshot_until_it_is_refreshed(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        still, following = tools(bus), tools(bus, follow=True)
        before = list(still)
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: len(following) == len(before) + 1)
        assert still == before
        still.refresh()
        assert [tool.name for tool in still] == list(bus.catalog.names)
        kept = {id(tool) for tool in still} & {id(tool) for tool in before}
        assert len(kept) == len(before), "what did not change stays the same object"

    async def test_a_list_that_nobody_holds_is_forgotten(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        tools(bus, follow=True)
        held = tools(bus, follow=True)
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: any(tool.name == "desk_fresh" for tool in held))
        listeners: list[Any] = bus._hub._callbacks  # pyright: ignore[reportPrivateUsage]  # what leaks
        assert len(listeners) == 1

    async def test_only_the_servers_that_are_asked_for(self, stage: Stage, web_ports: dict[str, int]) -> None:
        await stage.bus.add_server("other", {"url": f"http://127.0.0.1:{web_ports['http']}/mcp"})
        names = [tool.name for tool in tools(stage.bus, "other")]
        assert names
        assert all(name.startswith("other_") for name in names)
        chosen = [tool for tool in stage.bus.tools() if tool.name == "desk_add"]
        assert [tool.name for tool in tools(chosen)] == ["desk_add"]

    async def test_strict_schemas_where_the_config_wants_them(self, web_ports: dict[str, int]) -> None:
        server = {
            "url": f"http://127.0.0.1:{web_ports['http']}/mcp",
            "override": {"add": {"options": {"openai": {"strict": True}}}},
        }
        async with Toolbus({"servers": {"desk": server}}) as bus:
            strict = {
                tool.name: tool.strict_json_schema for tool in tools(bus) if isinstance(tool, FunctionTool)
            }
        assert [name for name, is_strict in strict.items() if is_strict] == ["desk_add"]
