"""The adapter for OpenAI's own package: Chat Completions and Responses."""

import asyncio
from typing import Any, ClassVar, TypeAlias, cast

import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam

from tests.adapters.contract import Contract, Harness, Stage
from tests.patience import PATIENCE
from tests.servers.everyday import PNG
from tests.servers.gallery import gallery
from tests.wire import Asked, Provider, ToolCall
from toolbus import Toolbus
from toolbus.adapters.media import data_url
from toolbus.adapters.openai import messages, tools
from toolbus.adapters.provider_tools import ProviderTools
from toolbus.records import Image, PromptResult
from toolbus.sync import SyncToolbus

MODEL = "gpt-5.1"
ChatTools: TypeAlias = ProviderTools[ChatCompletionFunctionToolParam, ChatCompletionMessageParam]


async def chat(offer: ChatTools, prompt: str) -> str:
    """The model's last words."""
    return await talked(offer, [{"role": "user", "content": prompt}])


async def talked(offer: ChatTools, messages: list[ChatCompletionMessageParam]) -> str:
    """The same, after more than one message."""
    async with AsyncOpenAI() as client:
        completion = await client.chat.completions.create(model=MODEL, messages=messages, tools=offer)
        while replies := await offer.replies(completion):
            said = completion.choices[0].message.to_dict()
            messages += [cast(ChatCompletionMessageParam, said), *replies]
            completion = await client.chat.completions.create(model=MODEL, messages=messages, tools=offer)
    return completion.choices[0].message.content or ""


class Chat(Harness):
    name = "openai"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await chat(tools(bus), prompt)

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await talked(tools(bus), messages(prompt))


class Responses(Harness):
    name = "openai"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await self.respond(bus, [{"role": "user", "content": prompt}])

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await self.respond(bus, messages(prompt, dialect="openai-responses"))

    async def respond(self, bus: Toolbus, items: list[ResponseInputItemParam]) -> str:
        """The model's last words."""
        offer = tools(bus, dialect="openai-responses")
        async with AsyncOpenAI() as client:
            response = await client.responses.create(model=MODEL, input=items, tools=offer)
            while replies := await offer.replies(response):
                items += [*cast(list[ResponseInputItemParam], response.output), *replies]
                response = await client.responses.create(model=MODEL, input=items, tools=offer)
        return response.output_text


