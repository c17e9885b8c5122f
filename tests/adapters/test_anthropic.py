"""The adapter for Anthropic's own package."""

from typing import Any, ClassVar

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import MessageParam

from tests.adapters.contract import Contract, Harness, Stage
from tests.servers.everyday import PNG
from tests.servers.gallery import gallery
from tests.wire import Provider, ToolCall
from toolbus import Toolbus
from toolbus.adapters.anthropic import messages, tools
from toolbus.adapters.media import base64_data
from toolbus.records import Image, PromptResult, Text, ToolResult
from toolbus.sync import SyncToolbus

MODEL = "claude-sonnet-5"


class Messages(Harness):
    name = "anthropic"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await self.talk(bus, [{"role": "user", "content": prompt}])

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await self.talk(bus, messages(prompt))

    async def talk(self, bus: Toolbus, said: list[MessageParam]) -> str:
        """The model's last words."""
        offer = tools(bus)
        async with AsyncAnthropic() as client:
            message = await client.messages.create(model=MODEL, max_tokens=1000, messages=said, tools=offer)
            while replies := await offer.replies(message):
                said += [message.to_param(), *replies]
                message = await client.messages.create(
                    model=MODEL, max_tokens=1000, messages=said, tools=offer
                )
        return "".join(block.text for block in message.content if block.type == "text")


def said(*blocks: dict[str, Any], stop: str = "tool_use") -> dict[str, Any]:
    """A message of the model, as JSON."""
    return {"role": "assistant", "content": list(blocks), "stop_reason": stop}


def use(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"of_{name}", "name": name, "input": arguments}


class TestMessages(Contract):
    harness: ClassVar[Harness] = Messages()

    async def test_the_results_of_a_turn_are_one_message(self, stage: Stage) -> None:
        calls = use("desk_add", a=1, b=2), use("desk_fail", reason="no ink")
        assert await tools(stage.bus).replies(said({"type": "text", "text": "Well."}, *calls)) == [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "of_desk_add",
                        "content": "3",
                        "is_error": False,
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "of_desk_fail",
                        "content": "Error executing tool fail: no ink",
                        "is_error": True,
                    },
                ],
            }
        ]

    async def test_pictures_and_documents_stand_in_the_result(self, stage: Stage) -> None:
        await stage.bus.add_server("gallery", {"server": gallery()})
        _, asked = await stage.play([[ToolCall("gallery_show")], "Seen."])
        [result] = asked[1].body["messages"][-1]["content"]
        picture, drawing, line, document = result["content"]
        data = base64_data(Image(data=PNG, mime_type="image/png"))
        assert picture["source"] == {"type": "base64", "media_type": "image/png", "data": data}
        assert (drawing["text"], line["type"]) == ("[image: image/svg+xml, 41 B]", "text")
        assert document == {
            "type": "document",
            "title": "report.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="},
        }

    async def test_a_failure_is_told_in_words_only(self, stage: Stage) -> None:
        def fails() -> ToolResult:
            shown = Image(data=PNG, mime_type="image/png")
            return ToolResult(content=(Text(text="look:"), shown), is_error=True)

        replies = await tools(stage.bus).replies(said(use("fails")), {"fails": fails})
        assert replies[0]["content"] == [
            {
                "type": "tool_result",
                "tool_use_id": "of_fails",
                "content": "look:\n[image: image/png, 70 B]",
                "is_error": True,
            }
        ]

    async def test_a_model_without_eyes_gets_words(self, stage: Stage) -> None:
        [reply] = await tools(stage.bus, media=False).replies(said(use("desk_many")))
        assert "[image: image/png, 70 B]" in str(reply)

    async def test_a_call_that_was_cut_off_is_not_run(self, stage: Stage) -> None:
        message = said(use("desk_add", a=1, b=2), use("desk_fail"), stop="max_tokens")
        replies = await tools(stage.bus).replies(message)
        assert [answer.result.is_error for answer in replies.answers] == [False, True]
        assert "it was not run" in replies.answers[1].result.text

    async def test_a_stream_is_answered_when_it_is_complete(self, stage: Stage) -> None:
        offer = tools(stage.bus)
        with stage.model([[ToolCall("desk_echo", {"text": "tea"})]]):
            async with (
                AsyncAnthropic() as client,
                client.messages.stream(
                    model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "Go."}], tools=offer
                ) as stream,
            ):
                message = await stream.get_final_message()
        assert (await offer.replies(message)).answers[0].result.text == "tea"

    async def test_what_is_no_message_of_the_model_is_refused(self, stage: Stage) -> None:
        with pytest.raises(TypeError, match="not an assistant message"):
            await tools(stage.bus).replies({"role": "user", "content": "Go."})


def test_a_synchronous_client(monkeypatch: pytest.MonkeyPatch, web_ports: dict[str, int]) -> None:
    config = {"servers": {"desk": {"url": f"http://127.0.0.1:{web_ports['http']}/mcp"}}}
    script = [[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]
    with SyncToolbus(config) as bus, Provider(script) as provider:
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        offer = tools(bus)
        messages: list[MessageParam] = [{"role": "user", "content": "Go."}]
        with Anthropic() as client:
            message = client.messages.create(model=MODEL, max_tokens=9, messages=messages, tools=offer)
            while replies := offer.replies_sync(message):
                messages += [message.to_param(), *replies]
                message = client.messages.create(model=MODEL, max_tokens=9, messages=messages, tools=offer)
        assert [block.text for block in message.content if block.type == "text"] == ["It is 3."]
