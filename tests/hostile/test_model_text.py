"""Hostile texts for the model: every character is visible to a person, and the length is limited."""

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import sampled
from tests.hostile.liar import liar
from tests.inside.agent import Toolbox
from tests.inside.core import ArgumentMap, Event, Warned, cleaned, cleaned_json
from tests.inside.shape import DIALECTS, cleaned_texts, shaped
from tests.timing import fastest
from toolbus import Toolbus
from toolbus.adapters.openai import messages
from toolbus.records import JSON, Origin, ToolResult, ToolSpec
from toolbus.shape import Dialect, converted

pytestmark = pytest.mark.anyio

ZERO_WIDTH = "\u200b"
HIDDEN = {
    "zero width": ZERO_WIDTH,
    "right to left": "\u202e",
    "tags": "".join(chr(0xE0000 + ord(letter)) for letter in "ignore"),
    "variation selectors": "\ufe01\U000e0101",
    "escape sequence": "\x1b[8m",
    "c1 control": "\x9b31m",
    "filler": "\u3164",
}
REMOVED = "invisible or control characters were removed from its {}"


@asynccontextmanager
async def attacked(
    folder: Path, settings: dict[str, Any] | None = None, **script: Any
) -> AsyncGenerator[tuple[Toolbus, list[str]]]:
    """A bus with the liar, and the warnings so far."""
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            told.append(event.message)

    entry = liar(folder, **{"tools": [[]], **script})
    async with Toolbus({"servers": {"a": entry}, **(settings or {})}, on_event=listen) as bus:
        yield bus, told


def tool(schema: JSON = None, **fields: Any) -> dict[str, Any]:
    return {"name": "look", "inputSchema": {"type": "object", **(schema or {})}, **fields}


def shown(bus: Toolbus) -> list[str]:
    """All that a model sees of the tools, in the format of each provider."""
    named: tuple[Dialect, ...] = DIALECTS
    return [
        json.dumps(converted(spec, dialect).value, ensure_ascii=False)
        for spec in bus.catalog.specs
        for dialect in named
    ]


@pytest.mark.parametrize("kind", HIDDEN)
async def test_hidden_characters_in_every_part_of_a_schema(tmp_path: Path, kind: str) -> None:
    """No provider's model gets them, and the server gets its own names and values."""
    evil = HIDDEN[kind]
    level = {"type": "string", "enum": [f"high{evil}", "low"], "default": f"high{evil}"}
    listed = tool(
        {
            "properties": {
                f"path{evil}": {"type": "string", "title": f"Path{evil}", "examples": [f"/tmp{evil}"]},
                "level": level,
                "only": {"const": f"one{evil}"},
                "deep": {"type": "array", "items": {"$ref": f"#/$defs/Item{evil}"}},
            },
            "required": [f"path{evil}"],
            "dependentRequired": {"level": [f"path{evil}"]},
            f"x-{evil}note": evil,
            "x-note": [{f"a{evil}": evil}],
            "$defs": {
                f"Item{evil}": {
                    "type": "object",
                    "description": f"An item{evil}",
                    "properties": {f"id{evil}": {"enum": [f"x{evil}"]}, "free": {"type": "string"}},
                }
            },
        },
        title=f"Look{evil}",
        description=f"Looks{evil}.",
        annotations={"title": f"Look{evil}", f"x{evil}": evil},
        outputSchema={"type": "object", "properties": {f"out{evil}": {"title": evil}}},
    )
    async with attacked(tmp_path, tools=[[listed]]) as (bus, told):
        for text in shown(bus):
            found: JSON = json.loads(text)
            assert cleaned_json(found) is found, text
        assert told == [REMOVED.format("description, title, arguments, output schema, annotations")]

        [look] = bus.tools()
        arguments: dict[str, JSON] = {
            "path": "high",
            "level": "high",
            "only": "one",
            "deep": [{"id": "x", "free": "x"}],
        }
        sent = json.loads((await bus.call(look.name, arguments)).text)
        assert sent == {
            f"path{evil}": "high",
            "level": f"high{evil}",
            "only": f"one{evil}",
            "deep": [{f"id{evil}": f"x{evil}", "free": "x"}],
        }
        assert (await look.execute(**arguments)).is_error is False
        wrong = await look.execute(path="x", level="middle")
        assert wrong.is_error
        assert cleaned(wrong.text) is wrong.text


