"""An agent leaves nothing behind: no task, no open client, and no loop that it depends on."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.agent.stage import MODELS, final, provided
from tests.conftest import SERVERS
from tests.patience import PATIENCE, until
from tests.servers.everyday import everyday
from tests.wire import ToolCall as WireCall
from tests.wire.asked import Wire
from toolbus import BusClosed, Toolbus
from toolbus.agent import Agent, ToolCalled, generate
from toolbus.testing import ScriptedModel, ToolCall


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def in_a_loop(work: Any) -> Any:
    """Run in a loop of its own, with debugging on: an awaitable that is forgotten there is a warning."""
    with asyncio.Runner(debug=True) as runner:
        said = runner.run(asyncio.wait_for(work, PATIENCE))
    gc.collect()
    return said


@pytest.mark.parametrize("wire", list(MODELS))
def test_a_client_is_closed_with_its_agent_and_every_loop_has_its_own(wire: Wire) -> None:
    script = [[WireCall("double", {"number": 4})], "It is 8."] * 2
    with provided(script):
        for _ in range(2):
            assert in_a_loop(generate(MODELS[wire], "Go.", tools=[double])) == "It is 8."


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("wire", list(MODELS))
def test_one_agent_may_be_used_in_one_loop_after_another(wire: Wire) -> None:
    """It is not closed in between, so a connection of the first loop is left to the garbage collector."""

    async def closed() -> str:
        async with agent:
            return await agent.send("Again.").final

    with provided([[WireCall("double", {"number": 4})], "It is 8.", "Still 8."]):
        agent = Agent(MODELS[wire], tools=[double])
        assert in_a_loop(answer(agent, "Go.")) == "It is 8."
        assert in_a_loop(closed()) == "Still 8."
    assert len(agent.history) == 6


async def answer(agent: Agent, prompt: str) -> str:
    """The answer, inside a loop."""
    return await agent.send(prompt).final


def test_sends_queue_in_every_loop() -> None:
    async def both() -> list[str]:
        return await asyncio.gather(*(answer(agent, word) for word in ("1", "2")))

    agent = Agent(ScriptedModel(["One.", "Two.", "Three.", "Four."]))
    assert in_a_loop(both()) == ["One.", "Two."]
    assert in_a_loop(both()) == ["Three.", "Four."]


def test_servers_of_an_agent_end_with_their_loop() -> None:
    agent = Agent(ScriptedModel(["One.", "Two."]), mcp_servers={"desk": {"server": everyday()}})
    assert in_a_loop(answer(agent, "1")) == "One."
    with pytest.raises(BusClosed, match="event loop of the agent's servers has ended"):
        in_a_loop(answer(agent, "2"))


@pytest.mark.anyio
async def test_many_runs_leave_no_task() -> None:
    before = asyncio.all_tasks()
    async with Toolbus({"servers": {"desk": {"server": everyday()}}}) as bus:
        within = asyncio.all_tasks()
        for _ in range(20):
            script = [[ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("double", {"number": 1})], "Done."]
            async with Agent(ScriptedModel(script), tools=[bus, double]) as agent:
                run = agent.send("Go.")
                async for event in run:
                    if isinstance(event, ToolCalled):
                        break  # nobody listens any more
                assert await final(run) == "Done."
        assert asyncio.all_tasks() == within
    assert asyncio.all_tasks() == before


@pytest.mark.anyio
async def test_closing_waits_for_the_runs_that_it_stops() -> None:
    cleaned: list[str] = []
    reached = asyncio.Event()

    async def hang() -> str:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("cleaned")
        return "never"

    before = asyncio.all_tasks()
    async with Agent(ScriptedModel([ToolCall("hang"), "No."]), tools=[hang]) as agent:
        runs = [agent.send("Go."), agent.send("And then.")]
        await asyncio.wait_for(reached.wait(), PATIENCE)
    assert cleaned == ["cleaned"]
    assert asyncio.all_tasks() == before
    for run in runs:
        with pytest.raises(asyncio.CancelledError):
            await run.final


@pytest.mark.anyio
async def test_an_agent_that_fails_to_connect_leaves_nothing_behind() -> None:
    broken: dict[str, Any] = {"command": "no-such-program", "required": True}
    fine: dict[str, Any] = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    async with Agent(ScriptedModel(["One."]), mcp_servers={"broken": broken, "fine": fine}) as agent:
        with pytest.raises(Exception, match="no-such-program"):
            await final(agent.send("Go."))


@pytest.mark.anyio
async def test_a_server_that_fails_hurts_only_itself() -> None:
    config: dict[str, Any] = {"broken": {"command": "no-such-program"}, "desk": {"server": everyday()}}
    model = ScriptedModel([ToolCall("desk_add", {"a": 1, "b": 2}), "It is 3."])
    assert await generate(model, "Go.", mcp_servers=config) == "It is 3."


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_while_servers_start_leaves_them_to_the_next_one(
    tmp_path: Path,
) -> None:
    waits = "touch begun; while [ ! -e go ]; do sleep 0.02; done"
    server = f"{waits}; exec {warm.python()} {SERVERS / 'plain.py'}"
    plain = {"command": "sh", "args": ["-c", server], "cwd": str(tmp_path)}
    model = ScriptedModel([ToolCall("plain_echo", {"text": "tea"}), lambda results: results[-1]])
    async with Agent(model, mcp_servers={"plain": plain}) as agent:
        first = agent.send("Go.")
        await until((tmp_path / "begun").exists)
        await first.close()
        (tmp_path / "go").touch()
        assert await final(agent.send("Again.")) == "tea"


@pytest.mark.anyio
async def test_an_agent_can_be_closed_while_its_servers_start(tmp_path: Path) -> None:
    server = {"command": "sh", "args": ["-c", "touch begun; sleep 600"], "cwd": str(tmp_path)}
    agent = Agent(ScriptedModel([]), mcp_servers={"slow": server})
    agent.send("Go.")
    await until((tmp_path / "begun").exists)
    await asyncio.wait_for(agent.close(), PATIENCE)
    with pytest.raises(BusClosed):
        agent.send("Again.")
