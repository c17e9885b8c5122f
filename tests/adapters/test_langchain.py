"""The adapter for LangChain and LangGraph."""

import asyncio
from base64 import b64decode
from typing import Any, ClassVar

import pytest
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # typed in part
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.contract import Contract, Harness, Stage
from tests.conftest import Place
from tests.servers.everyday import PNG, WAV, everyday
from tests.wire import Provider, ToolCall
from toolbus import Toolbus
from toolbus.adapters.langchain import live, messages, tools
from toolbus.adapters.media import data_url
from toolbus.records import Image, PromptResult
from toolbus.sync import SyncToolbus

GO: dict[str, Any] = {"messages": [{"role": "user", "content": "Go."}]}


class LangChain(Harness):
    name = "langchain"

    async def run(self, bus: Toolbus, prompt: str) -> str:
        agent = agent_with(middleware=[live(bus)])
        state = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]})
        return str(state["messages"][-1].text)

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        agent = agent_with(middleware=[live(bus)])
        state = await agent.ainvoke({"messages": messages(prompt)})
        return str(state["messages"][-1].text)


def agent_with(*args: Any, **options: Any) -> Any:
    """An agent; LangChain types it only in part."""
    return create_agent("openai:gpt-5.1", *args, **options)


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """A call as LangChain writes it."""
    return {"type": "tool_call", "id": "1", "name": name, "args": arguments}


