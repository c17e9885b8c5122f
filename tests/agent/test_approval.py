"""Approvals: the person who is asked before a tool runs, and the effect of the answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.agent.stage import final
from tests.patience import PATIENCE
from tests.servers.everyday import everyday
from toolbus import ApprovalRequest, Toolbus
from toolbus.agent import Agent, ApprovalAsked, LimitReached, Limits, Run, RunEvent, ToolReturned
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

ADD, ECHO = ToolCall("desk_add", {"a": 1, "b": 2}), ToolCall("desk_echo", {"text": "tea"})
SHOUT = ToolCall("shout", {"word": "tea"})
DENIED = "The user did not allow this call{}. Do not try it again unless the user asks for it."


@pytest.fixture
async def bus() -> AsyncIterator[Toolbus]:
    async with Toolbus({"servers": {"desk": {"server": everyday(), "trust_annotations": True}}}) as bus:
        yield bus


def asking(bus: Toolbus, approve: Any, *calls: ToolCall) -> Run[str]:
    """A run that makes the calls in one turn."""
    return Agent(ScriptedModel([list(calls), "Done."]), tools=[bus, shout], approve=approve).send("Go.")


def shout(word: str) -> str:
    """Say it loud."""
    return word.upper()


async def results(run: Run[str]) -> dict[str, tuple[str, bool]]:
    """The model's result of each call."""
    assert await final(run) == "Done."
    assert run.result is not None
    return {call.name: (call.text, call.is_error) for call in run.result.calls}


@pytest.mark.parametrize(
    ("word", "told", "is_error"),
    [
        (True, "tea", False),
        (False, DENIED.format(""), True),
        ("Not today", DENIED.format(": Not today"), True),
        ("", DENIED.format(""), True),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_has_the_word(
    bus: Toolbus, word: bool | str, told: str, is_error: bool, is_async: bool
) -> None:
    asked: list[ApprovalRequest] = []

    def judge(request: ApprovalRequest) -> bool | str:
        asked.append(request)
        return word

    async def slow_judge(request: ApprovalRequest) -> bool | str:
        return judge(request)

    run = asking(bus, slow_judge if is_async else judge, ECHO)
    assert await results(run) == {"desk_echo": (told, is_error)}
    [request] = asked
    assert (request.name, request.server, request.arguments) == ("desk_echo", "desk", {"text": "tea"})
    assert not request.reads_only


async def test_a_function_knows_what_it_is_asked_about(bus: Toolbus) -> None:
    def judge(request: ApprovalRequest) -> bool:
        return request.server is None or request.reads_only

    told = await results(asking(bus, judge, ADD, ECHO, SHOUT))
    assert {name: is_error for name, (_, is_error) in told.items()} == {
        "desk_add": False,
        "desk_echo": True,
        "shout": False,
    }


async def test_a_function_that_raises_ends_the_run_and_nothing_is_called(bus: Toolbus) -> None:
    def judge(request: ApprovalRequest) -> bool:
        raise PermissionError("who are you?")

    run = asking(bus, judge, SHOUT)
    with pytest.raises(PermissionError):
        await final(run)


async def test_whoever_listens_is_asked(bus: Toolbus) -> None:
    run = asking(bus, "ask", ADD, ECHO, SHOUT)
    asked: list[tuple[str, str | None]] = []
    async with asyncio.timeout(PATIENCE):
        async for event in run:
            if isinstance(event, ApprovalAsked):
                asked.append((event.name, event.server))
                if event.name == "desk_add":
                    event.approve()
                    event.deny("too late")
                else:
                    event.deny("I am out of tea" if event.server else "")
    assert sorted(asked) == [("desk_add", "desk"), ("desk_echo", "desk"), ("shout", None)]
    assert await results(run) == {
        "desk_add": ("3", False),
        "desk_echo": (DENIED.format(": I am out of tea"), True),
        "shout": (DENIED.format(""), True),
    }


async def test_writes_asks_only_for_what_is_not_marked_as_reading(bus: Toolbus) -> None:
    run = asking(bus, "writes", ADD, ECHO, SHOUT)
    asked: list[str] = []
    async with asyncio.timeout(PATIENCE):
        async for event in run:
            if isinstance(event, ApprovalAsked):
                asked.append(event.name)
                event.approve()
    assert sorted(asked) == ["desk_echo", "shout"]
    assert await results(run) == {
        "desk_add": ("3", False),
        "desk_echo": ("tea", False),
        "shout": ("TEA", False),
    }


@pytest.mark.parametrize("approve", ["ask", "writes"])
async def test_where_nobody_listens_the_call_is_denied(bus: Toolbus, approve: str) -> None:
    told, is_error = (await results(asking(bus, approve, ECHO)))["desk_echo"]
    assert is_error
    assert "nothing is reading the events of this run" in told


async def test_a_question_that_the_listener_walks_away_from_is_denied(bus: Toolbus) -> None:
    async def first_question(run: Run[str]) -> RunEvent:
        async for event in run:
            if isinstance(event, ApprovalAsked):
                return event
        raise AssertionError("nothing was asked")

    run = asking(bus, "ask", ECHO, SHOUT)
    async with asyncio.timeout(PATIENCE):
        await first_question(run)
    told = await results(run)
    assert all("nothing is reading the events" in text and is_error for text, is_error in told.values())


async def test_an_open_question_does_not_hold_a_run_beyond_its_limit(bus: Toolbus) -> None:
    agent = Agent(ScriptedModel([ECHO]), tools=[bus], approve="ask", limits=Limits(seconds=0.3))
    seen: list[RunEvent] = []

    async def listening() -> None:
        async for event in agent.send("Go."):
            seen.append(event)

    with pytest.raises(LimitReached):
        await asyncio.wait_for(listening(), PATIENCE)
    assert [type(event).__name__ for event in seen] == ["ToolCalled", "ApprovalAsked"]


async def test_by_default_tools_are_run(bus: Toolbus) -> None:
    run = Agent(ScriptedModel([ECHO, "Done."]), tools=[bus]).send("Go.")
    events = [event async for event in run]
    [returned] = [event for event in events if isinstance(event, ToolReturned)]
    assert (returned.text, returned.is_error) == ("tea", False)


def test_another_way_to_approve_is_refused_at_once() -> None:
    unknown: Any = "always"
    with pytest.raises(ValueError, match="'never', 'writes', 'ask' or a function, not 'always'"):
        Agent(ScriptedModel([]), approve=unknown)


@pytest.mark.parametrize("by_rule", [False, True])
async def test_a_question_that_nobody_answers_is_refused_and_the_run_goes_on(
    by_rule: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rules = [{"tools": "desk/echo", "do": "ask"}] if by_rule else []
    async with Toolbus({"servers": {"desk": everyday()}, "policy": rules}) as bus:
        model = ScriptedModel([[ECHO], "Done."])
        limits = Limits(answer_within=0.01)
        run = Agent(model, tools=[bus], approve="never" if by_rule else "ask", limits=limits).send("Go.")
        asked: list[ApprovalAsked] = []
        async with asyncio.timeout(PATIENCE):
            async for event in run:
                if isinstance(event, ApprovalAsked):
                    asked.append(event)
        [question] = asked
        question.approve()  # too late
        [(told, is_error)] = (await results(run)).values()
    assert is_error
    assert "nobody answered within 0.01 s" in told
    assert "the call of 'desk_echo' is refused: nobody answered within 0.01 s" in caplog.text
