"""One bad tool costs that tool only, at the start and later, in every part of toolbus."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS, plain
from tests.inside.shape import DIALECTS
from tests.patience import PATIENCE
from toolbus import ShaperFailed, Toolbus, ToolSpec
from toolbus.adapters.tool_list import ToolList
from toolbus.events import CatalogChanged, Event, Warned
from toolbus.shape import Shaper, each

pytestmark = pytest.mark.anyio

STAGED = SERVERS / "staged.py"
OBJECT: dict[str, Any] = {"type": "object"}
GOOD = {"name": "good", "description": "Works.", "inputSchema": OBJECT}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = OBJECT
    for _ in range(levels):
        schema = {"properties": {"in": schema}}
    return schema


def bad(**changes: Any) -> dict[str, Any]:
    return {"name": "bad", "inputSchema": OBJECT, **changes}


LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "name": (bad(name="bad\ud800"), "its name contains a lone surrogate, which is not text"),
    "argument": (
        bad(inputSchema={"properties": {"\udfff": {}}}),
        "inputSchema contains a lone surrogate, which is not text",
    ),
    "enum": (
        bad(inputSchema={"enum": ["\ud800"]}),
        "inputSchema contains a lone surrogate, which is not text",
    ),
    "nan": (
        bad(inputSchema={"default": float("nan")}),
        "inputSchema contains a number that JSON cannot express",
    ),
    "deep": (bad(inputSchema=nested(100)), "inputSchema is nested deeper than 100 levels"),
    "deeper": (bad(inputSchema=nested(150)), "inputSchema is nested deeper than 100 levels"),
}
NO_OBJECT: dict[str, Any] = {
    "text": {"type": "string", "description": "A word."},
    "list": {"type": ["array", "null"], "items": {}},
    "choice": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "value": {"enum": ["a", 1]},
    "both": {"allOf": [{"type": "object"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"const": None}}},
}
IGNORED: dict[str, tuple[dict[str, Any], str]] = {
    "output": (bad(outputSchema=[]), "outputSchema"),
    "output true": (bad(outputSchema=True), "outputSchema"),
    "deep output": (bad(outputSchema=nested(150)), "outputSchema"),
    "title": (bad(annotations={"title": 5}), "annotations.title"),
    "hint": (bad(annotations={"destructiveHint": "no"}), "annotations.destructiveHint"),
    "annotations": (bad(annotations=[1]), "annotations"),
    "description": (bad(description={"en": "x"}), "description"),
    "half": (bad(description="half an emoji \ud83d"), "description"),
    "half inside": (bad(inputSchema={"properties": {"a": {"description": "\ud83d"}}}), "inputSchema"),
    "meta": (bad(_meta={"a": "\ud800", "b": 1}), "_meta.a"),
    "infinite": (bad(_meta={"a": float("inf")}), "_meta.a"),
    "true": (bad(inputSchema=True), "inputSchema (true)"),
    **{
        name: (
            bad(inputSchema=schema),
            "inputSchema (it does not accept an object, which the arguments of a call always are)",
        )
        for name, schema in NO_OBJECT.items()
    },
    "no type": (
        bad(inputSchema={"properties": {"a": {"type": "banana"}}}),
        "inputSchema/properties/a/type ('banana')",
    ),
    "no type at all": (bad(inputSchema={"type": "banana"}), "inputSchema/type ('banana')"),
    "no properties": (bad(inputSchema={"properties": []}), "inputSchema/properties ([])"),
    "no names": (bad(inputSchema={"type": "object", "required": "x"}), "inputSchema/required ('x')"),
    "no choice": (
        bad(inputSchema={"properties": {"a": {"items": {"anyOf": {}}}}}),
        "inputSchema/properties/a/items/anyOf ({})",
    ),
    "all": (bad(title=5, description=5, _meta=5, annotations=5), "description, title, annotations, _meta"),
}


def staged(folder: Path, *stages: dict[str, Any], era: str = "legacy") -> dict[str, Any]:
    file = folder / "stages.json"
    file.write_text(json.dumps(stages), encoding="utf-8")
    return {"command": warm.python(), "args": [str(STAGED), era, str(file)]}


@asynccontextmanager
async def beside(
    server: dict[str, Any], shapers: list[Shaper] | None = None, **config: Any
) -> AsyncGenerator[tuple[Toolbus, list[Event]]]:
    """A bus with that server and a good one, and everything it says."""
    events: list[Event] = []
    servers = {"odd": server, "fine": plain()}
    async with Toolbus({"servers": servers, **config}, shapers=shapers or [], on_event=events.append) as bus:
        yield bus, events


async def go_on(bus: Toolbus, wanted: Callable[[Event], bool]) -> None:
    """Have the server go to its next stage, and wait for an event."""
    listening = bus.events()
    await bus.call("odd_next")
    async with asyncio.timeout(PATIENCE):
        async for event in listening:
            if wanted(event):
                return


async def assert_fine(bus: Toolbus) -> None:
    for name in ("odd_good", "fine_echo"):
        assert not (await bus.call(name, {})).is_error
    for dialect in DIALECTS:
        json.dumps([tool.definition(dialect) for tool in bus.tools()], ensure_ascii=False).encode()


def warned(events: list[Event]) -> list[tuple[str, str | None, str]]:
    return [(event.server, event.tool, event.message) for event in events if isinstance(event, Warned)]


def shown(tool: dict[str, Any]) -> str:
    return tool["name"].encode(errors="backslashreplace").decode()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_tool_that_is_too_deep_for_any_reader_costs_itself_alone(era: str, tmp_path: Path) -> None:
    tools = [GOOD, bad(inputSchema="DEEP")]
    server = staged(tmp_path, {"tools": tools}, era=era) | {"timeouts": {"list": 600}}
    async with asyncio.timeout(PATIENCE), beside(server) as (bus, events):
        assert bus.catalog.names == ("odd_good", "odd_next", "fine_echo")
        assert bus.inventories["odd"].notes == ()
        await assert_fine(bus)
    reason = "left out: inputSchema is nested deeper than 100 levels"
    assert warned(events) == [("odd", "bad", reason)]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("case", LEFT_OUT)
async def test_a_tool_that_cannot_be_used_is_quarantined_alone(case: str, era: str, tmp_path: Path) -> None:
    tool, reason = LEFT_OUT[case]
    async with beside(staged(tmp_path, {"tools": [tool, GOOD]}, era=era)) as (bus, events):
        assert bus.servers["odd"].era == era
        assert bus.catalog.names == ("odd_good", "odd_next", "fine_echo")
        [found] = bus.inventories["odd"].quarantined
        assert (found.tool, found.reason) == (shown(tool), reason)
        await assert_fine(bus)
    assert warned(events) == [("odd", shown(tool), f"left out: {reason}")]


@pytest.mark.parametrize("case", IGNORED)
async def test_what_a_call_does_not_need_is_ignored_with_a_warning(case: str, tmp_path: Path) -> None:
    tool, fields = IGNORED[case]
    async with beside(staged(tmp_path, {"tools": [tool, GOOD]}, era="modern")) as (bus, events):
        assert bus.catalog.names == ("odd_bad", "odd_good", "odd_next", "fine_echo")
        assert not (await bus.call("odd_bad", {})).is_error
        await assert_fine(bus)
    ignored = f"invalid parts of its definition were ignored: {fields}"
    assert warned(events) == [("odd", "bad", ignored)]


async def test_a_hint_of_the_wrong_type_counts_as_the_cautious_default(tmp_path: Path) -> None:
    tool = bad(annotations={"destructiveHint": "no", "readOnlyHint": 1, "idempotentHint": None})
    server = {**staged(tmp_path, {"tools": [tool, GOOD]}), "exclude": [{"destructiveHint": True}]}
    async with beside(server) as (bus, _):
        assert bus.catalog.names == ("fine_echo",)
        assert bus.inventories["odd"].tools[0].annotations == {}


@pytest.mark.parametrize("case", LEFT_OUT)
async def test_a_bad_tool_that_comes_later_freezes_nothing(case: str, tmp_path: Path) -> None:
    tool, reason = LEFT_OUT[case]
    later = {"name": "later", "inputSchema": OBJECT}
    stages = [{"tools": [GOOD]}, {"tools": [tool, GOOD]}, {"tools": [tool, GOOD, later]}]
    async with beside(staged(tmp_path, *stages)) as (bus, _):
        await go_on(bus, lambda event: isinstance(event, Warned) and event.message == f"left out: {reason}")
        assert bus.catalog.names == ("odd_good", "odd_next", "fine_echo")
        await assert_fine(bus)
        await go_on(bus, lambda event: isinstance(event, CatalogChanged) and event.added == ("odd_later",))
        assert (await bus.call("odd_later")).text == "later"


async def test_a_server_that_joins_or_is_reloaded_with_a_bad_tool_joins_without_it(tmp_path: Path) -> None:
    tool, _ = LEFT_OUT["name"]
    server = staged(tmp_path, {"tools": [tool, GOOD]})
    async with Toolbus({"servers": {"fine": plain()}}) as bus:
        await bus.add_server("odd", server)
        assert bus.catalog.names == ("fine_echo", "odd_good", "odd_next")
        await bus.reload({"servers": {"odd": server, "fine": plain()}, "naming": "{server}_{tool}"})
        assert set(bus.catalog.names) == {"fine_echo", "odd_good", "odd_next"}
        await assert_fine(bus)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_bad_prompts_resources_and_instructions_cost_only_themselves(era: str, tmp_path: Path) -> None:
    stage = {
        "tools": [GOOD],
        "instructions": "half an emoji \ud83d",
        "prompts": [{"name": "bad\ud800"}, {"name": 5}, {"name": "fine", "title": "\ud800"}],
        "resources": [{"uri": "x://a", "name": 5}, {"uri": "x://b", "name": "b"}],
        "resourceTemplates": [5, {"uriTemplate": "x://{a}", "name": "t"}],
    }
    config: dict[str, Any] = {"resource_tools": "server", "prompt_tools": True}
    async with beside(staged(tmp_path, stage, era=era), **config) as (bus, events):
        assert [prompt.name for prompt in bus.prompts()] == ["fine"]
        assert [resource.name for resource in bus.resources()] == ["b"]
        assert [template.name for template in bus.templates()] == ["t"]
        assert bus.instructions == {"odd": "half an emoji "}
        assert {"mcp_odd_get_prompt_fine", "mcp_odd_read_resource"} <= set(bus.catalog.names)
        await assert_fine(bus)
    told = {message for server, _, message in warned(events) if server == "odd"}
    assert len(told) == 5
    assert (
        "the prompt 'bad' was left out: its definition contains a lone surrogate, which is not text" in told
    )
    assert "its instructions are not valid text; the invalid parts were ignored" in told


async def test_instructions_that_are_no_text_are_ignored(tmp_path: Path) -> None:
    async with beside(staged(tmp_path, {"tools": [GOOD], "instructions": 5})) as (bus, events):
        assert bus.instructions == {}
        await assert_fine(bus)
    assert "instructions" in warned(events)[0][2]


async def test_a_bad_tool_beside_one_whose_arguments_go_into_headers_costs_only_itself(
    tmp_path: Path,
) -> None:
    headed = {"properties": {"text": {"type": "string", "x-mcp-header": "Region"}}, "type": "object"}
    tools = [bad(name="headed", inputSchema=headed), LEFT_OUT["name"][0], IGNORED["title"][0], GOOD]
    async with beside(staged(tmp_path, {"tools": tools}, era="modern")) as (bus, _):
        assert set(bus.catalog.names) == {"odd_headed", "odd_bad", "odd_good", "odd_next", "fine_echo"}
        await assert_fine(bus)


def refuse_bad(tool: ToolSpec) -> ToolSpec:
    if tool.origin.tool == "bad":
        raise RecursionError("too much")
    return tool


def spoil(**changes: Any) -> Shaper:
    def spoiling(tool: ToolSpec) -> ToolSpec:
        return replace(tool, **changes) if tool.origin.tool == "bad" else tool

    return each(spoiling)


def all_at_once(tools: list[ToolSpec]) -> list[ToolSpec]:
    return [refuse_bad(tool) for tool in tools]


def garbage(tools: list[ToolSpec]) -> Any:
    return [5 if tool.origin.tool == "bad" else tool for tool in tools]


SHAPERS: dict[str, tuple[Shaper, str]] = {
    "each": (each(refuse_bad), "raised RecursionError: too much"),
    "whole": (all_at_once, "raised RecursionError: too much"),
    "garbage": (garbage, "it returned int, not a tool"),
    "name": (spoil(name=5), "a tool whose name is int"),
    "surrogate": (spoil(name="\ud800"), "a tool whose name contains a lone surrogate"),
    "schema": (
        spoil(input_schema={"a": {1}}),
        "a tool whose input_schema contains a value that JSON cannot express",
    ),
    "origin": (spoil(origin=None), "a tool whose origin is NoneType"),
}


@pytest.mark.parametrize("case", SHAPERS)
async def test_a_tool_that_a_shaper_cannot_take_is_quarantined_alone(case: str, tmp_path: Path) -> None:
    shaper, reason = SHAPERS[case]
    stages = [{"tools": [bad(), GOOD]}, {"tools": [bad(), GOOD, bad(name="later")]}]
    async with beside(staged(tmp_path, *stages), [shaper]) as (bus, events):
        assert bus.catalog.names == ("odd_good", "odd_next", "fine_echo")
        [found] = bus.inventories["odd"].quarantined
        assert found.tool == "bad"
        assert reason in found.reason
        assert ("odd", "bad", f"left out: {found.reason}") in warned(events)
        await go_on(bus, lambda event: isinstance(event, CatalogChanged) and event.added == ("odd_later",))
        await assert_fine(bus)


def nothing(_: list[ToolSpec]) -> Any:
    return None


def nothings(tools: list[ToolSpec]) -> Any:
    return [None for _ in tools]


def raising(_: list[ToolSpec]) -> list[ToolSpec]:
    raise KeyError("missing")


@pytest.mark.parametrize("broken", [nothing, nothings, raising])
async def test_a_shaper_that_fails_for_every_tool_is_the_one_that_is_broken(broken: Any) -> None:
    with pytest.raises(ShaperFailed):
        await Toolbus({"servers": {"a": plain(), "b": plain()}}, shapers=[broken]).start()


async def test_a_shaper_that_breaks_later_keeps_the_catalog_and_says_so(tmp_path: Path) -> None:
    def breaking(tools: list[ToolSpec]) -> list[ToolSpec]:
        assert not any(tool.origin.tool == "later" for tool in tools), "later is here"
        return list(reversed(tools)) if len(tools) > 1 else [tools[5]]

    later = {"name": "later", "inputSchema": OBJECT}
    stages = [{"tools": [GOOD]}, {"tools": [GOOD, later]}, {"tools": [GOOD, bad()]}]
    async with beside(staged(tmp_path, *stages), [breaking]) as (bus, _):
        before = bus.catalog
        await go_on(bus, lambda event: isinstance(event, Warned) and "later is here" in event.message)
        assert bus.catalog is before
        await go_on(bus, lambda event: isinstance(event, CatalogChanged) and event.added == ("odd_bad",))


async def test_a_framework_that_cannot_take_a_tool_gets_the_others(tmp_path: Path) -> None:
    def made(tool: Any) -> str:
        return refuse_bad(tool.spec).name

    async with beside(staged(tmp_path, {"tools": [bad(), GOOD]})) as (bus, events):
        assert list(ToolList(bus, made)) == ["odd_good", "odd_next", "fine_echo"]
        with pytest.raises(ZeroDivisionError):
            ToolList(bus, lambda tool: 1 / 0)
    reason = "not offered to the framework: RecursionError: too much"
    assert ("odd", "bad", reason) in warned(events)


async def test_a_registry_or_transform_that_refuses_a_tool_gets_the_others(tmp_path: Path) -> None:
    class Picky:
        def __init__(self, refused: str = "") -> None:
            self.names: list[str] = []
            self.refused = refused

        def add_tool(self, tool: Any) -> None:
            if tool.name == self.refused:
                raise ValueError("not that one")
            self.names.append(tool.name)

    refusing, other = Picky("odd_bad"), Picky()
    async with beside(staged(tmp_path, {"tools": [bad(), GOOD]})) as (bus, events):
        bus.register_into(refusing)
        bus.register_into(other, transform=refuse_bad)
        assert refusing.names == other.names == ["odd_good", "odd_next", "fine_echo"]
    told = [message for _, tool, message in warned(events) if tool == "bad"]
    assert told[0] == "left out: a registry raised ValueError: not that one"
    assert "'refuse_bad' raised RecursionError" in told[1]


@pytest.mark.parametrize(
    "command",
    [["tools"], ["tools", "--full"], ["tools", "--cost"], ["tools", "--json"], ["check"]],
    ids=" ".join,
)
def test_the_command_line_shows_the_good_tools_and_what_is_wrong_with_the_bad(
    command: list[str], tmp_path: Path
) -> None:
    odd = bad(inputSchema={"properties": 5, "required": 7}, annotations={"title": 5})
    tools = [LEFT_OUT["name"][0], GOOD, odd]
    config = tmp_path / "toolbus.json"
    config.write_text(json.dumps({"servers": {"odd": staged(tmp_path, {"tools": tools}), "fine": plain()}}))
    words = ["-m", "toolbus", "--config", str(config), *command]
    run = warm.run("python", words, tmp_path, {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, "", 60)
    assert (run.returncode, run.stderr) == (0, "")
    if command == ["check"]:
        assert "tool 'bad\\ud800': left out: its name contains a lone surrogate" in run.stdout
        assert "tool 'bad': invalid parts of its definition were ignored: annotations.title" in run.stdout
    else:
        assert all(name in run.stdout for name in ("odd_good", "odd_bad", "fine_echo"))
