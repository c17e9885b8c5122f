"""The adapter for LlamaIndex."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, cast

import pytest
from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ImageBlock
from llama_index.core.tools.calling import acall_tool, call_tool  # pyright: ignore[reportUnknownVariableType]  a dict of what, they do not say
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from llama_index.llms.openai import OpenAI, OpenAIResponses
from openai import AsyncOpenAI

from tests.adapters.contract import Contract, Harness, Stage
from tests.adapters.studio import REVIEW, heard
from tests.patience import PATIENCE
from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import PDF, gallery
from tests.wire import Asked, ToolCall
from toolbus import Toolbus
from toolbus.adapters.llama_index import BusTool, live, messages, tools
from toolbus.records import PromptResult

REFUSED = (
    "MCP error: tool 'desk_echo' was refused: not allowed: not now; do not repeat it unless "
    "the user asks for it"
)


@asynccontextmanager
async def clerk(**options: Any) -> AsyncGenerator[FunctionAgent]:
    """An agent whose client is closed, which LlamaIndex's own never is."""
    async with AsyncOpenAI() as client:
        yield FunctionAgent(llm=OpenAIResponses("gpt-5.1", async_openai_client=client), **options)


async def answered(agent: FunctionAgent, prompt: str = "Go.") -> AgentOutput:
    return await ended(agent, user_msg=prompt)


async def ended(agent: FunctionAgent, **said: Any) -> AgentOutput:
    run = agent.run(Context(agent), **said)
    return cast(AgentOutput, await run)  # pyright: ignore[reportUnknownArgumentType]  typed as the result of any workflow


class LlamaIndex(Harness):
    name = "llama_index"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        async with clerk(tool_retriever=live(bus, dialect="openai-responses")) as agent:
            return str(await answered(agent, prompt))

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        async with clerk(tool_retriever=live(bus, dialect="openai-responses")) as agent:
            return str(await ended(agent, chat_history=messages(prompt)))


