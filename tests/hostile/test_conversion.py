"""Schemas that multiply when they are converted, shown, searched or counted."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import warm
from tests.budget import within_budget
from tests.cli.running import toolbus
from tests.conftest import sampled
from tests.gateway.console.opening import home_of
from tests.hostile.besieged import Besieged, besieged
from tests.hostile.multiplying import MULTIPLYING
from tests.inside.code import stub
from tests.inside.console import TypedArguments, form_widget
from tests.inside.schema import LEAST_STEPS, STEPS_PER_VALUE, Schema, expected, size_of, type_words
from tests.inside.shape import DIALECTS, converted, definition_tokens, described_schema
from tests.patience import PATIENCE
from tests.properties import modest
from tests.shape.providers import CHECKERS
from tests.shape.schemas import messy, tool

T = TypeVar("T")
ROOT = str(Path(__file__).parents[2])
VIEWS: dict[str, Any] = {"all": {}, "search": {"expose": "search"}, "code": {"expose": "code"}}
CALLS_PER_STEP = 25
"""The maximum number of function calls, including Python's own, for each step that a schema may take."""
MOST_MIB = 100
"""Memory for sixteen such tools and all that is made of them; docs/limits.md has it."""
some = pytest.mark.parametrize("name", sampled(list(MULTIPLYING), *list(MULTIPLYING)[::4]))


def server() -> dict[str, Any]:
    """The entry of a server with such tools."""
    return {
        "command": warm.python(),
        "args": ["-m", "tests.hostile.multiplying"],
        "cwd": ROOT,
        "era": "legacy",
    }


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """The result of the work, and the number of its calls: the same on every machine."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        return work(), calls
    finally:
        sys.setprofile(None)


def readings(schema: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Every way in which a schema is read for a model or a person."""

    def words() -> list[tuple[str, str]]:
        root = Schema(schema)
        return [(expected(root.of(part)), type_words(root.of(part))) for part in root.properties.values()]

    spec = tool(schema)
    return {
        **{dialect: lambda dialect=dialect: converted(spec, dialect).value for dialect in DIALECTS},
        "tokens": lambda: definition_tokens(spec),
        "stub": lambda: stub("t", spec).text,
        "form": lambda: str(form_widget(spec, TypedArguments.read(schema, None), "", {}, "")),
        "words": words,
        "in an error": lambda: described_schema(spec),
    }


def assert_linear(schema: dict[str, Any]) -> None:
    size = size_of(schema)
    most = LEAST_STEPS + STEPS_PER_VALUE * size
    for reading, read in readings(schema).items():
        made, calls = counted(read)
        providers = len(DIALECTS) if reading == "tokens" else 2  # strict mode is tried before the other one
        assert calls < CALLS_PER_STEP * providers * most, (reading, calls / most)
        assert size_of(made) < 20 * most, reading


@modest
@given(schema=messy, copies=st.integers(1, 300))
def test_any_schema_everywhere(schema: dict[str, Any], copies: int) -> None:
    """Reading any schema takes work in proportion to its size, and so does its result."""
    properties = {f"p{number}": {"$ref": "#/$defs/shared"} for number in range(copies)}
    assert_linear({"type": "object", "properties": properties, "$defs": {"shared": schema}})


@some
def test_a_schema_that_multiplies(name: str) -> None:
    """Reading it takes work in proportion to its size, in every dialect and on every page."""
    assert_linear(MULTIPLYING[name])
    for read in readings(MULTIPLYING[name]).values():
        within_budget(read)


def test_a_schema_that_takes_too_much_work() -> None:
    """A provider gets a schema that accepts any arguments and names them, and the loss is reported."""
    schema = {**MULTIPLYING["values everywhere"], "required": ["p0"]}
    most = LEAST_STEPS + STEPS_PER_VALUE * size_of(schema)
    for dialect in DIALECTS:
        definition = converted(tool(schema), dialect)
        if dialect == "mcp":
            assert definition.value["inputSchema"] == schema
            continue
        [lost] = [loss for loss in definition.losses if loss.kind == "permissive"]
        assert lost.what == f"it takes more than {most:,} steps to read; any arguments are accepted"
        function = definition.value.get("function", definition.value)
        shown = function.get("parameters") or function["input_schema"]
        assert list(shown["properties"]) == [f"p{number}" for number in range(50)]
        assert shown["description"] == "The schema of the arguments is too complex to be shown."
        assert CHECKERS[dialect](definition.value) == []
        assert "required" not in shown


class Client:
    """Somebody with a key for each view, and a browser that is signed in to the console."""

    def __init__(self, gateway: Besieged, folder: Path, views: Iterable[str]) -> None:
        made = {view: toolbus("key", "add", view, "--view", view, "--json", folder=folder) for view in views}
        keys = {view: json.loads(done.stdout)["key"] for view, done in made.items()}
        self._gateway = replace(gateway, keys=keys)
        self._home = ""
        self.browser = httpx2.AsyncClient(timeout=PATIENCE)
        self._entry = toolbus("console", "--print", folder=folder).stdout.strip()

    async def enter(self) -> None:
        entered = await self.browser.get(self._entry)
        self._home = home_of(self._entry.partition("?")[0], entered.headers["location"])

    async def page(self, path: str) -> str:
        answered = await self.browser.get(f"{self._home}/{path}")
        assert answered.status_code == 200, answered.text
        return answered.text

    async def asks(self, view: str, method: str, **params: Any) -> str:
        answered = await self._gateway.call(view, method, **params)
        assert "result" in answered.json(), answered.text
        return answered.text

    async def see_everything(self) -> None:
        names = [f"many_t{number}" for number in range(len(MULTIPLYING))]
        queries = {"queries": list(MULTIPLYING)}
        await asyncio.gather(
            self.page("tools?search=everywhere"),
            *(self.page(f"tools?tool={name}") for name in names),
            *(self.asks(view, "tools/list", cursor=None) for view in VIEWS),
            self.asks("search", "tools/call", name="search_tools", arguments=queries),
            self.asks("code", "tools/call", name="search_tools", arguments=queries),
            self.asks("code", "tools/call", name="run_code", arguments={"script": "\n".join(names)}),
        )


@pytest.mark.anyio
async def test_tools_that_multiply_behind_a_gateway(tmp_path: Path) -> None:
    """Pages, lists, searches and scripts of such tools delay nobody else, and take a bounded memory."""
    serve = {"views": VIEWS, "default_view": "all"}
    async with besieged(tmp_path, servers={"many": server()}, serve=serve) as gateway:
        client = await asyncio.to_thread(Client, gateway, tmp_path / "besieged", VIEWS)
        async with client.browser:
            await client.enter()
            cost = await gateway.cost(client.see_everything())
            catalog = await client.page("tools")
    cost.assert_bearable(mib=MOST_MIB)
    assert [name for name in range(len(MULTIPLYING)) if f"many_t{name}" not in catalog] == []


def test_the_tokens_of_tools_that_multiply(tmp_path: Path) -> None:
    """`toolbus tools --cost` ends, with a number for each of them."""
    file = tmp_path / "toolbus.yaml"
    file.write_text(json.dumps({"servers": {"many": server()}}))
    done = toolbus("tools", "--cost", "--json", "--config", str(file), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["tools"]) == len(MULTIPLYING)
