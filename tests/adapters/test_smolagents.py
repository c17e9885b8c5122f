"""The adapter for smolagents, with an agent that calls tools; test_smolagents_code.py has the other kind."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import ImageContent
from PIL import Image as Pillow
from smolagents import ChatMessage, LogLevel, OpenAIModel, ToolCallingAgent  # pyright: ignore[reportMissingTypeStubs]  it has none
from smolagents.agents import ToolOutput  # pyright: ignore[reportMissingTypeStubs]  it has none
from smolagents.memory import MemoryStep  # pyright: ignore[reportMissingTypeStubs]  it has none

from tests.adapters.contract import Contract, Harness, Point, Stage
from tests.adapters.speech import Observed, SpokenHarness, SpokenProvider, SpokenStage, spoken
from tests.conftest import Place
from tests.patience import until
from tests.servers.everyday import PNG
from tests.servers.gallery import gallery
from tests.wire import Asked, ToolCall
from toolbus import Toolbus
from toolbus.adapters.smolagents import live, messages, tools
from toolbus.adapters.tool_calls import definition_of
from toolbus.records import Image, PromptMessage, PromptResult
from toolbus.sync import SyncToolbus

NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "filter": {
            "type": "object",
            "properties": {
                "kind": {"enum": ["a", "b"]},
                "deep": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["kind"],
        },
        "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}, {"const": "all"}]},
        "anything": {},
    },
    "required": ["filter", "size"],
}


def clerk(toolbox: list[Any] | None = None) -> Any:
    """An agent that prints nothing."""
    return ToolCallingAgent(toolbox or [], OpenAIModel("gpt-5.1"), verbosity_level=LogLevel.OFF)


@dataclass
class Said(MemoryStep):
    """The messages before the task of a run."""

    messages: list[ChatMessage]

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        return self.messages


async def ran(agent: Any, prompt: str, *before: Said) -> str:
    """Run an agent in a thread; who cancels this interrupts it."""
    agent.memory.steps.extend(before)
    try:
        return str(await asyncio.to_thread(agent.run, prompt, reset=False))
    except asyncio.CancelledError:
        agent.interrupt()
        raise


class Smolagents(SpokenHarness):
    name = "smolagents"
    speech = Observed()
    cannot: ClassVar[Mapping[Point, str]] = {"document": "its messages hold text and pictures"}

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await ran(live(clerk(), bus), prompt)

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await ran(live(clerk(), bus), "Answer.", Said(messages(prompt)))


@pytest.fixture
async def stage(stage: Stage) -> SpokenStage:
    return spoken(stage)


@pytest.fixture
async def own_stage(own_stage: Stage) -> SpokenStage:
    return spoken(own_stage)


class TestSmolagents(Contract):
    harness: ClassVar[Harness] = Smolagents()

    async def test_the_whole_schema_reaches_the_model(self, web_ports: dict[str, int], stage: Stage) -> None:
        override = {"override": {"echo": {"schema": NESTED}}}
        await stage.bus.add_server("other", Place("http", "modern", web_ports).config(**override))
        [echo] = [tool for tool in stage.bus.tools() if tool.name == "other_echo"]
        _, asked = await stage.play(["Done."])
        sent = asked[0].tools["other_echo"]["function"]["parameters"]
        assert sent == definition_of(echo, "openai").parameters
        assert sent["properties"]["size"] == NESTED["properties"]["size"]
        assert sent["required"] == ["filter", "size"]

    async def test_arguments_that_can_be_mended_are_not_refused(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", {"a": "1", "b": 2}))
        assert given.text == "3"

    async def test_arguments_that_are_no_json_are_told_to_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", "{not json"))
        assert given.text.startswith("MCP error: the arguments are not valid JSON")
        [given] = await stage.told(ToolCall("desk_add", "[1, 2]"))
        assert given.text == "MCP error: the arguments must be a JSON object, not [1, 2]"

    async def test_a_call_that_fails_leaves_the_others_their_results(self, stage: Stage) -> None:
        failing = ToolCall("desk_fail", {"reason": "no ink"})
        told = await stage.told(failing, ToolCall("desk_add", {"a": 1, "b": 2}))
        assert [given.text for given in told] == ["Error executing tool fail: no ink", "3"]

    async def test_an_output_holds_what_the_model_is_not_told(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_add", {"a": 1, "b": 2})], "Done."]):
            agent = clerk(tools(stage.bus))
            events = await asyncio.to_thread(lambda: list(agent.run("Go.", stream=True)))
        output = next(event.output for event in events if isinstance(event, ToolOutput))
        assert (output["result"], str(output)) == (3, "3")
        assert output.metadata["server"] == "desk"
        assert output.metadata["annotations"]["readOnlyHint"] is True
        assert output.result.structured == {"result": 3}
        assert agent.tools["desk_add"].metadata["tool"] == "add"

    async def test_without_live_a_picture_is_a_line(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            await ran(clerk(tools(stage.bus)), "Go.")
        [given] = provider.asked[1].new
        assert given.text.startswith("first\n[image: image/png, 70 B]\n[audio: audio/wav, 16 B]")
        assert provider.asked[1].images == ()

    async def test_a_picture_that_cannot_be_opened_is_a_line(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        _, asked = await stage.play([[ToolCall("gallery_show")], "Done."])
        assert asked[1].images == (PNG,)
        assert "[image: image/svg+xml, 41 B]" in asked[1].new[0].text

    async def test_a_picture_of_a_prompt_that_cannot_be_opened_is_a_line(self) -> None:
        broken = PromptMessage(role="user", content=Image(data=PNG[:20], mime_type="image/png"))
        [message] = messages(PromptResult(messages=(broken,)))
        text = "[image: image/png, 20 B] is not shown: it could not be opened"
        assert message.content == [{"type": "text", "text": text}]

    async def test_a_picture_with_a_wrong_checksum_is_shown_and_a_broken_one_is_named(
        self, stage: Stage
    ) -> None:
        spoilt = PNG[:29] + b"\0\0\0\0" + PNG[33:]  # the checksum of its first chunk
        album: MCPServer = MCPServer("album")

        @album.tool(structured_output=False)
        def look() -> list[ImageContent]:
            """Two pictures."""
            both = (b64encode(data).decode() for data in (spoilt, PNG[:20]))
            return [ImageContent(data=data, mime_type="image/png") for data in both]

        await stage.bus.add_server("album", {"server": album})
        _, asked = await stage.play([[ToolCall("album_look")], "Seen."])
        [image] = asked[1].images
        assert Pillow.open(BytesIO(image)).size == (1, 1)
        assert "[image: image/png, 20 B] is not shown: it could not be opened" in str(asked[1].body)

    async def test_runs_at_the_same_time_see_only_their_own_pictures(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            mine, other = asked.prompt.removeprefix("New task:\n")[:2] if not asked.given else "ab"
            meeting = ToolCall("desk_meet", {"mine": mine, "other": other})
            if asked.given:
                return f"{len(asked.images)} pictures"
            return [meeting, ToolCall("desk_many")] if mine == "a" else [meeting]

        with own_stage.model(script):
            runs = await asyncio.gather(
                *(ran(live(clerk(), own_stage.bus), prompt) for prompt in ("ab", "ba"))
            )
        assert runs == ["1 pictures", "0 pictures"]

    async def test_names_are_made_identifiers_and_stay_apart(self, web_ports: dict[str, int]) -> None:
        names = {"echo": {"name": "say-it"}, "add": {"name": "say_it"}, "many": {"name": "2-many"}}
        config = Place("http", "modern", web_ports).config(override=names, include=list(names))
        async with Toolbus({"servers": {"desk": config}}) as bus:
            made = {tool.name: tool for tool in tools(bus)}
            said = await asyncio.to_thread(made["say_it_92410966"], text="hello")
        assert sorted(made) == ["_2_many", "say_it", "say_it_92410966"]
        assert said == "hello"

    async def test_tools_of_the_agent_stay_beside_those_of_the_bus(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        [echo] = [tool for tool in tools(bus) if tool.name == "desk_echo"]
        echo.name = "mine"
        with own_stage.model([]):  # for the model's key
            agent = live(clerk([echo]), bus)
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: "desk_fresh" in agent.tools)
        assert set(agent.tools) == {"mine", "final_answer", *bus.catalog.names}

    async def test_a_list_is_a_snapshot_until_it_is_refreshed(self, own_stage: Stage) -> None:
        bus = own_stage.bus
        offer = tools(bus)
        before = list(offer)
        await bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: "desk_fresh" in bus.catalog)
        assert offer == before
        offer.refresh()
        assert [tool.name for tool in offer] == list(bus.catalog.names)

    def test_a_run_without_a_loop(self, web_ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        script = [[ToolCall("desk_many"), ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]
        with SpokenProvider(script, Observed()) as provider, SyncToolbus(config) as bus:
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            assert live(clerk(), bus).run("Go.") == "It is 3."
        assert provider.asked[1].new[0].text.endswith("\n3")
        assert provider.asked[1].images == (PNG,)
