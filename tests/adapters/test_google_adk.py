"""The adapter for Google's Agent Development Kit."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from google.adk import Runner
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool, ToolContext
from google.genai import Client, types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.adapters.contract import Contract, Harness, Stage
from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import PDF, gallery
from tests.wire import Asked, ToolCall
from toolbus import Toolbus
from toolbus.adapters.google_adk import BusToolset, messages, toolset
from toolbus.records import PromptResult

CONFIRMATION = "adk_request_confirmation"


@asynccontextmanager
async def clerk(
    tools: BusToolset, *, model: str = "gemini-3-pro-preview", **options: Any
) -> AsyncGenerator[Runner]:
    """A runner of an agent with these tools; the client is closed, which ADK's own never is."""
    with Client() as client:
        async with client.aio:
            gemini = Gemini(model=model, client=client)
            yield InMemoryRunner(LlmAgent(name="clerk", model=gemini, tools=[tools], **options))


async def talked(runner: Runner, message: types.Content, session: str = "one") -> list[Event]:
    """The events of one run, in a session that goes on."""
    runner.auto_create_session = True
    run = runner.run_async(user_id="me", session_id=session, new_message=message)
    return [event async for event in run]


def last_words(events: list[Event]) -> str:
    content = events[-1].content
    return "".join(part.text or "" for part in (content and content.parts) or [])


class GoogleADK(Harness):
    name = "google_adk"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        async with clerk(toolset(bus)) as runner:
            return last_words(await talked(runner, types.UserContent(prompt)))

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        *before, last = messages(prompt)
        async with clerk(toolset(bus)) as runner:
            sessions = runner.session_service
            session = await sessions.create_session(app_name=runner.app_name, user_id="me", session_id="one")
            for content in before:
                author = "user" if content.role == "user" else "clerk"
                await sessions.append_event(session, Event(author=author, content=content))
            return last_words(await talked(runner, last))


