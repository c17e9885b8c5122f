"""The shared parts of all adapters: the sources of tools, and odd results."""

import asyncio
import copy
import gc
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import Place
from tests.patience import PATIENCE
from toolbus import Toolbus, connect_mcp
from toolbus.adapters import anthropic, langchain, openai, openai_agents
from toolbus.adapters.media import model_blocks
from toolbus.records import Embedded, Image, Text, ToolResult
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


@pytest.fixture
def config(web_ports: dict[str, int]) -> dict[str, Any]:
    return {"servers": {"desk": Place("http", "modern", web_ports).config()}}


@pytest.mark.parametrize("source", ["toolbus.yaml", Path("toolbus.yaml"), {"servers": {}}, None, 7])
def test_what_is_no_bus_is_refused_with_the_way_to_one(source: Any) -> None:
    with pytest.raises(TypeError, match=r"open a bus first: `async with Toolbus\(\"toolbus.yaml\"\) as bus`"):
        openai.tools(source)


def test_a_connection_that_nobody_awaited_is_refused() -> None:
    with pytest.raises(TypeError, match="await it first"):
        langchain.tools(connect_mcp("http://127.0.0.1:1/mcp"))  # pyright: ignore[reportArgumentType]  # the point


def test_tools_chosen_from_a_sync_bus_are_tools(config: dict[str, Any]) -> None:
    with SyncToolbus(config) as bus:
        [add] = langchain.tools([tool for tool in bus.tools() if tool.name == "desk_add"])
        assert add.invoke({"a": 1, "b": 2}) == "3"


async def test_two_chosen_tools_of_one_name_are_refused(config: dict[str, Any]) -> None:
    async with Toolbus(config) as one, Toolbus(config) as other:
        with pytest.raises(ValueError, match="two tools are named 'desk_add': desk/add and desk/add"):
            openai.tools([*one.tools(), *other.tools()])


async def test_lists_that_nobody_holds_are_not_told_of_events(config: dict[str, Any]) -> None:
    async with Toolbus(config) as bus:
        for _ in range(100):
            openai.tools(bus)
        gc.collect()
        assert not bus._hub._callbacks  # pyright: ignore[reportPrivateUsage]  # what would leak


async def test_a_tool_can_be_copied_with_the_agent_that_has_it(config: dict[str, Any]) -> None:
    async with Toolbus(config) as bus:
        [tool, *_] = bus.tools()
        assert copy.deepcopy(tool) is tool
        assert copy.deepcopy(langchain.tools(bus)[0]).name == "desk_add"


async def test_only_a_model_that_gets_the_tool_is_told_to_read_on(config: dict[str, Any]) -> None:
    async with Toolbus(config) as bus:
        still = {tool.name: tool for tool in langchain.tools(bus)}
        said = await still["desk_big"].ainvoke({"size": 200_000})
        assert "left out" in said
        assert "read_result" not in said
        assert "read_result" not in bus.catalog
        live = await anthropic.tools(bus).replies(
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "desk_big", "input": {"size": 200_000}}],
            }
        )
        assert "read_result" in str(live)
        assert "read_result" in bus.catalog


async def test_files_stay_whole_beside_a_text_that_is_cut() -> None:
    from tests.inside.core import Budget
    from toolbus.call.results import Results

    file = Embedded(uri="memo://report.pdf", data=b"%PDF-1.7", mime_type="application/pdf")
    long = ToolResult(content=(Text(text="x" * 5000), file))
    assert Results().fitted(long, Budget(characters=1000)).content[-1] == file


@pytest.mark.parametrize("data", [b"", b"no picture at all"])
def test_a_picture_that_is_none_is_described(data: bytes) -> None:
    [shown] = model_blocks(ToolResult(content=(Image(data=data, mime_type="image/png"),)))
    assert isinstance(shown, Text)


def exhausted() -> str:
    empty: list[str] = []
    return next(iter(empty))


def promised() -> Any:
    return asyncio.sleep(0, "awaited")


@pytest.mark.parametrize(("own", "told"), [(exhausted, "RuntimeError: StopIteration"), (promised, "awaited")])
async def test_functions_of_the_user_may_do_odd_things(config: dict[str, Any], own: Any, told: str) -> None:
    response = {
        "choices": [
            {
                "message": {
                    "tool_calls": [{"id": "1", "function": {"name": "mine", "arguments": "null"}}],
                    "role": "assistant",
                }
            }
        ]
    }
    async with Toolbus(config) as bus, asyncio.timeout(PATIENCE):
        replies = await openai.tools(bus).replies(response, own={"mine": own})
    assert replies.answers[0].result.text == told


async def test_results_whose_custom_data_nobody_asks_for_do_not_pile_up(config: dict[str, Any]) -> None:
    async with Toolbus(config) as bus:
        [echo] = openai_agents.tools([tool for tool in bus.tools() if tool.name == "desk_echo"])
        invoke: Any = getattr(echo, "on_invoke_tool")  # noqa: B009  # its type is a union
        for number in range(120):
            context = type("Context", (), {"tool_call_id": str(number)})()
            await invoke(context, '{"text": "x"}')
        held: list[Any] = [cell.cell_contents for cell in invoke.__closure__]
        results = next(cast(dict[str, object], value) for value in held if isinstance(value, dict))
        assert len(results) == openai_agents.MAX_UNREAD_RESULTS
