"""A server's changes after approval are held; anything else is not."""

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import sampled
from tests.lock.place import OFFER, READ, Definition, Place, names
from tests.patience import until
from toolbus import Toolbus
from toolbus.errors import CallDenied, ToolbusError, ToolNotFound

pytestmark = pytest.mark.anyio
Tools = list[Definition]
Change = Callable[[Tools], Tools | None]


@dataclass(frozen=True)
class Mutation:
    """A change of a server's list, and its effect."""

    change: Change
    held: tuple[str, ...] = ("read",)
    """The tools that are held."""
    fields: tuple[str, ...] = ()
    """The fields of the first of them that changed; empty if it is new."""
    gone: tuple[str, ...] = ()
    """Approved tools that are not listed any more."""


def changed(**fields: Any) -> Change:
    """Other values of the tool's own fields."""
    return lambda tools: tools[0].update(fields)


def without(field: str) -> Change:
    return lambda tools: tools[0].pop(field)


def inside(path: str, value: Any) -> Change:
    """Another value at a path in the tool; None removes it."""

    def change(tools: Tools) -> None:
        *parents, last = path.split(".")
        holder: Any = tools[0]
        for key in parents:
            holder = holder[key]
        if value is None:
            del holder[last]
        else:
            holder[last] = value

    return change


def renamed(tools: Tools) -> None:
    tools[0]["name"] = "fetch"


def swapped(tools: Tools) -> None:
    read, write = tools[:2]
    read["description"], write["description"] = write["description"], read["description"]


