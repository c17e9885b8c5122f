"""Programs that share a store, and a program that was changed between two executions of a run."""

import asyncio
from pathlib import Path

import pytest

from tests.durable.stage import ended, settings
from tests.patience import PATIENCE
from toolbus.agent import Agent
from toolbus.agent.durable import RunFailed, Runs, RunStoreError
from toolbus.testing import ScriptedModel, ToolCall, Turn

pytestmark = pytest.mark.anyio
TURNS: list[Turn] = [ToolCall("pay", {"amount": 5}), lambda results: results[-1]]


class Payments:
    """A function that pays, and never ends."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.begun = asyncio.Event()

    async def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.made.append(amount)
        self.begun.set()
        await asyncio.Event().wait()
        return ""


def look() -> str:
    """Look at something."""
    return "seen"


def count() -> str:
    """Count something else."""
    return "1"


async def interrupted(folder: Path, payments: Payments) -> None:
    """Begin the run `k`, and end in the middle of its payment."""
    own = settings(folder, drain=0.01)
    async with Agent(ScriptedModel(TURNS), tools=[payments.pay, look], durable=own) as agent:
        agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await payments.begun.wait()


async def test_another_program_of_the_same_name_does_not_take_its_runs(tmp_path: Path) -> None:
    payments = Payments()
    await interrupted(tmp_path, payments)
    for other in ([count], []):
        async with Agent(ScriptedModel(["Mine."]), tools=other, durable=settings(tmp_path)) as agent:
            with pytest.raises(RunStoreError, match="another program") as refused:
                await ended(agent.start("Go.", key="other"))
    assert "(with look, pay), and has runs that have not ended (k)" in str(refused.value)
    assert "Durable(agent=..., version=...), --agent, --version" in str(refused.value)
    named = settings(tmp_path, agent="other")
    async with Agent(ScriptedModel(["Mine."]), tools=[count], durable=named) as agent:
        assert await ended(agent.start("Go.", key="other")) == "Mine."
        assert (await agent.runs.get("k")).status == "queued"
    own = settings(tmp_path)  # the program has one more tool now
    async with Agent(ScriptedModel(TURNS), tools=[payments.pay, look, count], durable=own) as agent:
        assert (await ended(agent.join("k"))).startswith("outcome unknown")
    async with Agent(ScriptedModel(["Mine."]), durable=own) as agent:
        assert await ended(agent.start("Go.", key="last")) == "Mine.", "nobody uses the name any more"
    assert payments.made == [5]


async def test_an_agent_whose_name_is_taken_does_not_stop_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await interrupted(tmp_path, Payments())
    elsewhere = Runs(settings(tmp_path, agent="other"))
    await elsewhere.start("Go.", key="o")
    refused, named = settings(tmp_path), settings(tmp_path, agent="other")
    async with (
        Agent(ScriptedModel([]), tools=[count], durable=refused),
        Agent(ScriptedModel(["Mine."]), tools=[count], durable=named),
        asyncio.timeout(PATIENCE),
    ):
        assert (await elsewhere.wait("o")).output == "Mine.", "both only wait"
    await elsewhere.close()
    assert "this program executes no durable runs: the store of runs" in caplog.text


async def test_a_program_that_lacks_a_recorded_tool_leaves_the_run_to_the_earlier_one(tmp_path: Path) -> None:
    payments = Payments()
    await interrupted(tmp_path, payments)
    async with Agent(ScriptedModel(TURNS), tools=[look], durable=settings(tmp_path)) as agent:
        with pytest.raises(RunFailed, match="has called 'pay', and no live worker has it;") as failed:
            await ended(agent.join("k"))
        assert "'toolbus runs resume k' continues it" in str(failed.value)
        assert not any(word in str(failed.value) for word in ("DBOS", "intent"))
    async with Agent(ScriptedModel(TURNS), tools=[payments.pay, look], durable=settings(tmp_path)) as agent:
        await agent.runs.retry("k")
        assert (await ended(agent.join("k"))).startswith("outcome unknown")
    assert payments.made == [5]
