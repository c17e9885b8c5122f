"""The adapter for llm."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

import llm
import pytest

from tests.adapters.contract import Contract, Harness, Point, Stage
from tests.adapters.test_pages import kept_clients
from tests.conftest import Place
from tests.patience import until
from tests.servers.everyday import PNG
from tests.wire import Provider, ToolCall
from toolbus import ApprovalRequest, Toolbus
from toolbus.adapters.llm import messages, tools
from toolbus.adapters.tool_calls import definition_of
from toolbus.records import PromptResult
from toolbus.sync import SyncToolbus


@pytest.fixture(autouse=True)
async def clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """llm leaves the HTTP client of every request open."""
    clients = kept_clients(monkeypatch)
    yield
    for client in clients:
        await client.aclose()


class Llm(Harness):
    name = "llm"
    cannot: ClassVar[Mapping[Point, str]] = {"appears": "a chain keeps its tools"}

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await asynchronous().chain(prompt, tools=tools(bus)).text()

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await asynchronous().chain(messages=messages(prompt), tools=tools(bus)).text()


def asynchronous() -> Any:
    """A model that sees; llm types its methods only in part."""
    return llm.get_async_model("gpt-4o")


class TestLlm(Contract):
    harness: ClassVar[Harness] = Llm()

    async def test_the_whole_schema_reaches_the_model(self, stage: Stage) -> None:
        _, asked = await stage.play(["Done."])
        for tool in stage.bus.tools():
            assert (
                asked[0].tools[tool.name]["function"]["parameters"]
                == definition_of(tool, "openai").parameters
            )

    async def test_a_failure_is_an_exception_in_the_log(self, stage: Stage) -> None:
        results: list[llm.ToolResult] = []

        def after(tool: object, call: object, result: llm.ToolResult) -> None:
            results.append(result)

        with stage.model(
            [[ToolCall("desk_fail", {"reason": "no ink"}), ToolCall("desk_echo", {"text": "a"})], "Done."]
        ):
            await asynchronous().chain("Go.", tools=tools(stage.bus), after_call=after).text()
        told = {result.name: (result.output, repr(result.exception)) for result in results}
        assert told == {
            "desk_fail": (
                "Error: Error executing tool fail: no ink",
                "ToolFailed('Error executing tool fail: no ink')",
            ),
            "desk_echo": ("a", "None"),
        }

    async def test_a_model_without_eyes_reads_a_line(self, stage: Stage) -> None:
        with stage.model([[ToolCall("desk_many")], "Done."]) as provider:
            await asynchronous().chain("Go.", tools=tools(stage.bus, images=False)).text()
        [given] = provider.asked[1].new
        assert given.text.startswith("first\n[image: image/png, 70 B]\n[audio: audio/wav, 16 B]")
        assert provider.asked[1].images == ()

    @pytest.mark.parametrize("agreed", [True, False])
    async def test_a_person_answers_the_policy(self, agreed: bool, stage: Stage) -> None:
        asking = stage.bus.view(policy=[{"tools": "desk/echo", "do": "ask", "reason": "it talks"}])
        questions: list[ApprovalRequest] = []

        def ask(request: ApprovalRequest) -> bool:
            questions.append(request)
            return agreed

        with stage.model([[ToolCall("desk_echo", {"text": "hi"})], "Done."]) as provider:
            await asynchronous().chain("Go.", tools=tools(asking, ask=ask)).text()
        [request] = questions
        assert (request.name, dict(request.arguments), request.reason) == (
            "desk_echo",
            {"text": "hi"},
            "it talks",
        )
        [given] = provider.asked[1].new
        assert given.text == "hi" if agreed else "not allow" in given.text

    async def test_without_someone_to_ask_the_call_is_refused(self, stage: Stage) -> None:
        asking = stage.bus.view(policy=[{"tools": "desk/echo", "do": "ask"}])
        with stage.model([[ToolCall("desk_echo", {"text": "hi"})], "Done."]) as provider:
            await asynchronous().chain("Go.", tools=tools(asking)).text()
        assert "policy[0]" in provider.asked[1].new[0].text

    async def test_a_list_is_a_snapshot_until_it_is_refreshed(self, own_stage: Stage) -> None:
        offer = tools(own_stage.bus)
        before = list(offer)
        await own_stage.bus.call("desk_grow", {"name": "fresh"})
        await until(lambda: "desk_fresh" in own_stage.bus.catalog)
        assert offer == before
        offer.refresh()
        assert [tool.name for tool in offer if isinstance(tool, llm.Tool)] == list(
            own_stage.bus.catalog.names
        )

    @pytest.mark.parametrize("listed", [False, True])
    async def test_a_synchronous_chain_works_inside_a_running_loop(
        self, listed: bool, web_ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = {"servers": {"desk": Place("http", "modern", web_ports).config()}}
        calls = [ToolCall("desk_many"), ToolCall("desk_add", {"a": 1, "b": 2})]
        with Provider([calls, "It is 3."]) as provider, SyncToolbus(config) as bus:
            for name, value in provider.environment.items():
                monkeypatch.setenv(name, value)
            model: Any = llm.get_model("gpt-4o")
            assert model.chain("Go.", tools=tools(bus.tools() if listed else bus)).text() == "It is 3."
        assert provider.asked[1].new[1].text == "3"
        assert provider.asked[1].images == (PNG,)
