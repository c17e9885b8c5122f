"""The adapter for Agno."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, ClassVar

import pytest
from agno.agent import Agent
from agno.models.message import Message
from agno.models.openai import OpenAIChat
from agno.tools import Toolkit
from mcp.server.mcpserver import MCPServer
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.adapters.contract import Contract, Harness, Point, Stage
from tests.conftest import Place
from tests.servers.everyday import PNG
from tests.servers.gallery import gallery
from tests.wire import Asked, Provider, ToolCall
from toolbus import Toolbus
from toolbus.adapters.agno import messages, toolset
from toolbus.adapters.tool_calls import definition_of
from toolbus.records import PromptResult
from toolbus.sync import SyncToolbus


class Agno(Harness):
    name = "agno"
    cannot: ClassVar[Mapping[Point, str]] = {"appears": "an agent gives its model the tools once for a run"}

    async def run(self, bus: Toolbus, prompt: str) -> str:
        async with an_agent(toolset(bus)) as agent:
            return await said(agent, prompt)

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        async with an_agent(toolset(bus)) as agent:
            return await said(agent, messages(prompt))


async def said(agent: Any, prompt: str | list[Message]) -> str:
    """The last words of a run; Agno types it only in part."""
    run = await agent.arun(prompt)
    return str(run.content)


@asynccontextmanager
async def an_agent(toolkit: Toolkit, **more: Any) -> AsyncGenerator[Any]:
    """An agent with a client of its own, which is closed; without reports to its makers."""
    async with AsyncOpenAI() as client:
        model = OpenAIChat("gpt-5.1", async_client=client)
        yield Agent(model=model, tools=[toolkit], telemetry=False, **more)


def peculiar() -> MCPServer:
    """A server whose tool takes what Agno would inject."""
    server: MCPServer = MCPServer("peculiar")

    @server.tool(structured_output=False)
    def names(agent: str, team: str, run_context: str, fc: str, files: str) -> str:
        """Arguments that bear the names of what Agno injects."""
        return " ".join((agent, team, run_context, fc, files))

    @server.tool(structured_output=False)
    def words(text: str, flag: bool, note: str | None = "a note") -> str:
        """A text, a switch, and a text that may be missing."""
        return f"{text!r} {flag!r} {note!r}"

    return server


class TestAgno(Contract):
    harness: ClassVar[Harness] = Agno()

    async def test_arguments_may_have_the_names_of_what_is_injected(self, stage: Stage) -> None:
        await stage.bus.add_server("odd", {"server": peculiar()})
        given = {name: f"the {name}" for name in ("agent", "team", "run_context", "fc", "files")}
        [told] = await stage.told(ToolCall("odd_names", given))
        assert told.text == " ".join(given.values())

    @pytest.mark.parametrize("word", ["true", "None", "null", " False"])
    async def test_words_stay_words(self, word: str, stage: Stage) -> None:
        await stage.bus.add_server("odd", {"server": peculiar()})
        [told] = await stage.told(ToolCall("odd_words", {"text": word, "flag": "true", "note": "null"}))
        assert told.text == f"{word!r} True None"

    async def test_a_failure_is_marked_as_one(self, stage: Stage) -> None:
        calls = [ToolCall("desk_fail", {"reason": "no ink"}), ToolCall("desk_add", "{not json")]
        with stage.model([calls, "Done."]) as provider:
            async with an_agent(toolset(stage.bus)) as agent:
                run = await agent.arun("Go.")
        [failed] = run.tools
        assert (failed.tool_call_error, failed.result) == (True, "Error executing tool fail: no ink")
        told = {given.name: given.text for given in provider.asked[1].new}
        assert told["desk_add"].startswith("Error while decoding function arguments")

    async def test_hooks_see_what_the_model_is_not_told(self, stage: Stage) -> None:
        seen: list[Any] = []

        async def hook(function_call: Callable[..., Awaitable[Any]], arguments: dict[str, Any]) -> Any:
            seen.append(await function_call(**arguments))
            return seen[-1]

        with stage.model([[ToolCall("desk_many")], "Done."]):
            async with an_agent(toolset(stage.bus), tool_hooks=[hook]) as agent:
                run = await agent.arun("Go.")
        about = seen[0].metadata
        assert (about["server"], about["structured"], about["meta"]["trace"]) == ("desk", {"n": 7}, "abc")
        kinds = [block["type"] for block in about["content"]]
        assert kinds == ["Audio", "ResourceLink", "Embedded", "Embedded"]
        assert [image.content for image in run.images] == [PNG]

    @pytest.mark.parametrize("agreed", [True, False])
    async def test_a_person_is_asked(self, agreed: bool, stage: Stage) -> None:
        calls = [ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "true"})]
        with stage.model([calls, "Done."]) as provider:
            async with an_agent(toolset(stage.bus, approve="writes")) as agent:
                run = await agent.arun("Go.")
                [waiting] = run.active_requirements
                assert (run.is_paused, waiting.tool_execution.tool_name) == (True, "desk_echo")
                if agreed:
                    waiting.confirm()
                else:
                    waiting.reject("not now")
                run = await agent.acontinue_run(run_response=run)
        assert run.content == "Done."
        assert [given.text for given in provider.asked[1].given] == ["3", "true" if agreed else "not now"]

    @pytest.mark.parametrize("agreed", [True, False])
    async def test_the_policy_asks_a_person(self, agreed: bool, stage: Stage) -> None:
        asking = stage.bus.view(policy=[{"tools": "desk/echo", "do": "ask"}])
        with stage.model([[ToolCall("desk_echo", {"text": "true"})], "Done."]) as provider:
            async with an_agent(toolset(asking)) as agent:
                run = await agent.arun("Go.")
                [waiting] = run.active_requirements
                if agreed:
                    waiting.confirm()
                else:
                    waiting.reject("not now")
                await agent.acontinue_run(run_response=run)
        assert [given.text for given in provider.asked[1].given] == ["true" if agreed else "not now"]

    async def test_pictures_of_a_confirmed_call_are_told_of(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            async with an_agent(toolset(stage.bus, approve="ask")) as agent:
                run = await agent.arun("Go.")
                run.active_requirements[0].confirm()
                await agent.acontinue_run(run_response=run)
        [given] = provider.asked[1].new
        assert given.images == ()
        assert given.text.startswith("first\n[image: image/png, 70 B]\n[audio: audio/wav, 16 B]")

    async def test_sound_and_documents_are_given_to_a_model_that_takes_them(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        calls = [ToolCall("gallery_show"), ToolCall("desk_many")]
        with stage.model([calls, "Done."]) as provider:
            async with an_agent(toolset(stage.bus, audio=True, files=True)) as agent:
                await agent.arun("Go.")
        parts = provider.asked[1].body["messages"][-1]["content"]
        assert [part["type"] for part in parts] == ["file", "text", "image_url", "image_url", "input_audio"]
        assert parts[0]["file"]["filename"] == "report.pdf"
        assert provider.asked[1].images == (PNG, PNG)
        assert "[image: image/svg+xml, 41 B]" in provider.asked[1].new[0].text

    async def test_the_sound_of_a_prompt_is_given_to_a_model_that_hears(self, stage: Stage) -> None:
        prompt = await stage.prompt("listen")
        with stage.model(["Done."]) as provider:
            async with an_agent(toolset(stage.bus)) as agent:
                await agent.arun(messages(prompt, audio=True))
        parts = provider.asked[0].body["messages"][-2]["content"]
        assert [part["type"] for part in parts] == ["text", "input_audio"]
        assert parts[0]["text"] == "[audio: audio/wav, 16 B]"

    async def test_the_schema_stays_where_the_output_has_one(self, stage: Stage) -> None:
        class Said(BaseModel):
            words: str

        with stage.model([json.dumps({"words": "Hello."})]) as provider:
            async with an_agent(toolset(stage.bus), output_schema=Said) as agent:
                run = await agent.arun("Go.")
        assert run.content == Said(words="Hello.")
        for tool in stage.bus.tools():
            sent = provider.asked[0].tools[tool.name]["function"]
            assert (sent["parameters"], sent["strict"]) == (definition_of(tool, "openai").parameters, False)

    async def test_annotations_are_hints_of_the_function(self, stage: Stage) -> None:
        add = toolset(stage.bus, servers="desk").get_async_functions()["desk_add"]
        assert add.annotations is not None
        assert add.annotations["readOnlyHint"] is True

    async def test_runs_at_the_same_time_share_an_agent_and_its_copies(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            mine, other = asked.prompt
            if asked.given:
                return asked.given[0].text
            return [ToolCall("desk_meet", {"mine": mine, "other": other})]

        toolkit = toolset(own_stage.bus)
        assert deepcopy(toolkit) is toolkit
        with own_stage.model(script):
            async with an_agent(toolkit) as agent:
                words = await asyncio.gather(said(agent, "ab"), said(agent.deep_copy(), "ba"))
        assert words == ["a met b", "b met a"]

    def test_a_run_without_a_loop(self, web_ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        calls = [ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "true"})]
        with Provider([calls, "Done."]) as provider:
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            with OpenAI() as client, SyncToolbus(config) as bus:
                model = OpenAIChat("gpt-5.1", client=client)
                agent: Any = Agent(model=model, tools=[toolset(bus)], telemetry=False)
                run = agent.run("Go.")
        assert run.content == "Done."
        assert [given.text for given in provider.asked[1].given] == ["3", "true"]
