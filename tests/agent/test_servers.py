"""The agent with real MCP servers: in every era, killed and back again, with tools that come and go."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from pydantic import BaseModel

from tests import warm
from tests.agent.stage import changes, final, heard, provided, scripted
from tests.conftest import Place, web_server
from tests.patience import PATIENCE
from tests.servers.everyday import everyday
from tests.wire import Asked
from tests.wire import ToolCall as WireCall
from toolbus import Toolbus, connect_mcp
from toolbus.agent import Agent, Limits, Run, ToolCalled, ToolProgressed, ToolReturned, generate, stream
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

WHERE = [(transport, era) for transport in ("stdio", "http") for era in ("modern", "legacy")]
everywhere = pytest.mark.parametrize("place", WHERE, ids="-".join, indirect=True)
ERAS = ("modern", "legacy")
WHO = [ToolCall(f"{era}_process") for era in ERAS]
"""Asks the server of each era for its process."""


def desk(place: Place) -> dict[str, Any]:
    """The everyday server as `desk`."""
    return {"desk": place.config(timeouts={"call": 8})}


@everywhere
async def test_its_servers_are_connected_by_the_first_run_and_closed_with_the_agent(place: Place) -> None:
    model = ScriptedModel(
        [[ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_steps", {"count": 2})], "Ok."]
    )
    async with Agent(model, mcp_servers=desk(place)) as agent:
        events = await heard(agent.send("Go."))
    called = [(event.name, event.server) for event in events if isinstance(event, ToolCalled)]
    assert called == [("desk_add", "desk"), ("desk_steps", "desk")]
    steps = [event for event in events if isinstance(event, ToolProgressed)]
    assert [(step.name, step.progress, step.total, step.message) for step in steps] == [
        ("desk_steps", 1, 2, "step 1"),
        ("desk_steps", 2, 2, "step 2"),
    ]
    returned = {event.name: event.text for event in events if isinstance(event, ToolReturned)}
    assert returned == {"desk_add": "3", "desk_steps": "2 steps"}


async def test_without_servers_there_are_no_tools() -> None:
    async with Agent(ScriptedModel(["Alone."]), mcp_servers={}) as agent:
        assert await final(agent.send("Go.")) == "Alone."
    assert scripted(agent).offered == [[]]


async def test_servers_by_alias_are_urls_objects_and_models(web_ports: dict[str, int]) -> None:
    class Program(BaseModel):
        command: str = warm.python()
        args: list[str]

    servers = {
        "web": Place("http", "modern", web_ports).config()["url"],
        "here": everyday(),
        "process": Program(args=Place("stdio", "modern", web_ports).config()["args"]),
    }
    calls = [ToolCall(f"{alias}_add", {"a": 1, "b": 2}) for alias in servers]
    async with Agent(ScriptedModel([calls, "Done."]), mcp_servers=servers) as agent:
        run = agent.send("Go.")
        assert await final(run) == "Done."
    assert run.result is not None
    called = sorted((call.server, call.text) for call in run.result.calls)
    assert called == [("here", "3"), ("process", "3"), ("web", "3")]


async def test_a_fastmcp_server_is_an_object_too() -> None:
    open_files: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastMCP[Any]) -> AsyncGenerator[None]:
        open_files.append("log")
        yield
        open_files.clear()

    server = FastMCP("desk", instructions="Be kind.", lifespan=lifespan)

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add, while the server is up."""
        assert open_files == ["log"]
        return a + b

    async with Agent(
        ScriptedModel([ToolCall("desk_add", {"a": 1, "b": 2}), "3."]), mcp_servers={"desk": server}
    ) as agent:
        run = agent.send("Go.")
        assert await final(run) == "3."
    assert run.result is not None
    assert [(call.text, call.is_error) for call in run.result.calls] == [("3", False)]
    assert open_files == []


def going(results: list[str]) -> ToolCall:
    """Lets the processes vanish that were named."""
    return ToolCall("gone", {"processes": [int(process) for process in results]})


