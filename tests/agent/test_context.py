"""The model's context before it begins: instructions of servers, and resources of the config."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest
from mcp.server.mcpserver import MCPServer
from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart

from tests.agent.stage import final, scripted, talking
from tests.context.shelf import Shelf
from tests.patience import PATIENCE
from tests.servers.asking import asking
from tests.servers.everyday import PNG, everyday
from tests.wire.asked import Wire
from toolbus import Toolbus
from toolbus.agent import Agent
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["modern", "legacy"])
GREETING = '<resource server="desk" uri="memo://greeting">\nhello\n</resource>'
KIND = "How to use the tools of 'desk':\nBe kind."
TEA = "memo://tea"


def with_context(server: Any, uri: str, **more: Any) -> dict[str, Any]:
    return {"servers": {"desk": server}, "context": [{"server": "desk", "uri": uri}], **more}


def told(agent: Agent) -> list[str | None]:
    """The system prompt of every request."""
    last = [messages[-1] for messages in scripted(agent).requests]
    return [message.instructions for message in last if isinstance(message, ModelRequest)]


def framed(text: str) -> str:
    return f'<resource server="desk" uri="{TEA}">\n{text}\n</resource>'


@pytest.mark.parametrize("wire", get_args(Wire))
async def test_every_provider_gets_instructions_and_context_in_the_same_words(wire: Wire) -> None:
    servers = with_context({"server": everyday()}, "memo://greeting")
    async with talking(wire, ["One.", "Two."], mcp_servers=servers, instructions="Count.") as (agent, model):
        await final(agent.send("Go."))
        await final(agent.send("On."))
    first, second = (asked.system for asked in model.asked)
    assert first == second
    places = [first.index(text) for text in ("Count.", KIND, GREETING)]
    assert places == sorted(places)


@pytest.mark.parametrize("how", ["own", "bus", "tools"])
async def test_it_is_told_of_every_bus_that_an_agent_has(how: str) -> None:
    config = with_context({"server": everyday()}, "memo://greeting")
    async with Toolbus(config) as bus:
        options: dict[str, Any] = {
            "own": {"mcp_servers": config},
            "bus": {"tools": [bus]},
            "tools": {"tools": bus.tools()},
        }[how]
        async with Agent(ScriptedModel(["Ok."]), **options) as agent:
            await final(agent.send("Go."))
        assert bus.running
    assert told(agent) == [f"{KIND}\n\n{GREETING}"]


@eras
async def test_the_context_is_as_it_is_when_a_run_begins(era: str) -> None:
    full = Shelf({TEA: "Green."})
    async with Toolbus(with_context(full.config(era), TEA)) as bus:
        async with Agent(ScriptedModel(["Ok."] * 3), tools=[bus]) as agent:
            await final(agent.send("Go."))
            await final(agent.send("Go."))
            await full.change(TEA, "Black.", bus)
            await final(agent.send("Go."))
        assert full.subscribed == set(), "an agent that is closed wants to hear of nothing"
    assert told(agent) == [framed("Green."), framed("Green."), framed("Black.")]
    assert full.reads == {TEA: 2}


async def test_a_run_keeps_what_it_began_with() -> None:
    full = Shelf({TEA: "Green."})
    async with Toolbus(with_context(full.config("modern"), TEA)) as bus:

        async def brew() -> str:
            await full.change(TEA, "Black.", bus)
            return "brewed"

        agent = Agent(ScriptedModel([ToolCall("brew"), "Ok."]), tools=[bus, brew])
        await final(agent.send("Go."))
    assert told(agent) == [framed("Green.")] * 2


async def test_a_server_that_comes_up_later_counts() -> None:
    full = Shelf({TEA: "Green."})
    async with Toolbus(with_context(full.config("modern"), TEA)) as bus:
        agent = Agent(ScriptedModel(["Ok.", "Ok."]), tools=[bus])
        await final(agent.send("Go."))
        await bus.add_server("late", {"server": everyday()})
        await final(agent.send("Go."))
    assert told(agent) == [framed("Green."), f"{KIND.replace('desk', 'late')}\n\n{framed('Green.')}"]


async def test_instructions_are_clean_in_bounds_and_can_be_left_out() -> None:
    server: MCPServer = MCPServer("wordy", instructions="Be\u200b kind. " + "And brief. " * 500)

    @server.tool()
    def nod() -> str:
        """Agree."""
        return "yes"

    async with Toolbus({"servers": {"wordy": {"server": server}}}) as bus:
        agent = Agent(ScriptedModel(["Ok."]), tools=[bus])
        await final(agent.send("Go."))
        silent = Agent(ScriptedModel(["Ok."]), tools=[bus], server_instructions=False)
        await final(silent.send("Go."))
    [said] = told(agent)
    assert said is not None
    head, _, body = said.partition("\n")
    assert (head, body.startswith("Be kind. And brief."), len(body) <= 2_000) == (
        "How to use the tools of 'wordy':",
        True,
        True,
    )
    assert "left out" in body
    assert told(silent) == [None]


async def test_a_dead_server_does_not_stop_a_run() -> None:
    servers = with_context({"server": everyday()}, "memo://greeting")
    servers["servers"]["dead"] = {"command": "no-such-program"}
    servers["context"].append({"server": "dead", "uri": "a://b"})
    async with Agent(ScriptedModel(["Ok."]), mcp_servers=servers) as agent, asyncio.timeout(PATIENCE):
        assert await final(agent.send("Go.")) == "Ok."
    assert told(agent) == [f"{KIND}\n\n{GREETING}"]


@pytest.fixture
async def desk() -> AsyncIterator[Toolbus]:
    async with Toolbus({"servers": {"asking": {"server": asking()}}}) as bus:
        yield bus


async def test_pictures_and_resources_of_a_prompt_are_kept(desk: Toolbus) -> None:
    agent = Agent(ScriptedModel(["Done."]), tools=[desk])
    await agent.use_prompt("asking", "review", {"language": "go", "code": "x := 1"})
    await final(agent.send("Begin."))
    first = scripted(agent).requests[0][0]
    assert isinstance(first, ModelRequest)
    [part] = [part for part in first.parts if isinstance(part, UserPromptPart)]
    assert part.content == [
        "Review this go: x := 1",
        BinaryContent(PNG, media_type="image/png"),
        "[resource: code://guide, text/plain]\nBe kind.",
    ]


@pytest.mark.parametrize("wire", get_args(Wire))
async def test_every_provider_gets_the_picture_of_a_prompt(wire: Wire, desk: Toolbus) -> None:
    async with talking(wire, ["Done."], tools=[desk]) as (agent, model):
        await agent.use_prompt("asking", "review", {"language": "go"})
        await final(agent.send("Begin."))
    assert model.asked[0].images == (PNG,)
    assert "Be kind." in str(model.asked[0].body)