class TestGoogleADK(Contract):
    harness: ClassVar[Harness] = GoogleADK()

    async def test_the_schema_goes_out_in_googles_words(self, stage: Stage) -> None:
        _, [asked] = await stage.play(["Nothing to do."])
        add = asked.tools["desk_add"]
        assert add["description"] == "Add two numbers."
        number = {"type": "INTEGER"}
        assert add["parameters"]["properties"] == {"a": number, "b": number}

    async def test_another_dialect_goes_out_as_it_is(self, stage: Stage) -> None:
        with stage.model(["Nothing to do."]) as provider:
            async with clerk(toolset(stage.bus, "desk", dialect="anthropic")) as runner:
                await talked(runner, types.UserContent("Go."))
        [add] = [tool for tool in stage.bus.tools() if tool.name == "desk_add"]
        sent = provider.asked[0].tools["desk_add"]
        assert sent["parameters_json_schema"] == add.definition("anthropic")["input_schema"]

    async def test_what_the_model_is_not_told_is_custom_metadata(self, stage: Stage) -> None:
        seen: list[Any] = []

        def after(tool: BaseTool, args: Any, tool_context: ToolContext, tool_response: Any) -> None:
            about = tool_context.custom_metadata["toolbus"][tool_context.function_call_id]
            seen.extend([tool.custom_metadata, about])

        with stage.model([[ToolCall("desk_many")], "Done."]):
            async with clerk(toolset(stage.bus), after_tool_callback=after) as runner:
                await talked(runner, types.UserContent("Go."))
        of_tool: dict[str, Any] = {"server": "desk", "tool": "many", "annotations": {}, "reads_only": False}
        assert seen[0] == of_tool
        assert seen[1] == {**of_tool, "is_error": False, "structured": {"n": 7}, "meta": seen[1]["meta"]}
        assert seen[1]["meta"]["trace"] == "abc"

    @pytest.mark.parametrize(("confirmed", "told"), [(True, "tea"), (False, "This tool call is rejected.")])
    async def test_a_call_waits_until_a_person_confirms_it(
        self, stage: Stage, confirmed: bool, told: str
    ) -> None:
        script = [[ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "tea"})], "Done."]
        with stage.model(script) as provider:
            async with clerk(toolset(stage.bus, approve="writes")) as runner:
                events = await talked(runner, types.UserContent("Go."))
                [asked] = [
                    call
                    for event in events
                    for call in event.get_function_calls()
                    if call.name == CONFIRMATION
                ]
                assert (asked.args or {})["originalFunctionCall"]["name"] == "desk_echo"
                assert len(provider.asked) == 1
                answer = types.FunctionResponse(
                    id=asked.id, name=CONFIRMATION, response={"confirmed": confirmed}
                )
                message = types.UserContent([types.Part(function_response=answer)])
                assert last_words(await talked(runner, message)) == "Done."
        given = {given.name: given.text for given in provider.asked[1].given}
        assert given == {"desk_add": "3", "desk_echo": told}

    @pytest.mark.parametrize(("confirmed", "told"), [(True, "tea"), (False, "This tool call is rejected.")])
    async def test_the_policy_asks_a_person(self, stage: Stage, confirmed: bool, told: str) -> None:
        asks_about_tea: dict[str, Any] = {"properties": {"text": {"const": "tea"}}}
        rule = {"tools": "desk/echo", "arguments": asks_about_tea, "do": "ask"}
        script = [[ToolCall("desk_echo", {"text": "ink"}), ToolCall("desk_echo", {"text": "tea"})], "Done."]
        with stage.model(script) as provider:
            async with clerk(toolset(stage.bus.view(policy=[rule]))) as runner:
                events = await talked(runner, types.UserContent("Go."))
                calls = [call for event in events for call in event.get_function_calls()]
                [asked] = [call for call in calls if call.name == CONFIRMATION]
                answer = types.FunctionResponse(
                    id=asked.id, name=CONFIRMATION, response={"confirmed": confirmed}
                )
                message = types.UserContent([types.Part(function_response=answer)])
                assert last_words(await talked(runner, message)) == "Done."
        assert [given.text for given in provider.asked[1].given] == ["ink", told]

    @pytest.mark.parametrize("model", ["gemini-3-pro-preview", "gemini-2.5-pro"])
    async def test_media_come_where_the_model_takes_them(self, stage: Stage, model: str) -> None:
        with stage.model(
            [[ToolCall("desk_many"), ToolCall("desk_echo", {"text": "tea"})], "Seen."]
        ) as provider:
            async with clerk(toolset(stage.bus), model=model) as runner:
                events = await talked(runner, types.UserContent("Go."))
        [many, echo] = provider.asked[1].new
        within = model.startswith("gemini-3")
        assert (many.images, many.audio) == ((PNG,) if within else (), ())
        *_, answers, beside = provider.asked[1].body["contents"]
        assert [part["functionResponse"]["name"] for part in answers["parts"]] == ["desk_many", "desk_echo"]
        assert beside["parts"][0] == {"text": "From the result of desk_many:"}
        data = [base64.urlsafe_b64decode(part["inlineData"]["data"]) for part in beside["parts"][1:]]
        assert data == ([WAV] if within else [PNG, WAV])
        assert "first\n[image: image/png, 70 B]\n[audio: audio/wav, " in many.text
        assert echo.text == "tea"
        [kept, _] = [answer for event in events for answer in event.get_function_responses()]
        data = [part.inline_data.data for part in kept.parts or [] if part.inline_data]
        assert data == [PNG, WAV], "the session keeps all of it where it belongs"

    async def test_only_media_of_known_types_go_along(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        [given] = await stage.told(ToolCall("gallery_show"))
        assert (given.images, given.files) == ((PNG,), (PDF,))
        assert given.text.splitlines() == [
            "[image: image/jpg, 70 B]",
            "[image: image/svg+xml, 41 B]",
            "[resource: memo://report.pdf, application/pdf, 8 B]",
        ]

    async def test_a_failed_call_is_an_error_in_the_traces(self, stage: Stage) -> None:
        spans = InMemorySpanExporter()
        tracing = TracerProvider()
        tracing.add_span_processor(SimpleSpanProcessor(spans))
        trace.set_tracer_provider(tracing)
        await stage.told(ToolCall("desk_fail"), ToolCall("desk_add", {"a": 1, "b": 2}))
        tools = [span for span in spans.get_finished_spans() if span.name.startswith("execute_tool desk_")]
        errors = {span.name: (span.attributes or {}).get("error.type") for span in tools}
        assert errors == {"execute_tool desk_fail": "TOOL_ERROR", "execute_tool desk_add": None}

    async def test_runs_of_one_agent_may_overlap(self, stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            return asked.given[-1].text if asked.given else [ToolCall("desk_echo", {"text": asked.prompt})]

        with stage.model(script):
            async with clerk(toolset(stage.bus)) as runner:
                runs = [talked(runner, types.UserContent(word), word) for word in ("tea", "ink", "bread")]
                said = [last_words(events) for events in await asyncio.gather(*runs)]
        assert said == ["tea", "ink", "bread"]

    async def test_a_run_on_another_loop_reaches_the_bus(self, stage: Stage) -> None:
        """`Runner.run` is for code without a loop, and brings one of its own."""

        def run() -> list[Event]:
            with Client() as client:

                async def closed(callback_context: CallbackContext) -> None:
                    await client.aio.aclose()

                gemini = Gemini(model="gemini-3-pro-preview", client=client)
                agent = LlmAgent(
                    name="clerk", model=gemini, tools=[toolset(stage.bus)], after_agent_callback=closed
                )
                runner = InMemoryRunner(agent)
                runner.auto_create_session = True
                return list(runner.run(user_id="me", session_id="one", new_message=types.UserContent("Go.")))

        with stage.model([[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]) as provider:
            assert last_words(await asyncio.to_thread(run)) == "It is 3."
        assert [given.text for given in provider.asked[1].new] == ["3"]