def until_back(results: list[str]) -> str | ToolCall | list[ToolCall]:
    """The turns of a patient model: it repeats a call that was in flight when a link was lost."""
    if results[-1] in ("gone", "back"):
        return WHO
    return "Back." if all(text.isdigit() for text in results[-2:]) else ToolCall("back")


async def played(servers: dict[str, Any], gone: Callable[[list[int]], str]) -> tuple[list[str], list[str]]:
    """The processes of the servers, before and after they were gone in mid-run."""
    async with Toolbus({"servers": servers}) as bus:

        async def back() -> str:
            """Wait until every server can be used."""
            happenings = bus.events()
            async with asyncio.timeout(PATIENCE):
                while any(status.state != "ready" for status in bus.servers.values()):
                    await anext(happenings)
            return "back"

        model = ScriptedModel([WHO, going, *[until_back] * 20])
        run = Agent(model, tools=[bus, gone, back]).send("Go.")
        assert await final(run) == "Back."
    assert run.result is not None
    texts = [call.text for call in run.result.calls]
    return texts[:2], texts[-2:]


async def test_processes_that_are_killed_in_mid_run_come_back(web_ports: dict[str, int]) -> None:
    def gone(processes: list[int]) -> str:
        for process in processes:
            os.kill(process, signal.SIGKILL)
        return "gone"

    servers = {era: Place("stdio", era, web_ports).config(timeouts={"call": 8}) for era in ERAS}
    before, after = await played(servers, gone)
    assert len({*before, *after}) == 4


async def test_a_web_server_that_is_killed_in_mid_run_and_started_again_is_found(tmp_path: Path) -> None:
    with ExitStack() as served:
        port = served.enter_context(web_server("http", tmp_path))

        def gone(processes: list[int]) -> str:
            os.kill(processes[0], signal.SIGKILL)
            served.close()
            served.enter_context(web_server("http", tmp_path, port))
            return "gone"

        servers = {era: Place("http", era, {"http": port}).config(timeouts={"call": 8}) for era in ERAS}
        before, after = await played(servers, gone)
    assert (len(set(before)), len(set(after)), len({*before, *after})) == (1, 1, 2)


@everywhere
async def test_a_tool_that_comes_and_goes_is_offered_and_withdrawn(place: Place) -> None:
    async with Toolbus({"servers": desk(place)}) as bus:
        name = f"fresh_{place.transport}_{place.era}"
        with changes(bus) as changed:
            model = ScriptedModel(
                [
                    ToolCall("desk_grow", {"name": name}),
                    ToolCall("changed"),
                    ToolCall(f"desk_{name}"),
                    ToolCall("desk_shrink", {"name": name}),
                    ToolCall("changed"),
                    ToolCall(f"desk_{name}"),
                    "Done.",
                ]
            )
            run = Agent(model, tools=[bus, changed]).send("Go.")
            assert await final(run) == "Done."
    assert run.result is not None
    offered = [f"desk_{name}" in names for names in model.offered]
    assert (offered[0], offered[2], offered[5]) == (False, True, False)
    calls = [call for call in run.result.calls if call.name == f"desk_{name}"]
    assert [call.is_error for call in calls] == [False, True]
    assert (calls[0].text, "Unknown tool name" in calls[1].text) == (f"I am {name}", True)


@pytest.mark.parametrize("place", WHERE[2:], ids="-".join, indirect=True)
async def test_a_chosen_tool_that_vanishes_is_withdrawn(place: Place) -> None:
    name = f"chosen_{place.transport}_{place.era}"
    async with Toolbus({"servers": desk(place)}) as bus:
        with changes(bus) as changed:
            await bus.call("desk_grow", {"name": name})
            await changed()
            script = [ToolCall("desk_shrink", {"name": name}), ToolCall("changed"), "Done."]
            agent = Agent(ScriptedModel(script), tools=[changed, *bus.tools()])
            assert await final(agent.send("Go.")) == "Done."
    assert [f"desk_{name}" in names for names in scripted(agent).offered] == [True, True, False]


