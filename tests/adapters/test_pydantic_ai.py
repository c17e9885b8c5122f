"""The adapter for Pydantic AI."""

import asyncio
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator
from mcp.server import Server
from mcp_types import ListToolsResult, Tool
from openai import AsyncOpenAI
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ToolDefinition,
    ToolDenied,
    ToolReturnPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.adapters.contract import Contract, Harness, Stage
from tests.adapters.studio import REPORT, REVIEW, heard
from tests.conftest import Place
from tests.servers.everyday import PNG
from tests.servers.gallery import PDF, gallery
from tests.shape import corpus
from tests.wire import Asked, Provider, ToolCall
from toolbus import Toolbus
from toolbus.adapters.pydantic_ai import messages, toolset
from toolbus.adapters.tool_calls import definition_of, json_schema
from toolbus.records import PromptResult
from toolbus.shape import Dialect
from toolbus.sync import SyncToolbus

JSON_SCHEMA = set(Draft202012Validator.VALIDATORS) | {"description", "title", "default", "format"}
NULLS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "word": {"type": ["string", "null"], "description": "A word."},
        "one": {"enum": ["a", "b", None]},
        "many": {"type": "array", "items": {"type": ["string", "integer", "null"]}},
        "nullable": {"type": "boolean"},
    },
}


def catalog(tools: list[Tool]) -> Server[Any]:
    """A server that has these tools."""

    async def listed(_: object, __: object) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    return Server("catalog", on_list_tools=listed)


def keywords(schema: Any) -> Iterator[str]:
    """Every keyword of a schema and of those within it; the names of properties are none."""
    yield from schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from keywords(each)


class PydanticAI(Harness):
    name = "pydantic_ai"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        # Entered, so that the client of its model is closed.
        async with Agent(OpenAIChatModel("gpt-5.1"), toolsets=[toolset(bus)]) as agent:
            run = await agent.run(prompt)
            return run.output

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        async with Agent(OpenAIChatModel("gpt-5.1"), toolsets=[toolset(bus)]) as agent:
            run = await agent.run(message_history=messages(prompt))
            return run.output


