"""A result for a model: within its budget, clean, and readable as a whole."""

import base64
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Place, plain
from tests.inside.shape import DIALECTS
from tests.servers.everyday import everyday
from toolbus import ConfigError, Tool, Toolbus, ToolNotFound, connect_mcp
from toolbus.config import load_server
from toolbus.events import CatalogChanged, Event, Warned
from toolbus.records import Text

pytestmark = pytest.mark.anyio


def tool(bus: Toolbus, name: str) -> Tool:
    [found] = [tool for tool in bus.tools() if tool.name == name]
    return found


async def test_a_long_result_is_cut_for_a_model_and_can_be_read_on(place: Place) -> None:
    told: list[Event] = []
    async with Toolbus({"servers": {"day": place.config(budget=1000)}}, on_event=told.append) as bus:
        assert "read_result" not in bus.catalog
        cut = await tool(bus, "day_big").execute(size=50_000)
        whole = await bus.call("day_big", {"size": 50_000})
        read = tool(bus, "read_result")
        first = await read.execute(id=cut.meta["toolbus"]["kept_as"], offset=0, limit=2000)
        wrong = await read.execute(id="r99")

    assert len(cut.text) <= 1000
    assert "read_result" in cut.text
    assert cut.meta["toolbus"]["kept_as"] in cut.text
    assert cut.meta["toolbus"]["characters"] == len(whole.text)
    assert len(whole.text) >= 50_000
    assert whole.text[:1900] in first.text
    assert "r99" in wrong.text
    changes = [event.added for event in told if isinstance(event, CatalogChanged)]
    assert changes[-1] == ("read_result",)


async def test_a_budget_may_be_said_for_all_for_a_server_and_for_a_tool() -> None:
    servers = {
        "a": {"server": everyday(), "override": {"big": {"budget": {"tokens": 300}}}},
        "b": {"server": everyday(), "budget": False},
        "c": {"server": everyday()},
    }
    async with Toolbus({"servers": servers, "budget": 3000}) as bus:
        lengths = [len((await tool(bus, f"{alias}_big").execute(size=20_000)).text) for alias in "abc"]
        unset = [len((await tool(bus, "a_echo").execute(text="x" * 5000)).text)]

    assert lengths[0] <= 1200
    assert lengths[1] >= 20_000
    assert 2000 < lengths[2] <= 3000
    assert unset[0] <= 3000


async def test_results_are_bounded_unless_somebody_says_otherwise() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        result = await tool(bus, "day_big").execute(size=1_000_000)

    assert len(result.text) <= 40_000


async def test_structured_content_that_is_cut_is_json_still() -> None:
    notes = {"notes": [{"id": number, "text": "word " * 40} for number in range(200)]}
    async with Toolbus({"servers": {"day": {"server": everyday(), "budget": 2000}}}) as bus:
        result = await tool(bus, "day_echo").execute(text=json.dumps(notes))

    assert len(result.text) <= 2000
    assert json.loads(result.text)["notes"][0]["id"] == 0


@pytest.mark.parametrize(
    "naming",
    [{"naming": "{tool}"}, {"prefix": ""}, {"prefix": "read"}, {"override": {"*": {"name": "read_result"}}}],
)
async def test_no_tool_of_a_server_takes_the_name_read_result(naming: dict[str, Any]) -> None:
    server = everyday()

    @server.tool(name="read_result", structured_output=False)
    def read_result() -> str:
        """Of the server."""
        return "the server's"

    @server.tool(name="result", structured_output=False)
    def result() -> str:
        """`read_result` behind the prefix `read`."""
        return "the server's"

    own = {key: value for key, value in naming.items() if key != "naming"}
    shared = {key: value for key, value in naming.items() if key == "naming"}
    async with Toolbus({"servers": {"day": {"server": server, "budget": 500, **own}}, **shared}) as bus:
        before = bus.catalog["day/read_result"].name
        cut = await Tool(bus.catalog["day/big"], bus).execute(size=5000)
        ours = await bus.call("read_result", {"id": cut.meta["toolbus"]["kept_as"]})
        theirs = await bus.call(before)

    assert "characters" in ours.text
    assert theirs.text == "the server's"


async def test_a_registry_and_a_prefix_leave_read_result_to_the_bus() -> None:
    class Names(list[str]):
        def add_tool(self, tool: Tool) -> None:
            self.append(tool.name)

    everything = Names()
    async with connect_mcp(everyday(), alias="day") as day:
        await tool(day.bus, "echo").execute(text="long " * 20_000)
        day.bus.register_into(everything, transform=lambda spec: replace(spec, name="read_result"))
        listed = await day.list_tools(prefix="fs")

    assert everything.count("read_result") == 1
    assert [one.name for one in listed if one.server == "toolbus"] == ["read_result"]