class TestLangChain(Contract):
    harness: ClassVar[Harness] = LangChain()

    async def test_a_fixed_list_of_tools_serves_an_agent_too(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."]) as provider:
            state = await agent_with(tools(stage.bus)).ainvoke(GO)
        assert [message.text for message in state["messages"]][-2:] == ["3", "It is 3."]
        assert provider.asked[0].tools["desk_add"]["function"]["parameters"]["required"] == ["a", "b"]

    @pytest.mark.parametrize("options", [{"strict": True}, {"function": {"strict": True}}])
    async def test_options_of_a_tool_reach_the_request(self, options: dict[str, Any], stage: Stage) -> None:
        entry = {"server": everyday(), "override": {"add": {"options": {"openai": options}}}}
        await stage.bus.add_server("other", entry)
        with stage.model([[ToolCall("other_add", {"a": 1, "b": 2})], "It is 3."]) as provider:
            await agent_with(middleware=[live(stage.bus)]).ainvoke(GO)
        first, second = provider.asked
        assert first.tools["other_add"]["function"]["strict"] is True
        assert "strict" not in first.tools["desk_add"]["function"]
        assert second.given[0].text == "3"

    async def test_options_of_a_tool_are_its_extras(self, stage: Stage) -> None:
        cached = {"cache_control": {"type": "ephemeral"}}
        entry = {"server": everyday(), "override": {"add": {"options": {"anthropic": cached}}}}
        await stage.bus.add_server("marked", entry)
        extras = {tool.name: tool.extras for tool in tools(stage.bus, "marked", dialect="anthropic")}
        assert (extras["marked_add"], extras["marked_echo"]) == (cached, None)

    async def test_arguments_that_are_no_json_are_told_to_the_model(self, stage: Stage) -> None:
        alone = [ToolCall("desk_add", '{"a": 1, "b')]
        beside = [ToolCall("desk_add", "one"), ToolCall("desk_add", {"a": 1, "b": 2})]
        said, asked = await stage.play([alone, beside, "It is 3."])
        assert said == "It is 3."
        [first] = asked[1].new
        assert first.text.startswith("MCP error: the arguments are not valid JSON (Unterminated string")
        second, third = sorted(given.text for given in asked[2].new)
        assert (second, third.endswith("(Expecting value: line 1 column 1 (char 0)): one")) == ("3", True)

    def test_arguments_that_are_no_json_are_told_without_a_loop_too(
        self, web_ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        with Provider([[ToolCall("desk_add", "{")], [ToolCall("desk_ad")], "Sorry."]) as provider:
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            with SyncToolbus(config) as bus:
                state = agent_with(middleware=[live(bus)]).invoke(GO)
        assert state["messages"][-1].text == "Sorry."
        assert "not valid JSON" in provider.asked[1].new[0].text
        assert "did you mean 'desk_add'" in provider.asked[2].new[0].text

    async def test_an_unknown_name_is_told_with_the_nearest_one(self, stage: Stage) -> None:
        def shout(text: str) -> str:
            """Say it loudly."""
            return text.upper()

        with stage.model([[ToolCall("desk_ad"), ToolCall("shoot")], "Sorry."]) as provider:
            await agent_with([shout], middleware=[live(stage.bus)]).ainvoke(GO)
        first, second = (given.text for given in provider.asked[1].new)
        assert "did you mean 'desk_add'" in first
        assert "did you mean 'shout'" in second

    async def test_over_chat_completions_pictures_follow_the_results(self, stage: Stage) -> None:
        calls = [ToolCall("desk_many"), ToolCall("desk_add", {"a": 1, "b": 2})]
        _, asked = await stage.play([calls, "Seen."])
        assert [message["role"] for message in asked[1].body["messages"]] == [
            *("user", "assistant", "tool", "tool", "user")
        ]
        many, _ = asked[1].new
        assert (many.images, asked[1].images) == ((), (PNG,))
        assert "first\n[image: image/png, in the next message]" in many.text
        assert asked[1].body["messages"][-1]["content"] == [
            {"type": "text", "text": "From the result of desk_many (call_1):"},
            {"type": "image_url", "image_url": {"url": data_url(Image(data=PNG, mime_type="image/png"))}},
        ]

    async def test_the_artifact_holds_what_the_model_is_not_told(self, stage: Stage) -> None:
        toolbox = {tool.name: tool for tool in tools(stage.bus)}
        message: ToolMessage = await toolbox["desk_many"].ainvoke(called("desk_many"))
        assert message.status == "success"
        assert message.artifact["server"] == "desk"
        assert message.artifact["structured"] == {"n": 7}
        kinds = [block["type"] for block in message.artifact["content"]]
        assert kinds == ["Audio", "ResourceLink", "Embedded", "Embedded"]
        assert b64decode(message.artifact["content"][0]["data"]) == WAV
        assert [block["type"] for block in message.content_blocks][:2] == ["text", "image"]

    async def test_a_failure_has_the_status_of_one(self, stage: Stage) -> None:
        toolbox = {tool.name: tool for tool in tools(stage.bus)}
        message: ToolMessage = await toolbox["desk_fail"].ainvoke(called("desk_fail", reason="no ink"))
        assert (message.status, message.content) == ("error", "Error executing tool fail: no ink")

    async def test_metadata_names_the_server(self, stage: Stage) -> None:
        [add] = [tool for tool in tools(stage.bus) if tool.name == "desk_add"]
        assert add.metadata is not None
        assert (add.metadata["server"], add.metadata["tool"]) == ("desk", "add")
        assert add.metadata["annotations"]["readOnlyHint"] is True

    async def test_a_checkpoint_takes_the_artifact(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]):
            agent = agent_with(tools(stage.bus), middleware=[live(stage.bus)], checkpointer=InMemorySaver())
            config: Any = {"configurable": {"thread_id": "1"}}
            await agent.ainvoke(GO, config)
            kept = await agent.aget_state(config)
        [message] = [message for message in kept.values["messages"] if isinstance(message, ToolMessage)]
        assert b64decode(message.artifact["content"][0]["data"]) == WAV

    def test_invoke_works_without_a_loop(self, web_ports: dict[str, int]) -> None:
        with SyncToolbus({"servers": {"desk": Place("http", "modern", web_ports).config()}}) as bus:
            toolbox = {tool.name: tool for tool in tools(bus)}
            assert toolbox["desk_add"].invoke({"a": 1, "b": 2}) == "3"

    async def test_invoke_works_in_a_thread(self, stage: Stage) -> None:
        toolbox = {tool.name: tool for tool in tools(stage.bus)}
        assert await asyncio.to_thread(toolbox["desk_add"].invoke, {"a": 1, "b": 2}) == "3"

    async def test_invoke_on_the_loop_of_the_bus_says_what_to_do(self, stage: Stage) -> None:
        toolbox = {tool.name: tool for tool in tools(stage.bus)}
        with pytest.raises(RuntimeError, match=r"await the call \(ainvoke, arun\), .* or use SyncToolbus"):
            toolbox["desk_add"].invoke({"a": 1, "b": 2})

    async def test_tools_of_the_agent_stand_beside_the_live_ones(self, stage: Stage) -> None:
        def shout(text: str) -> str:
            """Say it loudly."""
            return text.upper()

        calls = [ToolCall("shout", {"text": "tea"}), ToolCall("desk_echo", {"text": "tea"})]
        with stage.model([calls, "Done."]) as provider:
            agent = agent_with([shout], middleware=[live(stage.bus)])
            await agent.ainvoke(GO)
        assert [given.text for given in provider.asked[1].given] == ["TEA", "tea"]