async def test_a_tool_that_comes_is_offered_where_the_servers_belong_to_the_agent() -> None:
    def script(asked: Asked) -> str | list[WireCall]:
        if not asked.given:
            return [WireCall("desk_grow", {"name": "own"})]
        if asked.given[-1].text == "I am own":
            return "Found."
        # Every turn is a look at what there is now.
        return [WireCall("desk_own" if "desk_own" in asked.tools else "desk_hangs")]

    with provided(script):
        said = await asyncio.wait_for(
            generate(
                "openai-chat:gpt-5.1",
                "Go.",
                mcp_servers=desk(Place("memory", "modern", {})),
                limits=Limits(turns=300),
            ),
            PATIENCE,
        )
    assert said == "Found."


async def stopped_by_the_run(agent: Agent, run: Run[str], waiting: asyncio.Task[str]) -> None:
    run.cancel()


async def stopped_by_whoever_waits(agent: Agent, run: Run[str], waiting: asyncio.Task[str]) -> None:
    waiting.cancel()


async def stopped_with_the_agent(agent: Agent, run: Run[str], waiting: asyncio.Task[str]) -> None:
    await agent.close()


Stop = Callable[[Agent, Run[str], "asyncio.Task[str]"], Awaitable[None]]


STOPS = [
    *((where, stopped_by_the_run) for where in WHERE),
    (("http", "modern"), stopped_by_whoever_waits),
    (("http", "modern"), stopped_with_the_agent),
]


@pytest.mark.parametrize(("place", "stop"), STOPS, indirect=["place"])
async def test_a_run_that_is_stopped_cancels_its_calls_on_the_server(place: Place, stop: Stop) -> None:
    async with Toolbus({"servers": desk(place)}) as bus:
        begun, cancelled = await hangs(bus)
        agent = Agent(ScriptedModel([ToolCall("desk_hang"), "Too late."]), tools=[bus])
        run = agent.send("Go.")
        waiting = asyncio.create_task(final(run))
        await until_hangs(bus, (begun + 1, cancelled))
        await stop(agent, run, waiting)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_hangs(bus, (begun + 1, cancelled + 1))
        assert run.result is None


async def hangs(bus: Toolbus) -> tuple[int, int]:
    """The number of times that the server has begun and cancelled the call that never ends."""
    begun, cancelled = (await bus.call("desk_hangs")).text.split()
    return int(begun), int(cancelled)


async def until_hangs(bus: Toolbus, counts: tuple[int, int]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await hangs(bus) != counts:  # each look is a call, and lets others run
            pass


async def test_after_a_stop_the_model_is_told_what_was_interrupted() -> None:
    async with Toolbus({"servers": desk(Place("memory", "modern", {}))}) as bus:
        agent = Agent(ScriptedModel([ToolCall("desk_hang"), "I see."]), tools=[bus])
        run = agent.send("Go.")
        await until_hangs(bus, (1, 0))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run.final
        assert await final(agent.send("What happened?")) == "I see."
    assert "interrupted" in str(scripted(agent).requests[-1])


async def test_one_connection_is_a_source_of_tools_too(web_ports: dict[str, int]) -> None:
    entry = Place("http", "modern", web_ports).config()
    async with await connect_mcp(entry) as connection:
        agent = Agent(
            ScriptedModel([lambda _: ToolCall(connection.bus.tools()[0].name, {"a": 1, "b": 2}), "3."]),
            tools=[connection],
        )
        run = agent.send("Go.")
        assert await final(run) == "3."
    assert run.result is not None
    assert [call.text for call in run.result.calls] == ["3"]


@pytest.mark.parametrize("place", WHERE[:1], ids="-".join, indirect=True)
async def test_generate_and_stream_close_what_they_opened_also_after_a_failure(place: Place) -> None:
    with pytest.raises(AssertionError, match="the agent asked for another one"):
        await generate(
            ScriptedModel([ToolCall("desk_add", {"a": 1, "b": 2})]), "Go.", mcp_servers=desk(place)
        )
    pieces = stream(ScriptedModel(["One two three."]), "Go.", mcp_servers=desk(place))
    assert await anext(pieces) == "One"
    await pieces.aclose()