@pytest.mark.parametrize("alias", ["toolbus", "Toolbus", "TOOLBUS", " toolbus ", "toolbus_", "\uff54oolbus"])
async def test_no_server_passes_for_the_bus(alias: str) -> None:
    server: Any = {"server": everyday()}
    with pytest.raises(ConfigError, match="'toolbus' is reserved for the tools of toolbus itself"):
        Toolbus({"servers": {alias: server}})
    with pytest.raises(ConfigError, match="prefix: 'toolbus' is reserved"):
        Toolbus({"servers": {"day": {**server, "prefix": alias}}})
    async with Toolbus({"servers": {}}) as bus:
        for added in (server, load_server(server)):
            with pytest.raises(ConfigError, match="alias: 'toolbus' is reserved"):
                await bus.add_server(alias, added)


async def test_a_model_gets_no_base64_as_text_and_a_program_does() -> None:
    picture = "iVBORw0KGgo" + "Ab1/" * 200
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        raw = await bus.call("day_echo", {"text": f"here: {picture}"})
        result = await tool(bus, "day_echo").execute(text=f"here: {picture}")

    assert raw.text == f"here: {picture}"
    assert result.text == "here: [base64: image/png, 608 B]"


async def test_what_was_kept_is_gone_with_the_bus() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday(), "budget": 500}}}) as bus:
        await tool(bus, "day_big").execute(size=5000)
    async with Toolbus({"servers": {"day": {"server": everyday(), "budget": 500}}}) as other:
        with pytest.raises(ToolNotFound):
            await other.call("read_result", {"id": "r1"})


async def test_hidden_characters_in_a_result_never_reach_a_model_and_are_told_once() -> None:
    told: list[Event] = []
    text = "plain \u202eoverride\u202c \x1b[31mred\x1b[0m \U000e0041tag"
    async with Toolbus({"servers": {"day": {"server": everyday()}}}, on_event=told.append) as bus:
        results = [await tool(bus, "day_echo").execute(text=text) for _ in range(2)]
        raw = await bus.call("day_echo", {"text": text})

    assert [result.content for result in results] == [(Text(text="plain override red tag"),)] * 2
    assert raw.text == text
    warnings = [(event.tool, event.message) for event in told if isinstance(event, Warned)]
    assert warnings == [("echo", "invisible or control characters were removed from a result")]


async def test_an_error_of_a_server_is_clean_too() -> None:
    async with Toolbus({"servers": {"p": plain("refuse_loudly")}}) as bus:
        result = await tool(bus, "p_echo").execute(text="x")

    assert result.is_error
    assert "\x1b" not in result.text
    assert "no such thing" in result.text


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_definition_is_what_the_provider_takes_and_yours_to_change(dialect: Any) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        add = tool(bus, "day_add")
        definition = add.definition(dialect)
        definition.clear()
        again = add.definition(dialect)

    assert "day_add" in json.dumps(again)
    assert not definition


async def test_options_reach_the_definition() -> None:
    config = {"server": everyday(), "override": {"add": {"options": {"openai": {"strict": True}}}}}
    async with Toolbus({"servers": {"day": config}}) as bus:
        function = tool(bus, "day_add").definition("openai")["function"]

    assert function["strict"] is True
    assert function["parameters"]["additionalProperties"] is False


async def test_an_argument_that_a_provider_knows_under_another_name_comes_back() -> None:
    async with Toolbus({"servers": {"p": plain("odd_names")}}) as bus:
        [echo] = bus.tools()
        [known_as] = echo.definition("anthropic")["input_schema"]["properties"]
        result = await echo.execute(**{known_as: "hello"})

    assert known_as != "the text!"
    assert result.text == "hello"


async def test_what_a_dialect_cannot_say_is_a_warning() -> None:
    told: list[Event] = []
    async with Toolbus({"servers": {"p": plain("unsayable")}}, on_event=told.append) as bus:
        [unsayable] = bus.tools()
        unsayable.definition("google")
        unsayable.definition("google")

    warnings = [event for event in told if isinstance(event, Warned)]
    assert [(event.server, event.tool) for event in warnings] == [("p", "echo")]
    assert warnings[0].message.startswith("google cannot express all of its schema: ")


async def test_base64_in_a_text_is_within_the_budget_too_and_can_be_read() -> None:
    wall = base64.b64encode(random.Random(7).randbytes(9000)).decode()
    async with Toolbus({"servers": {"day": {"server": everyday(), "budget": 400}}}) as bus:
        result = await tool(bus, "day_echo").execute(text=f"see {wall} end")
        read = await tool(bus, "read_result").execute(id=result.meta["toolbus"]["kept_as"], limit="50")
        wrong = await tool(bus, "read_result").execute(count=1)

    assert len(result.text) < 400
    assert wall[:40] in read.text
    assert (wrong.is_error, "argument 'id' is missing" in wrong.text) == (True, True)
