"""The adapter for Google's own package."""

from typing import Any, ClassVar

import pytest
from google.genai import Client
from google.genai.types import Content, ContentUnionDict, FunctionCall, GenerateContentConfigDict, Part

from tests.adapters.contract import Contract, Harness, Stage
from tests.adapters.studio import REVIEW, heard
from tests.conftest import Place
from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import PDF, gallery
from tests.wire import Provider, ToolCall
from toolbus import Toolbus
from toolbus.adapters.google_genai import messages, tools
from toolbus.records import PromptResult
from toolbus.sync import SyncToolbus

MODEL = "gemini-3-pro-preview"


class GoogleGenAI(Harness):
    name = "google_genai"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await self.talk(bus, [{"role": "user", "parts": [{"text": prompt}]}])

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await self.talk(bus, [*messages(prompt)])

    async def talk(self, bus: Toolbus, contents: list[ContentUnionDict]) -> str:
        """The model's last words."""
        offer = tools(bus)
        config: GenerateContentConfigDict = {"tools": [{"function_declarations": offer}]}
        with Client() as owner:
            async with owner.aio as client:
                response = await client.models.generate_content(model=MODEL, contents=contents, config=config)
                while replies := await offer.replies(response):
                    assert response.candidates
                    assert response.candidates[0].content
                    contents += [response.candidates[0].content, *replies]
                    response = await client.models.generate_content(
                        model=MODEL, contents=contents, config=config
                    )
        return response.text or ""


def content(*calls: FunctionCall) -> Content:
    return Content(role="model", parts=[Part(function_call=call) for call in calls])


def sent(replies: list[Content]) -> list[list[dict[str, Any]]]:
    """The parts of each content, as plain values."""
    return [reply.model_dump(exclude_none=True)["parts"] for reply in replies]


class TestGoogleGenAI(Contract):
    harness: ClassVar[Harness] = GoogleGenAI()

    async def test_a_chat_goes_on_from_a_prompt(self, stage: Stage) -> None:
        *before, last = messages(await stage.prompt("review", {"of": "tea"}))
        with stage.model(["Done."]) as provider, Client() as owner:
            async with owner.aio as client:
                chat: Any = client.chats.create(model=MODEL, history=[*before])  # typed in part
                await chat.send_message(last.parts)
        assert heard(provider.asked[0]) == REVIEW

    async def test_responses_keep_ids_and_say_what_failed(self, stage: Stage) -> None:
        calls = FunctionCall(id="a", name="desk_add", args={"a": 1, "b": 2}), FunctionCall(name="desk_fail")
        [parts] = sent(await tools(stage.bus).replies(content(*calls)))
        assert [part["function_response"] for part in parts] == [
            {"id": "a", "name": "desk_add", "response": {"output": "3"}},
            {"name": "desk_fail", "response": {"error": "Error executing tool fail: no reason"}},
        ]

    async def test_media_follow_where_the_model_takes_them_only_there(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        calls = FunctionCall(name="desk_many"), FunctionCall(name="gallery_show")
        responses, beside = sent(await tools(stage.bus).replies(content(*calls)))
        assert [list(part["function_response"]) for part in responses] == [["name", "response"]] * 2
        assert [part.get("text") or part["inline_data"] for part in beside] == [
            "From the result of desk_many:",
            {"data": PNG, "mime_type": "image/png"},
            {"data": WAV, "mime_type": "audio/wav"},
            "From the result of gallery_show:",
            {"data": PNG, "mime_type": "image/png"},
            {"data": PDF, "mime_type": "application/pdf"},
        ]

    async def test_pictures_stand_in_the_response_where_the_model_takes_them_there(
        self, stage: Stage
    ) -> None:
        part: dict[str, Any] = {"functionCall": {"id": "a", "name": "desk_many", "args": {}}}
        response = {"candidates": [{"content": {"parts": [part]}}], "modelVersion": "gemini-3-pro-preview"}
        [[answer], beside] = sent(await tools(stage.bus).replies(response))
        picture = {"inline_data": {"data": PNG, "mime_type": "image/png"}}
        assert answer["function_response"]["parts"] == [picture]
        assert [part["inline_data"]["data"] for part in beside[1:]] == [WAV]

    async def test_a_model_without_senses_gets_words(self, stage: Stage) -> None:
        replies = await tools(stage.bus, media=False).replies(content(FunctionCall(name="desk_many")))
        assert len(replies) == 1

    async def test_a_name_that_google_refuses_is_mapped_back(self, web_ports: dict[str, int]) -> None:
        async with Toolbus({"servers": {"1st": Place("memory", "modern", web_ports).config()}}) as bus:
            offer = tools(bus)
            assert "_1st_echo" in [declared.get("name") for declared in offer]
            [[part]] = sent(
                await offer.replies(content(FunctionCall(name="_1st_echo", args={"text": "tea"})))
            )
            assert part["function_response"] == {"name": "_1st_echo", "response": {"output": "tea"}}

    async def test_an_argument_that_google_refuses_is_mapped_back(self, web_ports: dict[str, int]) -> None:
        renamed = {"echo": {"arguments": {"text": {"name": "the-text"}}}}
        config = Place("memory", "modern", web_ports).config(override=renamed)
        async with Toolbus({"servers": {"desk": config}}) as bus:
            offer = tools(bus)
            [echo] = [declared for declared in offer if declared.get("name") == "desk_echo"]
            [known] = (echo.get("parameters") or {}).get("properties") or {}
            replies = await offer.replies(content(FunctionCall(name="desk_echo", args={known: "tea"})))
        assert (known, replies.answers[0].result.text) == ("the_text", "tea")

    async def test_a_response_without_a_candidate_has_no_replies(self, stage: Stage) -> None:
        assert await tools(stage.bus).replies({"candidates": None}) == []
        with pytest.raises(TypeError, match="neither a response nor model content"):
            await tools(stage.bus).replies("a text")


def test_a_synchronous_client(monkeypatch: pytest.MonkeyPatch, web_ports: dict[str, int]) -> None:
    servers = {"servers": {"desk": {"url": f"http://127.0.0.1:{web_ports['http']}/mcp"}}}
    script = [[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]
    with SyncToolbus(servers) as bus, Provider(script) as provider:
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        offer = tools(bus)
        config: GenerateContentConfigDict = {"tools": [{"function_declarations": offer}]}
        contents: list[ContentUnionDict] = [Content(role="user", parts=[Part(text="Go.")])]
        with Client() as client:
            response = client.models.generate_content(model=MODEL, contents=contents, config=config)
            while replies := offer.replies_sync(response):
                assert response.candidates
                assert response.candidates[0].content
                contents += [response.candidates[0].content, *replies]
                response = client.models.generate_content(model=MODEL, contents=contents, config=config)
        assert response.text == "It is 3."