class TestChat(Contract):
    harness: ClassVar[Harness] = Chat()

    async def test_malformed_arguments_are_told_to_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", "{not json"))
        assert given.text.startswith("MCP error: the arguments are not valid JSON")

    async def test_pictures_follow_the_results_of_all_calls(self, stage: Stage) -> None:
        calls = [ToolCall("desk_many"), ToolCall("desk_echo", {"text": "tea"})]
        _, asked = await stage.play([calls, "Seen."])
        *_, many, echo, user = asked[1].body["messages"]
        assert many["content"].startswith("first\n[image: image/png, 70 B]\n[audio: audio/wav, 16 B]\n")
        assert (echo["role"], echo["content"]) == ("tool", "tea")
        assert user == {
            "role": "user",
            "content": [
                {"type": "text", "text": "From the result of desk_many (call_1):"},
                {"type": "image_url", "image_url": {"url": data_url(Image(data=PNG, mime_type="image/png"))}},
            ],
        }

    async def test_a_document_follows_and_what_no_model_takes_is_described(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        _, asked = await stage.play([[ToolCall("gallery_show")], "Seen."])
        *_, told, user = asked[1].body["messages"]
        assert told["content"].splitlines()[1:] == [
            "[image: image/svg+xml, 41 B]",
            "[resource: memo://report.pdf, application/pdf, 8 B]",
        ]
        assert [part["type"] for part in user["content"]] == ["text", "image_url", "file"]
        file = {"filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}
        assert user["content"][2]["file"] == file

    async def test_a_model_without_eyes_gets_words(self, stage: Stage) -> None:
        offer = tools(stage.bus, media=False)
        with stage.model([[ToolCall("desk_many")]]):
            async with AsyncOpenAI() as client:
                completion = await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "Go."}], tools=offer
                )
                [reply] = await offer.replies(completion)
        assert reply["role"] == "tool"

    async def test_tools_can_be_strict(self, stage: Stage) -> None:
        named = {tool["function"]["name"]: tool for tool in tools(stage.bus, dialect="openai-strict")}
        function = named["desk_fail"]["function"]
        assert function.get("strict") is True
        assert function.get("parameters", {})["required"] == ["reason"], (
            "strict: optional arguments may be null"
        )
        offer = tools(stage.bus, dialect="openai-strict")
        call = {"id": "a", "function": {"name": "desk_fail", "arguments": '{"reason": null}'}}
        [reply] = await offer.replies({"role": "assistant", "tool_calls": [call]})
        assert reply == {
            "role": "tool",
            "tool_call_id": "a",
            "content": "Error executing tool fail: no reason",
        }

    async def test_a_stream_is_answered_when_it_is_complete(self, stage: Stage) -> None:
        offer = tools(stage.bus)
        with stage.model([[ToolCall("desk_add", {"a": 1, "b": 2})]]):
            async with (
                AsyncOpenAI() as client,
                client.chat.completions.stream(
                    model=MODEL, messages=[{"role": "user", "content": "Go."}], tools=offer
                ) as stream,
            ):
                async for _ in stream:
                    pass
                completion = await stream.get_final_completion()
        [reply] = await offer.replies(completion)
        assert reply == {"role": "tool", "tool_call_id": "call_1", "content": "3"}

    async def test_two_conversations_share_one_list(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            mine, other = asked.prompt.split()
            return (
                asked.given[0].text
                if asked.given
                else [ToolCall("desk_meet", {"mine": mine, "other": other})]
            )

        offer = tools(own_stage.bus)
        with own_stage.model(script):
            both = asyncio.gather(*(chat(offer, names) for names in ("a b", "b a")))
            async with asyncio.timeout(PATIENCE):
                assert await both == ["a met b", "b met a"]


class TestResponses(Contract):
    harness: ClassVar[Harness] = Responses()

    async def test_the_conversation_may_stay_with_the_provider(self, stage: Stage) -> None:
        offer = tools(stage.bus, dialect="openai-responses")
        with stage.model([[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]) as provider:
            async with AsyncOpenAI() as client:
                response = await client.responses.create(model=MODEL, input="Go.", tools=offer)
                while replies := await offer.replies(response):
                    response = await client.responses.create(
                        model=MODEL, input=replies, tools=offer, previous_response_id=response.id
                    )
        assert response.output_text == "It is 3."
        sent = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
        assert provider.asked[1].body["input"] == [sent]

    async def test_pictures_and_documents_stand_in_the_output(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        _, asked = await stage.play([[ToolCall("gallery_show")], "Seen."])
        output = asked[1].body["input"][-1]["output"]
        assert [part["type"] for part in output] == ["input_image", "input_text", "input_text", "input_file"]
        assert output[0]["image_url"] == data_url(Image(data=PNG, mime_type="image/png"))
        assert output[3]["filename"] == "report.pdf"

    async def test_an_incomplete_call_is_not_run(self, stage: Stage) -> None:
        call: dict[str, Any] = {
            "type": "function_call",
            "call_id": "a",
            "name": "desk_fail",
            "arguments": "",
            "status": "incomplete",
        }
        [reply] = await tools(stage.bus, dialect="openai-responses").replies({"output": [call]})
        assert "it was not run" in str(reply)


def test_a_synchronous_client(monkeypatch: pytest.MonkeyPatch, web_ports: dict[str, int]) -> None:
    config = {"servers": {"desk": {"url": f"http://127.0.0.1:{web_ports['http']}/mcp"}}}
    with (
        SyncToolbus(config) as bus,
        Provider([[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]) as provider,
    ):
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        offer = tools(bus, dialect="openai-responses")
        with OpenAI() as client:
            response = client.responses.create(model=MODEL, input="Go.", tools=offer)
            while replies := offer.replies_sync(response):
                response = client.responses.create(
                    model=MODEL, input=replies, tools=offer, previous_response_id=response.id
                )
        assert response.output_text == "It is 3."