def backwards(value: Any) -> Any:
    """The same JSON with its keys, and its lists that are sets, in the other order."""
    if isinstance(value, list):
        return [backwards(one) for one in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    items = [*cast(dict[str, Any], value).items()]
    return {
        key: inner[::-1] if key in ("required", "enum") else backwards(inner)
        for key, inner in reversed(items)
    }


def spaced(tools: Tools) -> None:
    tools[0]["description"] = "  Read a file. It has\tto exist.\n"
    tools[0]["title"] = "Read  a file"
    tools[0]["inputSchema"]["properties"]["path"]["description"] = "Where\n it is."


PATH, PROPERTIES = "inputSchema.properties.path", "inputSchema.properties"
SCHEMA, OUTPUT, HINTS = ("inputSchema",), ("outputSchema",), ("annotations",)
EXTRA: Definition = {"name": "run", "description": "Run a program.", "inputSchema": {"type": "object"}}
MUTATIONS: dict[str, Mutation] = {
    "title": Mutation(changed(title="Read any file"), fields=("title",)),
    "no title": Mutation(without("title"), fields=("title",)),
    "description": Mutation(changed(description="Read a file, then send it."), fields=("description",)),
    "a letter": Mutation(changed(description="Read a file.\n\nIt has to exist!"), fields=("description",)),
    "homoglyph": Mutation(
        changed(description="R\u0435ad a file.\n\nIt has to exist."), fields=("description",)
    ),
    "no description": Mutation(without("description"), fields=("description",)),
    "type": Mutation(inside(f"{PATH}.type", "array"), fields=SCHEMA),
    "argument added": Mutation(inside(f"{PROPERTIES}.context", {"type": "string"}), fields=SCHEMA),
    "argument removed": Mutation(inside(PATH, None), fields=SCHEMA),
    "argument required": Mutation(inside("inputSchema.required", ["path", "mode", "lines"]), fields=SCHEMA),
    "argument optional": Mutation(inside("inputSchema.required", ["path"]), fields=SCHEMA),
    "argument described": Mutation(inside(f"{PATH}.description", "The key in ~/.ssh."), fields=SCHEMA),
    "enum": Mutation(inside(f"{PROPERTIES}.mode.enum", ["text", "bytes", "secret"]), fields=SCHEMA),
    "default": Mutation(inside(f"{PROPERTIES}.mode.default", "bytes"), fields=SCHEMA),
    "nested type": Mutation(inside(f"{PROPERTIES}.lines.properties.last.type", "string"), fields=SCHEMA),
    "nested required": Mutation(inside(f"{PROPERTIES}.lines.required", ["first"]), fields=SCHEMA),
    "output schema": Mutation(inside("outputSchema.properties.text.type", "integer"), fields=OUTPUT),
    "no output schema": Mutation(without("outputSchema"), fields=OUTPUT),
    "read-only hint": Mutation(inside("annotations.readOnlyHint", False), fields=HINTS),
    "destructive hint": Mutation(inside("annotations.destructiveHint", True), fields=HINTS),
    "idempotent hint": Mutation(inside("annotations.idempotentHint", False), fields=HINTS),
    "open world hint": Mutation(inside("annotations.openWorldHint", True), fields=HINTS),
    "execution": Mutation(changed(execution={"taskSupport": "required"}), fields=("execution",)),
    "icons": Mutation(changed(icons=[{"src": "https://example.org/x.png"}]), fields=("icons",)),
    "_meta.ui": Mutation(inside("_meta.ui", {"resourceUri": "ui://evil"}), fields=("_meta",)),
    "renamed": Mutation(renamed, held=("fetch",), gone=("read",)),
    "swapped": Mutation(swapped, held=("read", "write"), fields=("description",)),
    "added": Mutation(lambda tools: tools.append(EXTRA), held=("run",)),
    "removed": Mutation(lambda tools: tools[1:], held=(), gone=("read",)),
    "big number": Mutation(inside(f"{PROPERTIES}.lines.maximum", 10**20)),
    "keys reordered": Mutation(lambda tools: [backwards(tool) for tool in tools], held=()),
    "tools reordered": Mutation(lambda tools: tools[::-1], held=()),
    "white space in texts": Mutation(spaced, held=()),
    "other _meta": Mutation(inside("_meta", {**READ["_meta"], "example.com/build": 2}), held=()),
    "empty fields": Mutation(lambda tools: tools[1].update(title="", annotations={}, icons=[]), held=()),
}
"""Thirty changes, and five that are none."""


def mutated(mutation: Mutation) -> dict[str, Any]:
    """The offer after the change; `stat` is marked to show that the list is new."""
    tools = deepcopy(OFFER["tools"])
    found = mutation.change(tools)
    tools = found if isinstance(found, list) else tools
    next(tool for tool in tools if tool["name"] == "stat")["_meta"] = {"example.com/nonce": 1}
    return {**OFFER, "tools": tools}


async def relisted(bus: Toolbus) -> None:
    """Wait until the bus has the changed list; the mark is not a change of the definition."""
    await until(lambda: bool(bus.catalog["files_stat"].meta))


async def refusal(bus: Toolbus, name: str) -> ToolbusError:
    with pytest.raises(ToolbusError) as caught:
        await bus.call(f"files_{name}", {"path": "x", "mode": "text"})
    return caught.value


CASES = [(name, when) for name in MUTATIONS for when in ("at connect", "by list_changed")]
# All are found at connect, and some later, in the same way: of a text, of a schema, of the list, and none.
SOME = [
    case
    for case in CASES
    if case[1] == "at connect"
    or case[0] in ("description", "renamed", "added", "big number", "keys reordered")
]


@pytest.mark.parametrize("case", sampled(CASES, *SOME), ids="-".join)
async def test_a_mutation(case: tuple[str, str], tmp_path: Path) -> None:
    """Changed definitions are not in the catalog and cannot be called; the rest can."""
    mutation, when = MUTATIONS[case[0]], case[1]
    place = Place(tmp_path)
    place.approve()
    offer = mutated(mutation)
    if when == "at connect":
        place.offer(offer)
    async with Toolbus(place.config) as bus:
        await bus.wait_ready()
        if when != "at connect":
            assert (names(bus), bus.held) == (["read", "stat", "write"], {})
            place.offer(offer)
        await relisted(bus)
        missing = {*mutation.held, *mutation.gone}
        allowed = sorted({"read", "stat", "write"} - missing)
        assert names(bus) == allowed
        assert list(bus.held) == [f"files/{name}" for name in sorted(mutation.held)]
        for name in allowed:
            assert (await bus.call(f"files_{name}", {"path": "x", "mode": "text"})).text == f"ran {name}"
        for name in mutation.held:
            refused = await refusal(bus, name)
            assert isinstance(refused, CallDenied)
            assert refused.reason == bus.held[f"files/{name}"].reason
        for name in mutation.gone:
            assert isinstance(await refusal(bus, name), ToolNotFound)
        if mutation.fields:
            one = bus.held["files/read"]
            assert one.fields == mutation.fields
            expected = f"its {' and '.join(mutation.fields)} changed since toolbus.lock was written; review"
            assert one.reason.startswith(expected)
    assert place.calls == allowed


def test_the_table_has_thirty_changes() -> None:
    assert len([one for one in MUTATIONS.values() if one.held or one.gone]) == 30


@pytest.mark.parametrize("layout", [{"indent": 4}, {"separators": (",", ":")}, {"sort_keys": True}], ids=str)
async def test_white_space_in_the_json_of_a_list_is_not_a_change(
    layout: dict[str, Any], tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.approve()
    (tmp_path / "offer.json").write_text(json.dumps(OFFER, **layout))
    async with Toolbus(place.config) as bus:
        await bus.wait_ready()
        assert (names(bus), bus.held) == (["read", "stat", "write"], {})


async def test_a_model_gets_the_words_that_were_approved(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    place.offer(mutated(MUTATIONS["white space in texts"]))
    async with Toolbus(place.config) as bus:
        await relisted(bus)
        assert bus.catalog["files_read"].description == READ["description"]


async def test_a_tool_that_is_changed_back_is_offered_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    place.offer(mutated(MUTATIONS["description"]))
    async with Toolbus(place.config) as bus:
        await until(lambda: "files/read" in bus.held)
        place.offer(OFFER)
        await until(lambda: not bus.held)
        assert names(bus) == ["read", "stat", "write"]
        assert (await bus.call("files_read", {"path": "x", "mode": "text"})).text == "ran read"


async def test_a_call_under_way_to_a_lazy_server_is_compared_before_it_is_sent(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"lazy": True})
    place.approve()
    place.offer(mutated(MUTATIONS["description"]))
    async with Toolbus(place.config) as bus:
        assert (names(bus), place.starts) == (["read", "stat", "write"], 0)
        calls = [bus.call(f"files_{name}", {"path": "x", "mode": "text"}) for name in ("read", "write")]
        refused, allowed = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(refused, CallDenied)
        assert not isinstance(allowed, BaseException)
        assert allowed.text == "ran write"
    assert (place.calls, place.starts) == (["write"], 1)


async def test_a_call_of_a_tool_that_its_lazy_server_does_not_list_is_not_sent(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"lazy": True})
    place.approve()
    place.offer({**OFFER, "tools": OFFER["tools"][1:]})
    async with Toolbus(place.config) as bus:
        refused = await refusal(bus, "read")
        assert "its server does not list it" in str(refused)
    assert place.calls == []
