"""Every limit ends a run, says which it was, and leaves an agent that can be used."""

import asyncio
import threading

import pytest

from tests.agent.stage import final, told
from tests.patience import PATIENCE
from toolbus.agent import Agent, LimitReached, Limits
from toolbus.testing import ScriptedModel, ToolCall, Turn

pytestmark = pytest.mark.anyio


def again() -> str:
    """Once more."""
    return "again"


def broken() -> str:
    """Never works."""
    raise OSError("no")


AGAIN: Turn = ToolCall("again")


@pytest.mark.parametrize(
    ("limits", "script", "limit", "allowed"),
    [
        (Limits(turns=2), [AGAIN, AGAIN, "Done."], "turns", 2),
        (Limits(tool_calls=2), [AGAIN, AGAIN, AGAIN, "Done."], "tool_calls", 2),
        (Limits(tool_calls=2), [[ToolCall("again")] * 3, "Done."], "tool_calls", 2),
        (Limits(tool_calls=2), [ToolCall("broken")] * 3, "tool_calls", 2),
        (Limits(tokens=10), ["word " * 100], "tokens", 10),
    ],
    ids=["turns", "calls", "calls of one turn", "calls that fail", "tokens"],
)
async def test_a_limit_ends_the_run_and_is_named(
    limits: Limits, script: list[Turn], limit: str, allowed: float
) -> None:
    run = Agent(ScriptedModel(script), tools=[again, broken], limits=limits).send("Go.")
    with pytest.raises(LimitReached) as caught:
        await final(run)
    assert (caught.value.limit, caught.value.allowed) == (limit, allowed)
    assert f"Limits({limit}=...)" in str(caught.value)


async def test_the_last_that_is_allowed_is_done() -> None:
    limits = Limits(turns=3, tool_calls=2)
    agent = Agent(ScriptedModel([AGAIN, AGAIN, "Done."]), tools=[again], limits=limits)
    assert await final(agent.send("Go.")) == "Done."


async def test_no_call_of_a_turn_is_made_that_has_too_many() -> None:
    made: list[str] = []

    def note() -> str:
        made.append("made")
        return "made"

    agent = Agent(ScriptedModel([[ToolCall("note")] * 3]), tools=[note], limits=Limits(tool_calls=2))
    with pytest.raises(LimitReached):
        await final(agent.send("Go."))
    assert made == []


async def test_what_was_done_is_kept_and_the_agent_can_go_on() -> None:
    agent = Agent(ScriptedModel([AGAIN, "Done."]), tools=[again], limits=Limits(turns=1))
    with pytest.raises(LimitReached):
        await final(agent.send("Go."))
    assert told(agent.history) == ["user: Go.", "call: again {}", "result: again"]
    assert await final(agent.send()) == "Done."


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_time_is_up_also_while_a_function_runs(is_async: bool) -> None:
    release = threading.Event()
    returned: list[str] = []

    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    def block() -> str:
        release.wait(PATIENCE)
        returned.append("late")
        return "late"

    name = "hang" if is_async else "block"
    agent = Agent(ScriptedModel([ToolCall(name), "Here."]), tools=[hang, block], limits=Limits(seconds=0.2))
    try:
        with pytest.raises(LimitReached) as caught:
            await final(agent.send("Go."))
        assert (caught.value.limit, caught.value.allowed, returned) == ("seconds", 0.2, [])
        assert await final(agent.send("Still there?")) == "Here."
    finally:
        release.set()


async def test_a_run_that_waits_for_another_one_has_its_whole_time() -> None:
    released = asyncio.Event()

    async def hang() -> str:
        await released.wait()
        return "ok"

    agent = Agent(ScriptedModel([ToolCall("hang"), "One.", "Two."]), tools=[hang])
    first = agent.send("1", limits=Limits(seconds=None))
    second = agent.send("2", limits=Limits(seconds=1))
    asyncio.get_running_loop().call_later(1.2, released.set)
    assert [await final(first), await final(second)] == ["One.", "Two."]


async def test_the_timeout_of_a_function_is_not_the_limit_of_the_run() -> None:
    def slow() -> str:
        raise TimeoutError("the printer is slow")

    agent = Agent(ScriptedModel([ToolCall("slow"), "Ok."]), tools=[slow], limits=Limits(seconds=PATIENCE))
    run = agent.send("Go.")
    assert await final(run) == "Ok."
    assert run.result is not None
    assert run.result.calls[0].text == "TimeoutError: the printer is slow"
