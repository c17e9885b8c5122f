"""The fake server that users test their agents with: it behaves the same in both eras."""

import asyncio
import logging
import subprocess
import sys
import threading
from typing import Any, Literal

import pytest

from tests.gateway.driving import client_of, gateway_over, text_of
from tests.patience import PATIENCE, until
from toolbus import (
    Answer,
    CallTimeout,
    ConnectionLost,
    Elicitation,
    Interactions,
    ServerRejected,
    Toolbus,
    ToolNotFound,
    connect_mcp,
)
from toolbus.events import CatalogChanged, StateChanged
from toolbus.sync import connect_mcp as connect_and_wait
from toolbus.testing import FakeServer, ToolCall

pytestmark = pytest.mark.anyio
Era = Literal["modern", "legacy"]


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Say it louder."""
    if not text:
        raise ValueError("nothing to say")
    return text.upper()


def bus_of(fake: FakeServer, era: Era, **options: Any) -> Toolbus:
    return Toolbus({"servers": {"x": {"server": fake, "era": era}}}, **options)


async def test_functions_become_tools_with_their_schemas_and_calls_are_recorded(era: Era) -> None:
    fake = FakeServer([add, shout])
    async with bus_of(fake, era) as bus:
        spec = bus.tool("x/add").spec
        results = [await bus.call("x_add", {"a": 1}), await bus.call("x_shout", {"text": "hi"})]
        failed = await bus.call("x_shout", {"text": ""})
        assert bus.servers["x"].era == era
    assert spec.description == "Add two numbers."
    assert (spec.input_schema["required"], list(spec.input_schema["properties"])) == (["a"], ["a", "b"])
    assert [result.data for result in results] == [{"result": 1}, {"result": "HI"}]
    assert failed.text == "ValueError: nothing to say"
    assert fake.calls == [
        ToolCall("add", {"a": 1}),
        ToolCall("shout", {"text": "hi"}),
        ToolCall("shout", {"text": ""}),
    ]


async def test_failures_happen_one_after_the_other_and_then_the_tool_works(era: Era) -> None:
    fake = FakeServer({"add": add})
    fake.fail("add", "disk full", times=2)
    fake.fail("add", "no such method", code=-32601)
    async with bus_of(fake, era) as bus:
        texts = [(await bus.call("x_add", {"a": 1})).text for _ in range(2)]
        with pytest.raises(ServerRejected, match="no such method") as rejected:
            await bus.call("x_add", {"a": 1})
        last = await bus.call("x_add", {"a": 1})
    assert texts == ["disk full", "disk full"]
    assert (rejected.value.code, last.is_error) == (-32601, False)


def test_what_a_fake_server_cannot_do_is_refused_with_the_way_to_do_it() -> None:
    with pytest.raises(ValueError, match=r"use crash\(\)"):
        FakeServer([add]).fail("add", code=-32000)
    with pytest.raises(TypeError, match="put it in a list"):
        FakeServer(add)  # pyright: ignore[reportArgumentType]


async def test_a_slow_tool_runs_into_the_timeout_of_the_caller(era: Era) -> None:
    fake = FakeServer({"add": add})
    fake.delay("add", PATIENCE)
    async with bus_of(fake, era) as bus:
        with pytest.raises(CallTimeout):
            await bus.call("x_add", {"a": 1}, timeout=0.05)
        fake.reset("add")
        assert (await bus.call("x_add", {"a": 1})).data == {"result": 1}


async def test_a_crash_is_a_lost_connection_that_is_made_again(era: Era) -> None:
    fake = FakeServer({"add": add})
    async with asyncio.timeout(PATIENCE), bus_of(fake, era) as bus:
        states = bus.events(StateChanged)
        fake.crash()
        seen = [await anext(states), await anext(states)]
        assert [event.state for event in seen] == ["retrying", "ready"]
        assert (await bus.call("x_add", {"a": 1})).data == {"result": 1}
        assert bus.servers["x"].restarts == 1


async def test_a_crash_in_a_call_leaves_its_outcome_unknown(era: Era) -> None:
    fake = FakeServer({"add": add})
    fake.crash("add")
    async with asyncio.timeout(PATIENCE), bus_of(fake, era) as bus:
        with pytest.raises(ConnectionLost) as lost:
            await bus.call("x_add", {"a": 1})
        assert lost.value.sent
        assert (await bus.call("x_add", {"a": 2})).data == {"result": 2}
    assert fake.calls == [ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2})]


async def test_two_clients_of_both_eras_see_the_same_changes() -> None:
    fake = FakeServer({"add": add})
    async with asyncio.timeout(PATIENCE), bus_of(fake, "modern") as new, bus_of(fake, "legacy") as old:
        for bus, events in ((new, new.events(CatalogChanged)), (old, old.events(CatalogChanged))):
            del bus
            threading.Thread(target=fake.add_tool, args=(shout,)).start()
            assert (await anext(events)).added == ("x_shout",)
            await until(lambda: all("x_shout" in each.catalog for each in (new, old)))
            fake.remove_tool("shout")
            await until(lambda: all("x_shout" not in each.catalog for each in (new, old)))


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_a_question_reaches_a_person_and_the_answer_decides(
    era: Era, action: Literal["accept", "decline"]
) -> None:
    fake = FakeServer({"add": add})
    fake.ask("add", "Really?", {"sure": bool, "why": {"type": "string", "minLength": 1}})
    asked: list[Elicitation] = []

    async def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        return question.accept({"sure": True, "why": "so"}) if action == "accept" else question.decline()

    async with bus_of(fake, era, interactions=Interactions(elicit=elicit)) as bus:
        result = await bus.call("x_add", {"a": 1})
    assert [(question.message, question.server) for question in asked] == [("Really?", "x")]
    assert [answer.action for answer in fake.answers] == [action]
    assert result.is_error is (action == "decline")
    assert fake.calls == [ToolCall("add", {"a": 1})]


async def test_a_call_through_the_gateway_is_as_a_direct_one(era: Era) -> None:
    fake = FakeServer({"add": add})
    fake.fail("add", "disk full")
    config = {"servers": {"x": {"server": fake, "era": era}}}
    asked = {"name": "x_add", "arguments": {"a": 1, "b": 2}}
    async with asyncio.timeout(PATIENCE), gateway_over(config) as gateway:
        client = await client_of(era, gateway)
        texts = [text_of(await client.request("tools/call", asked)) for _ in range(2)]
        fake.crash()
        texts.append(text_of(await client.request("tools/call", asked)))
    assert texts == ["disk full", "3", "3"]
    assert fake.calls == [ToolCall("add", {"a": 1, "b": 2})] * 3


async def test_it_is_a_server_for_connect_mcp_with_and_without_a_loop(era: Era) -> None:
    fake = FakeServer({"add": add})
    async with connect_mcp(fake, era=era) as awaited:
        assert (await awaited.call_tool("add", {"a": 1})).data == {"result": 1}

    def waits() -> object:
        with connect_and_wait(fake, era=era) as server:
            fake.crash()
            return [tool.name for tool in server.list_tools()], server.call_tool("add", {"a": 2}).data

    assert await asyncio.to_thread(waits) == (["add"], {"result": 2})


async def test_a_switch_of_an_unknown_tool_suggests_the_known_ones() -> None:
    fake = FakeServer({"add": add})
    for switch in (fake.fail, fake.crash, fake.reset, fake.remove_tool):
        with pytest.raises(ToolNotFound, match="did you mean 'add'"):
            switch("ad")


def test_it_needs_no_extra_and_sets_up_no_logging() -> None:
    program = (
        "import logging, sys; sys.modules['pydantic_ai'] = None\n"
        "from toolbus.testing import FakeServer, ToolCall\n"
        "print(FakeServer({'add': lambda a: a}), logging.root.handlers)\n"
        "import toolbus.testing\n"
        "try: toolbus.testing.ScriptedModel\n"
        "except ImportError as error: print(error.extra)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == "<FakeServer fake: add> []\nagent\n"
    assert not [handler for handler in logging.root.handlers if "rich" in type(handler).__module__]
