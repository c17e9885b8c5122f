"""A tool as a model sees it, and the effect of its arguments, over every transport."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Place, plain
from tests.servers.everyday import everyday
from toolbus import Toolbus, ToolSpec
from toolbus.events import Event, Warned
from toolbus.shape import each, excluding

pytestmark = pytest.mark.anyio


def bus(config: dict[str, Any] | None = None, **more: Any) -> Toolbus:
    return Toolbus({"servers": {"day": {"server": everyday(), **(config or {})}}}, **more)


async def test_a_tool_can_be_renamed_described_and_given_other_arguments(place: Place) -> None:
    override = {
        "add": {
            "name": "plus_ten",
            "description": "Add ten.",
            "arguments": {"a": {"name": "number"}, "b": {"value": 10}},
        }
    }
    config = {"servers": {"day": place.config(override=override, include=["add", "echo"], mark=True)}}
    async with Toolbus(config) as toolbus:
        spec = toolbus.catalog["day/add"]
        assert (spec.name, spec.description) == ("plus_ten", "[MCP: day] Add ten.")
        assert list(spec.input_schema["properties"]) == ["number"]
        assert spec.input_schema["required"] == ["number"]
        assert [change.shaper for change in spec.history] == ["overridden", "marked"]
        assert (await toolbus.call("plus_ten", {"number": 5})).text == "15"
        [tool] = [tool for tool in toolbus.tools() if tool.name == "plus_ten"]
        assert (await tool.execute(number=1, b=5)).text == "11"


async def test_slips_of_a_model_are_mended_and_reported(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as toolbus:
        result = await toolbus.call("day_add", {"a": "5", "b": 2})
        exact = await toolbus.call("day_add", {"a": 5, "b": 2})

    assert (result.text, exact.text) == ("7", "7")
    assert result.meta["toolbus"] == {"repaired": ["a: '5' became 5"]}
    assert "toolbus" not in exact.meta


async def test_arguments_that_cannot_be_mended_never_reach_the_server() -> None:
    async with Toolbus({"servers": {"p": plain("die_in_call")}}) as toolbus:
        result = await toolbus.call("p_echo", {"text": {"a": 1}})
        [echo] = toolbus.tools()
        executed = await echo.execute(text=[1, 2])
        status = toolbus.servers["p"]

    start = (
        "MCP error: wrong arguments for 'p_echo', nothing was sent: argument 'text': expected a string, got "
    )
    assert (result.is_error, result.text.startswith(start)) == (True, True)
    assert (executed.is_error, executed.text.startswith(start)) == (True, True)
    assert (status.state, status.restarts) == ("ready", 0)


async def test_repair_can_be_switched_off_for_a_server() -> None:
    async with bus({"repair": False}) as toolbus:
        result = await toolbus.call("day_add", {})

    assert result.is_error
    assert "validation error" in result.text


@pytest.mark.parametrize("repair", [True, False])
async def test_null_that_only_strict_mode_asks_for_is_not_sent(repair: bool) -> None:
    server = everyday()

    @server.tool(structured_output=False)
    def find(word: str, limit: int = 5) -> str:
        """Find a word."""
        return f"{word}, {limit} at most"

    spelt = {"word": "tea", "limit": None}
    async with Toolbus({"servers": {"day": {"server": server, "repair": repair}}}) as toolbus:
        [tool] = [tool for tool in toolbus.tools() if tool.name == "day_find"]
        assert tool.definition("openai-strict")["function"]["parameters"]["required"] == ["word", "limit"]
        results = [await tool.execute(**spelt), await toolbus.call("day_find", spelt)]

    assert [result.text for result in results] == ["tea, 5 at most"] * 2


async def test_a_renamed_tool_is_found_on_a_lazy_server() -> None:
    config = {"lazy": True, "override": {"add": {"name": "sum"}}}
    async with bus(config) as toolbus:
        assert (await toolbus.call("sum", {"a": 1, "b": 2})).text == "3"


async def test_what_is_left_out_for_all_servers_cannot_be_called() -> None:
    config = {"servers": {"day": {"server": everyday()}}, "exclude": ["day/echo", {"readOnlyHint": True}]}
    async with Toolbus(config) as toolbus:
        assert "day/echo" not in toolbus.catalog
        assert all(spec.annotations.get("readOnlyHint") is not True for spec in toolbus.catalog)
        assert "day/fail" in toolbus.catalog


async def test_shapers_in_code_come_after_the_config_and_before_the_names() -> None:
    def shout(spec: ToolSpec) -> ToolSpec | None:
        return None if spec.origin.tool == "fail" else replace(spec, description=spec.description.upper())

    config = {"override": {"echo": {"description": "Say it again."}}}
    async with bus(config, shapers=[each(shout), excluding("day/hang*")]) as toolbus:
        assert toolbus.catalog["day_echo"].description == "SAY IT AGAIN."
        assert not {"day_fail", "day_hang", "day_hangs"} & set(toolbus.catalog.names)


async def test_hidden_characters_in_a_description_are_removed_and_told_once() -> None:
    told: list[Event] = []
    async with Toolbus({"servers": {"p": plain("hidden")}}, on_event=told.append) as toolbus:
        spec = toolbus.catalog["p_echo"]

    assert "\u202e" not in spec.description
    warnings = [event for event in told if isinstance(event, Warned)]
    assert [(event.tool, event.message) for event in warnings] == [
        ("echo", "invisible or control characters were removed from its description")
    ]


async def test_many_calls_with_slips_do_not_mix() -> None:
    async with bus() as toolbus:
        results = await asyncio.gather(*(toolbus.call("day_add", {"a": str(n), "b": n}) for n in range(50)))

    assert [result.text for result in results] == [str(2 * n) for n in range(50)]
    assert [result.meta["toolbus"]["repaired"] for result in results] == [
        [f"a: '{n}' became {n}"] for n in range(50)
    ]


async def test_a_complaint_is_in_the_words_that_the_model_knows() -> None:
    override = {"add": {"arguments": {"a": {"name": "first"}, "b": {"value": 1}}}}
    async with bus({"override": override}) as toolbus:
        missing = await toolbus.call("day_add", {})
        wrong = await toolbus.call("day_add", {"first": "x"})
        mended = await toolbus.call("day_add", {"first": "4"})

    assert "argument 'first' is missing" in missing.text
    assert "argument 'first': expected an integer" in wrong.text
    assert (mended.text, mended.meta["toolbus"]) == ("5", {"repaired": ["first: '4' became 4"]})


async def test_an_override_that_changes_nothing_is_told() -> None:
    told: list[Event] = []
    override = {"nope": {"name": "x"}, "add": {"arguments": {"c": {"value": 1}, "a": {"hide": True}}}}
    async with bus({"override": override}, on_event=told.append) as toolbus:
        assert toolbus.catalog["day_add"].input_schema["required"] == ["a", "b"]

    assert [event.message for event in told if isinstance(event, Warned)] == [
        "override: no tool matches 'nope'",
        "override.add: no tool has an argument 'c'",
        "override.add: 'a' is required, so it cannot be hidden",
    ]
