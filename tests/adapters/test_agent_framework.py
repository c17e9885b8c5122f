"""The adapter for Microsoft's Agent Framework."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from agent_framework import Agent, AgentSession, Content, Message
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from mcp.server.mcpserver import MCPServer
from openai import AsyncOpenAI

from tests.adapters.contract import Contract, Harness, Stage
from tests.adapters.studio import REVIEW, heard
from tests.patience import wait_until
from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import PDF, gallery
from tests.wire import Asked, ToolCall
from toolbus import Toolbus
from toolbus.adapters.agent_framework import messages, tools, toolset
from toolbus.records import Audio, PromptResult, ToolResult


class AgentFramework(Harness):
    name = "agent_framework"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        async with an_agent(context_providers=[toolset(bus)]) as agent:
            run = await agent.run(prompt)
            return run.text

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        async with an_agent(context_providers=[toolset(bus)]) as agent:
            run = await agent.run(messages(prompt))
            return run.text


@asynccontextmanager
async def an_agent(**more: Any) -> AsyncGenerator[Agent[Any]]:
    """An agent with a client of its own, which is closed; every request holds the whole conversation."""
    async with AsyncOpenAI() as client:
        chat = OpenAIChatClient("gpt-5.1", async_client=client)
        yield Agent(chat, default_options={"store": False}, **more)


def results(messages: list[Message]) -> list[Content]:
    """The results of tools in a conversation."""
    return [part for message in messages for part in message.contents if part.type == "function_result"]


def open_ended() -> MCPServer:
    """A server whose tool takes any input."""
    server: MCPServer = MCPServer("open")

    @server.tool(structured_output=False)
    def keep(name: str) -> str:
        """Keep facts about somebody."""
        return name

    [kept] = server._tool_manager.list_tools()  # pyright: ignore[reportPrivateUsage]  no other way to say it
    kept.parameters["additionalProperties"] = {"type": "string"}
    return server


class TestAgentFramework(Contract):
    harness: ClassVar[Harness] = AgentFramework()

    async def test_failures_never_switch_the_tools_off(self, stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            wrong = [ToolCall("desk_add", "{not json"), ToolCall("desk_add", {"a": 1}), ToolCall("desk_fail")]
            return wrong if len(asked.given) < 15 else "I give up."

        said, asked = await stage.play(script)
        assert said == "I give up."
        assert all("tool_choice" not in request.body or request.body["tools"] for request in asked)
        not_json, incomplete, failed = (given.text for given in asked[5].new)
        assert not_json.startswith("MCP error: the arguments are not valid JSON (Expecting property name")
        assert incomplete.startswith(
            "MCP error: wrong arguments for 'desk_add', nothing was sent: argument 'b'"
        )
        assert failed == "Error executing tool fail: no reason"

    async def test_arguments_that_can_be_mended_are_not_refused(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", {"a": "1", "b": 2}))
        assert given.text == "3"

    async def test_a_result_holds_what_the_model_is_not_told(self, stage: Stage) -> None:
        session = AgentSession()
        with stage.model([[ToolCall("desk_many")], "Done."]):
            async with an_agent(context_providers=[toolset(stage.bus)]) as agent:
                run = await agent.run("Go.", session=session)
        [result] = results(run.messages)
        assert result.items is not None
        about, whole = result.items[0].additional_properties, result.items[0].raw_representation
        assert (about["server"], about["structured"], about["is_error"]) == ("desk", {"n": 7}, False)
        assert isinstance(whole, ToolResult)
        assert Audio(data=WAV, mime_type="audio/wav") in whole.content
        assert "abc" in json.dumps(session.to_dict()), "a session can be kept"

    async def test_a_failure_is_marked_as_one(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_fail", {"reason": "no ink"})], "Done."]):
            async with an_agent(tools=tools(stage.bus)) as agent:
                run = await agent.run("Go.")
        [result] = results(run.messages)
        assert result.items is not None
        assert result.items[0].additional_properties["is_error"] is True

    @pytest.mark.parametrize("agreed", [True, False])
    async def test_a_person_is_asked(self, agreed: bool, stage: Stage) -> None:
        calls = [ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "tea"})]
        session = AgentSession()
        with stage.model([calls, "Done."]) as provider:
            async with an_agent(context_providers=[toolset(stage.bus, approve="writes")]) as agent:
                run = await agent.run("Go.", session=session)
                [waiting] = run.user_input_requests
                assert waiting.function_call is not None
                assert waiting.function_call.name == "desk_echo"
                answer = Message("user", [waiting.to_function_approval_response(agreed)])
                run = await agent.run(answer, session=session)
        assert run.text == "Done."
        told = {given.name: given.text for given in provider.asked[1].given}
        assert (told["desk_add"], "tea" in told["desk_echo"]) == ("3", agreed)

    @pytest.mark.parametrize("agreed", [True, False])
    async def test_the_policy_asks_a_person(self, agreed: bool, stage: Stage) -> None:
        asking = stage.bus.view(policy=[{"tools": "desk/echo", "do": "ask"}])
        session = AgentSession()
        with stage.model([[ToolCall("desk_echo", {"text": "tea"})], "Done."]) as provider:
            async with an_agent(context_providers=[toolset(asking)]) as agent:
                run = await agent.run("Go.", session=session)
                [waiting] = run.user_input_requests
                answer = Message("user", [waiting.to_function_approval_response(agreed)])
                await agent.run(answer, session=session)
        assert ("tea" in provider.asked[1].given[0].text) is agreed

    async def test_a_program_that_runs_a_tool_itself_has_no_approval(self, stage: Stage) -> None:
        asking = stage.bus.view(policy=[{"tools": "desk/echo", "do": "ask"}])
        [echo] = [tool for tool in tools(asking) if tool.name == "desk_echo"]
        contents = await echo.invoke(arguments={"text": "tea"})
        assert "rule view.policy[0] asks a person, and nobody can be asked here" in str(contents[0].text)

    async def test_a_list_of_tools_is_brought_up_to_date(self, own_stage: Stage) -> None:
        offer = tools(own_stage.bus)
        before = {tool.name: tool for tool in offer}
        assert before["desk_add"].additional_properties is not None
        assert before["desk_add"].additional_properties["annotations"]["readOnlyHint"] is True
        await own_stage.bus.remove_server("desk")
        offer.refresh()
        assert offer == []

    async def test_a_client_that_leaves_pictures_out_says_that_they_are_there(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            async with AsyncOpenAI() as client:
                chat = OpenAIChatCompletionClient("gpt-5.1", async_client=client)
                await Agent(chat, tools=tools(stage.bus)).run("Go.")
        [given] = provider.asked[1].new
        assert given.text.startswith("first\n[image: image/png, 70 B]\n[audio: audio/wav, 16 B]\n")

    async def test_chat_completions_take_a_prompt_and_its_sound(self, stage: Stage) -> None:
        said = [*messages(await stage.prompt("review", {"of": "tea"}))]
        said += messages(await stage.prompt("listen"), audio=True)
        with stage.model(["Done."]) as provider:
            async with AsyncOpenAI() as client:
                await Agent(OpenAIChatCompletionClient("gpt-audio", async_client=client)).run(said)
        assert heard(provider.asked[0])[:2] == REVIEW[:2]
        assert '"format": "wav"' in json.dumps(provider.asked[0].body["messages"])

    async def test_documents_are_given_to_a_model_that_reads_them(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        with stage.model([[ToolCall("gallery_show")], "Read."]) as provider:
            async with an_agent(tools=tools(stage.bus, "gallery", files=True)) as agent:
                await agent.run("Go.")
        [given] = provider.asked[1].new
        assert (given.images, given.files) == ((PNG,), (PDF,))
        assert "[image: image/svg+xml, 41 B]\n[resource: memo://report.pdf" in given.text

    async def test_a_tool_that_takes_more_than_it_names_stays_so(self, stage: Stage) -> None:
        await stage.bus.add_server("open", {"server": open_ended()})
        with stage.model(["One.", "Two."]) as provider:
            async with an_agent(context_providers=[toolset(stage.bus)]) as agent:
                await agent.run("Go.")
                await agent.run("Go.")
        first, second = (asked.tools["open_keep"]["parameters"] for asked in provider.asked)
        assert first == second
        assert first["additionalProperties"] == {"type": "string"}

    async def test_a_stream_sees_new_tools_too(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            match len(asked.given):
                case 0:
                    return [ToolCall("desk_grow", {"name": "fresh"})]
                case 1:
                    wait_until(lambda: "desk_fresh" in own_stage.bus.catalog)
                    return [ToolCall("desk_add", {"a": 1, "b": 2})]
                case 2:
                    return [ToolCall("desk_fresh")]
                case _:
                    return asked.given[-1].text

        with own_stage.model(script):
            async with an_agent(context_providers=[toolset(own_stage.bus)]) as agent:
                run = await agent.run("Go.", stream=True).get_final_response()
        assert run.text == "I am fresh"

    async def test_runs_at_the_same_time_share_the_tools(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            mine, other = asked.prompt
            if asked.given:
                return asked.given[0].text
            return [ToolCall("desk_meet", {"mine": mine, "other": other})]

        with own_stage.model(script):
            async with an_agent(context_providers=[toolset(own_stage.bus)]) as agent:
                runs = await asyncio.gather(agent.run("ab"), agent.run("ba"))
        assert [run.text for run in runs] == ["a met b", "b met a"]