def returned(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """The results of tools in a history."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


@contextmanager
def a_loop() -> Generator[asyncio.AbstractEventLoop]:
    """The loop of this thread; the framework would make one for itself and never close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class TestPydanticAI(Contract):
    harness: ClassVar[Harness] = PydanticAI()

    async def test_failures_cost_no_retries(self, stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            wrong = [ToolCall("desk_add", "{not json"), ToolCall("desk_add", {"a": 1}), ToolCall("desk_fail")]
            return wrong if len(asked.given) < 9 else "I give up."

        said, asked = await stage.play(script)
        assert said == "I give up."
        not_json, incomplete, failed = (json.loads(given.text)["error"] for given in asked[1].new)
        assert not_json.startswith("MCP error: the arguments are not valid JSON (Expecting property name")
        assert incomplete.startswith(
            "MCP error: wrong arguments for 'desk_add', nothing was sent: argument 'b'"
        )
        assert failed == "Error executing tool fail: no reason"

    async def test_arguments_that_can_be_mended_are_not_refused(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", {"a": "1", "b": 2}))
        assert given.text == "3"

    async def test_metadata_holds_what_the_model_is_not_told(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]):
            async with Agent(OpenAIChatModel("gpt-5.1"), toolsets=[toolset(stage.bus)]) as agent:
                run = await agent.run("Go.")
        [part] = returned(run.new_messages())
        assert (part.outcome, part.metadata["server"], part.metadata["tool"]) == ("success", "desk", "many")
        assert (part.metadata["structured"], part.metadata["meta"]["trace"]) == ({"n": 7}, "abc")
        kinds = [block["type"] for block in part.metadata["content"]]
        assert kinds == ["Audio", "ResourceLink", "Embedded", "Embedded"]
        kept = ModelMessagesTypeAdapter.validate_json(run.new_messages_json())
        assert returned(kept)[0].metadata["structured"] == {"n": 7}

    async def test_a_failed_call_is_a_failed_part(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_fail", {"reason": "no ink"})], "Done."]):
            async with Agent(OpenAIChatModel("gpt-5.1"), toolsets=[toolset(stage.bus)]) as agent:
                run = await agent.run("Go.")
        [part] = returned(run.new_messages())
        assert (part.outcome, part.content) == ("failed", "Error executing tool fail: no ink")

    @pytest.mark.parametrize(
        ("answer", "told"),
        [(True, "tea"), (False, "The tool call was denied."), (ToolDenied("Not now."), "Not now.")],
    )
    async def test_a_person_is_asked(self, answer: Any, told: str, stage: Stage) -> None:
        calls = [ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "tea"})]
        tools = toolset(stage.bus, approve="writes")
        with stage.model([calls, "Done."]) as provider:
            model = OpenAIChatModel("gpt-5.1")
            async with Agent(model, output_type=[str, DeferredToolRequests], toolsets=[tools]) as agent:
                asked = await agent.run("Go.")
                assert isinstance(asked.output, DeferredToolRequests)
                [call] = asked.output.approvals
                assert (call.tool_name, call.args_as_dict()) == ("desk_echo", {"text": "tea"})
                assert asked.output.metadata[call.tool_call_id]["server"] == "desk"
                answers = DeferredToolResults(approvals={call.tool_call_id: answer})
                run = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers)
        assert run.output == "Done."
        assert sorted(given.text for given in provider.asked[1].given) == sorted(["3", told])

    async def test_pictures_stand_in_the_result_where_the_model_takes_them_there(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Seen."]) as provider:
            async with Agent(OpenAIResponsesModel("gpt-5.1"), toolsets=[toolset(stage.bus)]) as agent:
                await agent.run("Go.")
        [given] = provider.asked[1].new
        assert given.images == (PNG,)
        assert given.text.startswith("first\n[audio: audio/wav, 16 B]\n[link: memo://greeting, greeting")

    async def test_sound_is_given_to_a_model_that_hears(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Heard."]) as provider:
            async with Agent(
                OpenAIChatModel("gpt-audio"), toolsets=[toolset(stage.bus, audio=True)]
            ) as agent:
                await agent.run("Go.")
        assert '"format": "wav"' in json.dumps(provider.asked[1].body["messages"][-1])
        assert "audio/wav" not in provider.asked[1].new[0].text

    async def test_documents_are_given_to_a_model_that_reads_them(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        tools = toolset(stage.bus, "gallery", files=True)
        with stage.model([[ToolCall("gallery_show")], "Read."]) as provider:
            async with Agent(OpenAIResponsesModel("gpt-5.1"), toolsets=[tools]) as agent:
                await agent.run("Go.")
        [given] = provider.asked[1].new
        assert (given.images, given.files) == ((PNG,), (PDF,))
        assert (
            given.text == "[image: image/svg+xml, 41 B]\n[resource: memo://report.pdf, application/pdf, 8 B]"
        )

    @pytest.mark.parametrize(
        ("model", "dialect", "strict"),
        [
            (OpenAIChatModel, "openai", False),
            (AnthropicModel, "anthropic", None),
            (GoogleModel, "google", None),
        ],
    )
    async def test_the_dialect_is_that_of_the_model(
        self, model: Callable[[str], Model], dialect: Dialect, strict: bool | None, stage: Stage
    ) -> None:
        seen: list[ToolDefinition] = []
        tools = toolset(stage.bus).prepared(lambda _, tools: seen.extend(tools) or tools)
        with stage.model(["Hello."]) as provider:
            async with Agent(model("some"), toolsets=[tools]) as agent:
                await agent.run("Go.")
        assert {"desk_add", "desk_many"} <= set(provider.asked[0].tools)
        expected = [json_schema(definition_of(tool, dialect).parameters) for tool in stage.bus.tools()]
        assert [tool.parameters_json_schema for tool in seen] == expected
        assert {tool.strict for tool in seen} == {strict}

    async def test_google_gets_null_as_json_schema_has_it(self, stage: Stage) -> None:
        await stage.bus.add_server("odd", {"server": catalog([Tool(name="ask", input_schema=NULLS)])})
        with stage.model(["Hello."]) as provider:
            async with Agent(GoogleModel("gemini-3-pro"), toolsets=[toolset(stage.bus, "odd")]) as agent:
                await agent.run("Go.")
        null = {"type": "null"}
        assert provider.asked[0].tools["odd_ask"]["parameters_json_schema"]["properties"] == {
            "word": {"anyOf": [{"type": "string"}, null], "description": "A word."},
            "one": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, null]},
            "many": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}, null]}},
            "nullable": {"type": "boolean"},
        }

    async def test_real_tools_reach_google_as_json_schema(self, stage: Stage) -> None:
        tools = [
            Tool(name=f"t{number}", description=spec.description, input_schema=dict(spec.input_schema))
            for number, spec in enumerate(corpus.specs())
        ]
        await stage.bus.add_server("real", {"server": catalog(tools)})
        with stage.model(["Hello."]) as provider:
            async with Agent(GoogleModel("gemini-3-pro"), toolsets=[toolset(stage.bus, "real")]) as agent:
                await agent.run("Go.")
        sent = [tool["parameters_json_schema"] for tool in provider.asked[0].tools.values()]
        assert len(sent) == len(tools)
        unknown = {key for schema in sent for key in keywords(schema)} - JSON_SCHEMA
        assert unknown == set()

    @pytest.mark.parametrize("model", [OpenAIResponsesModel, AnthropicModel, GoogleModel])
    async def test_a_prompt_reaches_the_models_of_all_providers(
        self, model: Callable[[str], Model], stage: Stage
    ) -> None:
        said = [
            *messages(await stage.prompt("review", {"of": "tea"})),
            *messages(await stage.prompt("report")),
        ]
        with stage.model(["Done."]) as provider:
            async with Agent(model("some")) as agent:
                await agent.run(message_history=said)
        *review, last = heard(provider.asked[0])
        assert review == REVIEW[:2]
        assert last.text == f"{REVIEW[2].text}\n{REPORT[0].text}"
        assert last.files == (PDF,)

    async def test_the_sound_of_a_prompt_is_given_to_a_model_that_hears(self, stage: Stage) -> None:
        said = messages(await stage.prompt("listen"), audio=True)
        with stage.model(["Done."]) as provider:
            async with Agent(OpenAIChatModel("gpt-audio")) as agent:
                await agent.run(message_history=said)
        sound, text = provider.asked[0].body["messages"][-1]["content"]
        assert (sound["type"], text["text"]) == ("input_audio", "What is it?")

    async def test_runs_at_the_same_time_share_an_agent(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            mine, other = asked.prompt
            return (
                asked.given[0].text
                if asked.given
                else [ToolCall("desk_meet", {"mine": mine, "other": other})]
            )

        with own_stage.model(script):
            async with Agent(OpenAIChatModel("gpt-5.1"), toolsets=[toolset(own_stage.bus)]) as agent:
                runs = await asyncio.gather(agent.run("ab"), agent.run("ba"))
        assert [run.output for run in runs] == ["a met b", "b met a"]

    def test_a_run_without_a_loop(self, web_ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        with Provider([[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]) as provider:
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            with a_loop() as loop, SyncToolbus(config) as bus:
                client = AsyncOpenAI()
                model = OpenAIChatModel("gpt-5.1", provider=OpenAIProvider(openai_client=client))
                run = Agent(model, toolsets=[toolset(bus)]).run_sync("Go.")
                loop.run_until_complete(client.close())
        assert (run.output, provider.asked[1].given[0].text) == ("It is 3.", "3")

    async def test_other_toolsets_may_wrap_it(self, stage: Stage) -> None:
        tools = toolset(stage.bus, servers="desk").filtered(lambda _, tool: "echo" in tool.name).prefixed("x")
        with stage.model([[ToolCall("x_desk_echo", {"text": "tea"})], "Done."]) as provider:
            async with Agent(OpenAIChatModel("gpt-5.1"), toolsets=[tools]) as agent:
                await agent.run("Go.")
        assert list(provider.asked[0].tools) == ["x_desk_echo"]
        assert provider.asked[1].given[0].text == "tea"