def cleaned_spec(schema: JSON) -> ToolSpec:
    spec = ToolSpec(name="a", origin=Origin("a", "a"), input_schema=schema)
    return shaped([spec], [cleaned_texts()])[0]


def test_names_and_values_that_look_the_same() -> None:
    """Each keeps a name of its own, the same on every run, and reaches the server as it was."""
    a, b, c = "id", f"i{ZERO_WIDTH}d", f"id{ZERO_WIDTH}"
    schema = {"properties": {b: {"enum": [a, b, c]}, a: {}, c: {}, "id_2": {}, ZERO_WIDTH: {}}}
    spec = cleaned_spec(schema)
    assert list(spec.input_schema["properties"]) == ["id_3", "id", "id_4", "id_2", "unnamed"]
    assert spec.input_schema["properties"]["id_3"]["enum"] == ["id", "id_3", "id_4"]
    arguments = {"id_3": "id_4", "id": "id_3", "id_4": "id", "id_2": "id_2", "unnamed": 1}
    assert spec.to_server(arguments) == {b: c, a: "id_3", c: "id", "id_2": "id_2", ZERO_WIDTH: 1}
    assert cleaned_spec(schema).input_schema == spec.input_schema


V = f"v{ZERO_WIDTH}"
PLACES: dict[str, tuple[JSON, JSON, JSON]] = {
    "objects": (
        {"properties": {"p": {"enum": [{f"k{ZERO_WIDTH}": [V]}]}}},
        {"p": {"k": ["v"]}},
        {"p": {f"k{ZERO_WIDTH}": [V]}},
    ),
    "alternatives": ({"anyOf": [{"properties": {V: {}}}, {"allOf": [{}]}]}, {"v": 1}, {V: 1}),
    "other members": ({"additionalProperties": {"const": V}}, {"v": "v"}, {"v": V}),
    "members": (
        {"properties": {"p": {"type": "string"}}, "additionalProperties": {"const": V}},
        {"p": "v", "q": "v"},
        {"p": "v", "q": V},
    ),
    "patterns": ({"patternProperties": {"^(a+)+$": {"const": V}}}, {"a": "v"}, {"a": V}),
    "names": ({"propertyNames": {"enum": [V]}}, {"v": "v"}, {V: "v"}),
    "first items": (
        {"properties": {"p": {"prefixItems": [{"const": V}]}}},
        {"p": ["v", "v"]},
        {"p": [V, "v"]},
    ),
    "free text": (
        {"properties": {"p": {"type": "string"}, "q": {"enum": [V]}}},
        {"p": "v", "q": "v"},
        {"p": "v", "q": V},
    ),
    "references": (
        {"properties": {"p": {"$ref": "#/$defs/n%E2%80%8B~1"}}, "$defs": {f"n{ZERO_WIDTH}/": {"const": V}}},
        {"p": "v"},
        {"p": V},
    ),
    "recursion": (
        {"properties": {V: {"$ref": "#"}, "p": {"const": V}}},
        {"v": {"v": {"p": "v"}}},
        {V: {V: {"p": V}}},
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_hidden_characters_in_odd_places_of_a_schema(place: str) -> None:
    """Only what the schema lists is mapped back, wherever it is listed."""
    schema, arguments, sent = PLACES[place]
    spec = cleaned_spec(schema)
    assert cleaned_json(spec.input_schema) is spec.input_schema
    assert spec.to_server(arguments) == sent


def test_a_reference_to_a_name_with_hidden_characters() -> None:
    """It points to the clean name."""
    name = f"n{ZERO_WIDTH}"
    spec = cleaned_spec({"properties": {"p": {"$ref": f"#/$defs/{name}"}}, "$defs": {name: {"type": "null"}}})
    assert spec.input_schema == {"properties": {"p": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "null"}}}
    assert converted(spec, "google").grade == "lossless"


def test_a_hidden_keyword() -> None:
    """It does not become a keyword, which could make the schema invalid for every provider."""
    spec = cleaned_spec({"type": "object", f"ty{ZERO_WIDTH}pe": 5, f"enum{ZERO_WIDTH}": "x"})
    assert spec.input_schema == {"type": "object"}


@pytest.mark.parametrize("way", ["names", "values", "results", "arguments"])
def test_thousands_of_names_that_look_the_same(way: str) -> None:
    """They are told apart in linear time."""

    def seconds(count: int) -> float:
        bits = str.maketrans("01", f"{ZERO_WIDTH}\u2060")
        names = [f"a{number:020b}".translate(bits) for number in range(count)]
        choices = [{"properties": {name: {"const": name}}} for name in names[:count]]
        map_back = ArgumentMap(
            originals={"a": names[0]}, schema={"properties": {"p": {"items": {"anyOf": choices}}}}
        )
        began = time.thread_time()
        match way:
            case "names":
                cleaned_spec({"properties": dict.fromkeys(names, True)})
            case "values":
                cleaned_spec({"properties": {"p": {"enum": names}}})
            case "results":
                cleaned_json(dict.fromkeys(names, 1))
            case _:
                map_back.to_server({"p": [{"a": "a"}] * count})
        return time.thread_time() - began

    def linear(few: float, many: float) -> bool:
        return many < 80 * max(few, 0.001)  # 16 times, and quadratic 256 times

    few, many = fastest(lambda: seconds(1_000), lambda: seconds(16_000), until=linear)
    assert linear(few, many)


@pytest.mark.parametrize("key", ["description", "title", "$comment", "default", "examples", "enum", "x-note"])
async def test_a_schema_with_endless_texts(tmp_path: Path, key: str) -> None:
    """The model gets a short one, with the names of the arguments; the server's own checks the call."""
    text = "word " * 20_000
    value: JSON = (
        [f"{number} {text[:50]}" for number in range(2_500)] if key in ("enum", "examples") else text
    )
    properties: dict[str, JSON] = {"level": {"type": "string", key: value}, "other": {"type": "integer"}}
    async with attacked(tmp_path, tools=[[tool({"properties": properties})]]) as (bus, told):
        assert max(map(len, shown(bus))) < 50_000
        [look] = bus.tools()
        assert list(look.parameters["properties"]) == ["level", "other"]
        assert told == ["too long for a model, shortened: arguments (limits.description, limits.definition)"]
        assert not (await look.execute(level=value[0] if key == "enum" else "x")).is_error
        assert (await look.execute(level=5 if key != "enum" else "x", other="x")).is_error


async def test_a_schema_with_endless_arguments(tmp_path: Path) -> None:
    """The model gets a schema without details, and the server's own still checks the call."""
    properties = {f"argument{number}": {"type": "integer"} for number in range(1_400)}
    schema = {"properties": properties, "required": ["argument7"]}
    async with attacked(tmp_path, tools=[[tool(schema)]]) as (bus, _):
        assert max(map(len, shown(bus))) < 1_000
        [look] = bus.tools()
        assert not (await look.execute(argument7=1)).is_error
        assert (await look.execute(argument8=1)).is_error


async def test_endless_texts_beside_the_tools(tmp_path: Path) -> None:
    """Titles, prompts, resources and instructions are also short."""
    text = "word " * 20_000
    script: dict[str, Any] = {
        "tools": [[tool(title=text, annotations={"title": text, "readOnlyHint": True})]],
        "prompts": [
            {
                "name": "p",
                "title": text,
                "description": text,
                "arguments": [{"name": "x", "description": text}],
            }
        ],
        "resources": [
            {"uri": f"x://{text}{number}", "name": text, "description": text} for number in range(30)
        ],
        "instructions": text,
    }
    settings = {"resource_tools": "server", "prompt_tools": True}
    async with attacked(tmp_path, settings, **script) as (bus, told):
        assert len(bus.catalog.specs) == 3
        assert max(map(len, shown(bus))) < 50_000
        assert bus.catalog["a_look"].annotations == {"readOnlyHint": True}
        assert len(bus.instructions["a"]) < 10_010
        assert max(map(len, Toolbox([bus]).instructions())) < 2_500
        assert "its instructions are too long for a model and were shortened (limits.description)" in told
    async with attacked(tmp_path, {"resource_tools": True}, **script) as (bus, _):
        [listing] = [tool for tool in bus.tools() if tool.name == "list_resources"]
        assert len((await listing.execute()).text) <= 40_000


async def test_hidden_characters_beside_the_tools(tmp_path: Path) -> None:
    """Prompts, resources and instructions have none, and what the model names reaches the server."""
    evil = ZERO_WIDTH
    script: dict[str, Any] = {
        "prompts": [{"name": f"p{evil}", "description": f"d{evil}", "arguments": [{"name": f"x{evil}"}]}],
        "messages": [
            {"role": "user", "content": {"type": "text", "text": f"Hi{evil}"}},
            {"role": "user", "content": {"type": "resource_link", "uri": f"x://{evil}", "name": "n"}},
        ],
        "resources": [{"uri": f"x://a{evil}", "name": "a"}, {"uri": "x://b", "name": f"n{evil}"}],
        "instructions": f"Be{evil} kind.",
    }
    settings = {"resource_tools": "server", "prompt_tools": True}
    async with attacked(tmp_path, settings, **script) as (bus, told):
        for text in shown(bus):
            assert cleaned(text) is text
        assert bus.instructions == {"a": "Be kind."}
        assert REMOVED.format("instructions") in told
        [prompt, reading] = sorted(bus.tools(), key=lambda tool: tool.name)
        assert reading.description == "Reads a resource of the server 'a'. It has x://b (n)."
        assert "resources not listed for models, because their URIs have hidden characters: 1" in told
        result = await prompt.execute(x="1")
        assert (result.is_error, cleaned(str(result.content))) == (False, str(result.content))
        sent = messages(await bus.get_prompt("a", f"p{evil}"))
        assert evil not in str(sent)
        assert "Hi" in str(sent)


@pytest.mark.parametrize("kind", ["protocol", "result", "structured"])
async def test_an_error_with_endless_and_hidden_text(tmp_path: Path, kind: str) -> None:
    """The model gets a short text without hidden characters."""
    text = f"bad{ZERO_WIDTH} " * 100_000
    results: dict[str, dict[str, Any]] = {
        "protocol": {"error": {"code": -32000, "message": text, "data": {"more": text}}},
        "result": {"content": [{"type": "text", "text": text}], "isError": True},
        "structured": {"content": [], "structuredContent": {"x": text}, "isError": True},
    }
    async with attacked(tmp_path, tools=[[tool()]], results={"look": results[kind]}) as (bus, _):
        [look] = bus.tools()
        answer = await look.execute()
        assert answer.is_error
        assert len(answer.text) <= (10_100 if kind == "protocol" else 40_000)
        assert cleaned(answer.text) is answer.text


@pytest.mark.parametrize("kind", HIDDEN)
async def test_a_long_result_with_escaped_hidden_characters(tmp_path: Path, kind: str) -> None:
    """They do not become hidden ones when the result is shortened."""
    text = json.dumps({"evil": HIDDEN[kind], HIDDEN[kind]: "\ud800", "long": "x" * 100_000})
    result = {"content": [{"type": "text", "text": text}]}
    async with attacked(tmp_path, tools=[[tool()]], results={"look": result}) as (bus, _):
        [look] = bus.tools()
        answer = await look.execute()
        assert len(answer.text) <= 40_000
        assert cleaned(answer.text) is answer.text
        assert json.loads(answer.text)["evil"] == ""
        answer.text.encode()


MIB = 2**20
SLOW: dict[str, dict[str, Any]] = {
    "a text that is half hidden": {"content": [{"type": "text", "text": f"a{ZERO_WIDTH}" * (MIB // 4)}]},
    "a text of JSON": {"content": [{"type": "text", "text": f"[{'[],' * (MIB // 3)}1]"}]},
    "many texts": {"content": [], "structuredContent": {"x": [f"a{ZERO_WIDTH}"] * (MIB // 7)}},
    "many names": {
        "content": [],
        "structuredContent": {f"a{ZERO_WIDTH * (n % 99)}b{ZERO_WIDTH * (n // 99)}": 1 for n in range(5_000)},
    },
    "many blocks": {"content": [{"type": "text", "text": f"a{ZERO_WIDTH}"}] * (MIB // 40)},
}


@pytest.mark.parametrize("kind", sampled(list(SLOW), "a text that is half hidden", "many names"))
async def test_a_long_result_that_takes_long_to_clean(tmp_path: Path, kind: str) -> None:
    """The loop is free meanwhile: preparing it for the model takes none of the loop's time."""
    result = SLOW[kind]
    async with attacked(tmp_path, tools=[[tool()]], results={"look": result}) as (bus, _):
        [look] = bus.tools()

        async def loop_time(call: Callable[[], Awaitable[ToolResult]]) -> float:
            began = time.thread_time()
            assert not (await call()).is_error
            return time.thread_time() - began

        # A program gets it as it arrives, without any preparation.
        raw, prepared = 0.0, float("inf")
        for _ in range(3):
            raw = max(raw, await loop_time(lambda: bus.call("a_look")))
            prepared = min(prepared, await loop_time(look.execute))
            if prepared < raw + 0.05:
                break
        assert len((await look.execute()).text) <= 40_000
        assert prepared < raw + 0.05