# LlamaIndex looks at every attribute of an agent, also at those that pydantic has given up.
@pytest.mark.filterwarnings(
    "ignore:The `__fields.*` attribute is deprecated",
    "ignore:Accessing the 'model_.*' attribute on the instance",
)
class TestLlamaIndex(Contract):
    harness: ClassVar[Harness] = LlamaIndex()

    async def test_the_schema_goes_out_as_it_is(self, stage: Stage) -> None:
        _, [asked] = await stage.play(["Nothing to do."])
        for tool in stage.bus.tools():
            expected = tool.definition("openai-responses")
            assert asked.tools[tool.name] == {"parameters": {"properties": {}}, **expected}

    async def test_a_client_that_asks_for_a_model_gets_the_same_schema(self, stage: Stage) -> None:
        for tool in tools(stage.bus):
            assert tool.metadata.fn_schema is not None
            assert (
                tool.metadata.fn_schema.model_json_schema()
                == tool.metadata.to_openai_tool()["function"]["parameters"]
            )

    async def test_what_the_model_is_not_told_is_the_raw_output(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many"), ToolCall("desk_fail")], "Done."]):
            async with clerk(tools=tools(stage.bus, dialect="openai-responses")) as agent:
                run = agent.run(Context(agent), user_msg="Go.")
                results = [event async for event in run.stream_events() if isinstance(event, ToolCallResult)]
                await run
        many, fail = sorted((result.tool_output for result in results), key=lambda output: output.is_error)
        raw = many.raw_output
        assert (raw["server"], raw["tool"], raw["structured"]) == ("desk", "many", {"n": 7})
        assert raw["meta"]["trace"] == "abc"
        assert b64decode(raw["content"][0]["data"]) == WAV
        kinds = [block["type"] for block in raw["content"]]
        assert kinds == ["Audio", "ResourceLink", "Embedded", "Embedded"]
        assert [block.resolve_image().read() for block in many.blocks if isinstance(block, ImageBlock)] == [
            PNG
        ]
        assert (fail.is_error, fail.raw_output["is_error"], fail.content) == (
            True,
            True,
            "Error executing tool fail: no reason",
        )
        assert all(json.loads(result.model_dump_json()) for result in results), "an event can be stored"
        [add] = [tool for tool in tools(stage.bus) if tool.metadata.name == "desk_add"]
        assert getattr(add.metadata, "about", {})["annotations"]["readOnlyHint"] is True

    async def test_over_chat_completions_a_picture_is_described(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            async with AsyncOpenAI() as client:
                llm = OpenAI("gpt-5.1", async_openai_client=client)
                await answered(FunctionAgent(llm=llm, tools=tools(stage.bus)))
        [given] = provider.asked[1].new
        assert given.text.startswith(f"first\n[image: image/png, 70 B]\n[audio: audio/wav, {len(WAV)} B]\n")

    async def test_over_chat_completions_a_prompt_loses_nothing(self, stage: Stage) -> None:
        said = messages(await stage.prompt("review", {"of": "tea"}))
        with stage.model(["Done."]) as provider:
            async with AsyncOpenAI() as client:
                await OpenAI("gpt-5.1", async_openai_client=client).achat(said)
        assert heard(provider.asked[0]) == REVIEW

    async def test_documents_and_pictures_of_known_types_are_given_to_the_model(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        [given] = await stage.told(ToolCall("gallery_show"))
        assert (given.images, given.files) == ((PNG,), (PDF,))
        assert given.text.splitlines()[1:] == [
            "[image: image/svg+xml, 41 B]",
            "[resource: memo://report.pdf, application/pdf, 8 B]",
        ]

    @pytest.mark.parametrize("said", ["yes", "no"])
    async def test_a_call_waits_until_a_person_agrees(self, stage: Stage, said: str) -> None:
        calls = [
            ToolCall("desk_add", {"a": 1, "b": 2}),
            ToolCall("desk_echo", {"text": "tea"}),
            ToolCall("desk_echo", {"text": "ink"}),
        ]
        with stage.model([calls, "Done."]) as provider:
            async with clerk(
                tool_retriever=live(stage.bus, approve="writes", dialect="openai-responses")
            ) as agent:
                run = agent.run(Context(agent), user_msg="Go.")
                asked: list[str] = []
                async for event in run.stream_events():
                    if isinstance(event, InputRequiredEvent):
                        asked.append(event.prefix)
                        answer = {"response": said if "tea" in event.call else "no", "call": event.call}
                        run.ctx.send_event(HumanResponseEvent(**answer))
                await run
        assert sorted(asked) == [
            'Allow this call? desk_echo {"text": "ink"} ',
            'Allow this call? desk_echo {"text": "tea"} ',
        ]
        refused = "desk_echo was not run: the call was not approved"
        expected = ["3", "tea" if said == "yes" else refused, refused]
        assert sorted(given.text for given in provider.asked[1].new) == sorted(expected)

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ("yes", ["ink", "tea", "tea"]),
            ("session", ["ink", "tea", "tea"]),
            ("not now", ["ink", REFUSED, REFUSED]),
        ],
    )
    async def test_the_policy_asks_a_person(self, stage: Stage, said: str, told: list[str]) -> None:
        asks_about_tea: dict[str, Any] = {"properties": {"text": {"const": "tea"}}}
        rule = {"tools": "desk/echo", "arguments": asks_about_tea, "do": "ask", "reason": "it is hot"}
        script = [[ToolCall("desk_echo", {"text": "ink"}), ToolCall("desk_echo", {"text": "tea"})]]
        script += [[ToolCall("desk_echo", {"text": "tea"})]]
        with stage.model([*script, "Done."]) as provider:
            async with clerk(
                tool_retriever=live(stage.bus.view(policy=[rule]), dialect="openai-responses")
            ) as agent:
                run = agent.run(Context(agent), user_msg="Go.")
                asked: list[tuple[str, str]] = []
                async for event in run.stream_events():
                    if isinstance(event, InputRequiredEvent):
                        asked.append((event.rule, event.reason))
                        answer: dict[str, Any] = {"response": said, "call": event.call}
                        run.ctx.send_event(HumanResponseEvent(**answer))
                await run
        assert asked == [("view.policy[0]", "it is hot")] * (1 if said == "session" else 2)
        assert sorted(given.text for given in provider.asked[-1].given) == sorted(told)

    async def test_what_a_person_is_asked_for_never_runs_where_nobody_can_be_asked(
        self, stage: Stage
    ) -> None:
        [echo] = [BusTool(tool, approve="ask") for tool in stage.bus.tools() if tool.name == "desk_echo"]
        outputs = [call_tool(echo, {"text": "tea"}), await acall_tool(echo, {"text": "tea"})]
        assert [output.is_error for output in outputs] == [True, True]

    async def test_a_list_is_brought_up_to_date(self, own_stage: Stage) -> None:
        offer = tools(own_stage.bus)
        before = list(offer)
        grown = asyncio.Event()
        own_stage.bus.on_event(lambda _: grown.set() if "desk_fresh" in own_stage.bus.catalog else None)
        await own_stage.bus.call("desk_grow", {"name": "fresh"})
        async with asyncio.timeout(PATIENCE):
            await grown.wait()
        offer.refresh()
        assert [tool.metadata.name for tool in offer if tool not in before] == ["desk_fresh"]
        assert [tool for tool in before if tool not in offer] == []

    @pytest.mark.parametrize(
        ("name", "arguments"), [("desk_echo", {"text": "3"}), ("desk_add", {"a": 1, "b": 2})]
    )
    async def test_without_an_agent_and_without_a_loop(
        self, stage: Stage, name: str, arguments: dict[str, Any]
    ) -> None:
        [tool] = [tool for tool in tools(stage.bus) if tool.metadata.name == name]
        assert (await acall_tool(tool, arguments)).content == "3"
        assert (await asyncio.to_thread(lambda: call_tool(tool, arguments))).content == "3"
        assert (await asyncio.to_thread(tool, *arguments.values())).content == "3"

    async def test_arguments_that_are_no_json_do_not_end_the_run(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", "{not json"))
        assert "'a'" in given.text

    async def test_runs_of_one_agent_may_overlap(self, stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            return asked.given[-1].text if asked.given else [ToolCall("desk_echo", {"text": asked.prompt})]

        with stage.model(script):
            async with clerk(tool_retriever=live(stage.bus, dialect="openai-responses")) as agent:
                runs = [answered(agent, word) for word in ("tea", "ink", "bread")]
                assert [str(output) for output in await asyncio.gather(*runs)] == ["tea", "ink", "bread"]
