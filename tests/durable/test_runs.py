"""Durable runs in one process: journal, events, questions, held tools, and the end of a worker."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.durable.stage import Ledger, ended, is_waiting, run_when, settings
from tests.inside.agent import TextDelta, ToolCalled, ToolReturned
from tests.inside.core import QUESTION, Answer
from tests.patience import PATIENCE, until
from tests.servers.asking import asking
from toolbus import Toolbus
from toolbus.agent import Agent
from toolbus.agent.durable import (
    NotWaiting,
    QuestionAnswered,
    QuestionAsked,
    RunCancelled,
    RunFailed,
    RunNotFound,
    Runs,
    RunStoreError,
)
from toolbus.testing import ScriptedModel, ToolCall, Turn

pytestmark = pytest.mark.anyio


async def test_the_same_key_is_the_same_run(tmp_path: Path) -> None:
    ledger = Ledger()
    model = ScriptedModel([ToolCall("ledger_write", {"line": "a"}), "Done."])
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="order-17")
        assert await ended(run) == "Done."
        assert await ended(agent.start("Go.", key="order-17")) == "Done."
        assert (run.id, await run.status) == ("order-17", "done")
        assert [info.id for info in await agent.runs.recent(ended=True)] == ["order-17"]
        assert await agent.runs.recent() == []
        await agent.runs.delete("order-17")
        assert await agent.runs.recent(ended=True) == []
    assert os.stat(settings(tmp_path).store).st_mode & 0o777 == 0o600, "nobody else reads it"
    assert ledger.lines == ["a"]
    assert len(model.requests) == 2


async def test_one_script_serves_several_runs_of_a_worker(tmp_path: Path) -> None:
    ledger = Ledger()
    calls = [ToolCall("ledger_hold", {"line": "a"}), ToolCall("ledger_write", {"line": "b"})]
    model = ScriptedModel([*calls, lambda results: " ".join(results)])
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        runs = [agent.start("Go.", key=key) for key in ("k", "l", "m")]
        await until(lambda: ledger.lines == ["a"] * 3)  # all are in the middle
        ledger.may_end.set()
        assert [await ended(run) for run in runs] == ["held a wrote b"] * 3
        assert await ended(agent.start("Once more.")) == "held a wrote b"
    assert sorted(ledger.lines) == ["a"] * 4 + ["b"] * 4


async def test_whoever_joins_later_gets_all_events_from_the_beginning(tmp_path: Path) -> None:
    ledger = Ledger()
    model = ScriptedModel([ToolCall("ledger_write", {"line": "a"}), ToolCall("ledger_nothing"), "Done."])
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            live = [event async for event in run]
    elsewhere = Runs(settings(tmp_path))
    assert [event async for event in elsewhere.events("k")] == live
    with pytest.raises(RunNotFound):
        _ = [event async for event in elsewhere.events("nothing")]
    await elsewhere.close()
    assert [type(event) for event in live] == [ToolCalled, ToolReturned, ToolCalled, ToolReturned, TextDelta]
    wrote, unknown = (event for event in live if isinstance(event, ToolReturned))
    assert (wrote.text, wrote.server, wrote.is_error) == ("wrote a", "ledger", False)
    assert unknown.is_error


async def test_a_worker_that_closes_lets_calls_end_and_the_next_one_goes_on(tmp_path: Path) -> None:
    ledger = Ledger()
    calls = [ToolCall("ledger_write", {"line": "a"}), ToolCall("ledger_hold", {"line": "b"})]
    servers = {"ledger": {"server": ledger.server()}}
    first = ScriptedModel([calls, "Never asked."])
    async with Agent(first, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
        closing = asyncio.create_task(agent.close())
        await asyncio.sleep(0)
        ledger.may_end.set()
        await closing
    again = Ledger()
    second = ScriptedModel([calls, lambda results: " ".join(results)])
    servers = {"ledger": {"server": again.server()}}
    async with Agent(second, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        assert await ended(agent.join("k")) == "wrote a held b"
        assert (await agent.runs.get("k")).attempts == 2
    assert (ledger.lines, again.lines) == (["a", "b"], [])
    assert run.id == "k"


async def test_a_question_waits_in_the_store_until_anybody_answers_it(store: str, tmp_path: Path) -> None:
    own = settings(tmp_path, store=store)
    model = ScriptedModel([ToolCall("inn_book", {"guest": "Ann"}), lambda results: results[-1]])
    async with Agent(model, mcp_servers={"inn": {"server": asking()}}, durable=own) as agent:
        agent.start("Go.", key="k")
        info = await run_when(agent.runs, "k", is_waiting)
        assert info.status == "waiting"
        assert info.question is not None
        assert "When does Ann come?" in info.question.message
    # The process that asked has ended; another one answers, and a third one goes on.
    elsewhere = Runs(own)
    with pytest.raises(ValueError, match="date"):
        await elsewhere.answer("k", Answer(action="accept", content={"date": "no date"}))
    with pytest.raises(NotWaiting):
        await elsewhere.answer("k", Answer(action="decline"), question="q7")
    await elsewhere.answer(
        "k", Answer(action="accept", content={"date": "2027-01-31", "seats": 3}), question="q1"
    )
    # Until a worker takes it, the run is answered, and nobody else answers it.
    info = await elsewhere.get("k")
    assert (info.status, info.question, info.answered) == ("queued", None, True)
    with pytest.raises(NotWaiting, match="answered already, and waits for a worker"):
        await elsewhere.answer("k", Answer(action="decline"))
    with pytest.raises(NotWaiting, match="answered already"):
        await elsewhere.accept_changes("k")
    await elsewhere.close()
    async with Agent(model, mcp_servers={"inn": {"server": asking()}}, durable=own) as agent:
        assert await ended(agent.join("k")) == "Ann: 2027-01-31, 3, inside, quiet False"
        events = [event async for event in agent.join("k")]
    assert [event.action for event in events if isinstance(event, QuestionAnswered)] == ["accept"]
    assert [event.tool for event in events if isinstance(event, QuestionAsked)] == ["book"]


@pytest.mark.parametrize(("answer", "lines"), [("once", ["a"]), ("no", [])])
async def test_a_rule_that_asks_suspends_the_run(tmp_path: Path, answer: str, lines: list[str]) -> None:
    ledger = Ledger()
    config: dict[str, Any] = {
        "servers": {"ledger": {"server": ledger.server()}},
        "policy": [{"do": "ask", "tools": "ledger/write"}],
    }
    model = ScriptedModel([ToolCall("ledger_write", {"line": "a"}), lambda results: results[-1]])
    async with Toolbus(config) as bus, Agent(model, tools=[bus], durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="k")
        info = await run_when(agent.runs, "k", is_waiting)
        assert ledger.lines == []
        assert info.question is not None
        assert info.question.is_approval
        await run.answer({QUESTION: Answer(action="accept", content={"answer": answer})})
        output = await ended(run)
        events = [event async for event in run]
    assert ledger.lines == lines
    assert [event.action for event in events if isinstance(event, QuestionAnswered)] == [answer]
    assert ("wrote a" in output) == (answer == "once")


@pytest.mark.parametrize(("answer", "output"), [("once", "noted x"), ("no", "did not allow")])
async def test_the_agent_asks_about_calls_in_the_store(tmp_path: Path, answer: str, output: str) -> None:
    def note(text: str) -> str:
        """Note a text."""
        return f"noted {text}"

    model = ScriptedModel([ToolCall("note", {"text": "x"}), lambda results: results[-1]])
    async with Agent(model, tools=[note], approve="ask", durable=settings(tmp_path)) as agent:
        run = agent.start("Go.")
        await run.recorded
        info = await run_when(agent.runs, run.id, is_waiting)
        assert info.question is not None
        assert info.question.message == """Call 'note' with {"text": "x"}?"""
        await run.answer(Answer(action="accept", content={"answer": answer}))
        assert output in await ended(run)


async def test_the_calls_of_a_script_are_journaled_one_by_one(tmp_path: Path) -> None:
    script = 'a = await ledger_write(line="a")\nb = await ledger_write(line="b")\nf"{a}, {b}"'
    config: dict[str, Any] = {
        "expose": "code",
        "policy": [
            {"do": "ask", "tools": "ledger/write", "arguments": {"properties": {"line": {"const": "b"}}}}
        ],
    }
    first, second = Ledger(), Ledger()

    async def work(ledger: Ledger, model: ScriptedModel, answer: bool) -> str:
        servers = {"ledger": {"server": ledger.server()}}
        async with (
            Toolbus({**config, "servers": servers}) as bus,
            Agent(model, tools=[bus], durable=settings(tmp_path)) as agent,
        ):
            run = agent.start("Go.", key="k")
            await run.recorded
            await run_when(agent.runs, "k", is_waiting)
            if not answer:
                return ""
            await run.answer(Answer(action="accept", content={"answer": "once"}))
            return await ended(run)

    turns: list[Turn] = [ToolCall("run_code", {"script": script}), lambda results: results[-1]]
    await work(first, ScriptedModel(turns), answer=False)
    output = await work(second, ScriptedModel(turns), answer=True)
    assert "wrote a, wrote b" in output
    assert (first.lines, second.lines) == (["a"], ["b"]), "the first call is not repeated"


async def test_a_cancelled_run_ends_with_its_call(tmp_path: Path) -> None:
    ledger = Ledger()
    model = ScriptedModel([ToolCall("ledger_hold", {"line": "a"})])
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
        with pytest.raises(NotWaiting, match="cancel it first"):
            await agent.runs.delete(run.id)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await ended(run)
        with pytest.raises(NotWaiting):
            await run.cancel()


async def test_a_failed_run_is_continued_from_the_request_that_failed(tmp_path: Path) -> None:
    ledger, is_down = Ledger(), True

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        return script[len(messages) // 2](messages)

    def call(_: list[ModelMessage]) -> ModelResponse:
        return ModelResponse([ToolCallPart("ledger_write", {"line": "a"})])

    def end(_: list[ModelMessage]) -> ModelResponse:
        if is_down:
            raise ConnectionError("the provider is down")
        return ModelResponse([TextPart("Done.")])

    script = [call, end]
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(FunctionModel(answer), mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.")
        with pytest.raises(RunFailed, match="the provider is down") as failed:
            await ended(run)
        assert failed.value.kind == "ConnectionError"
        is_down = False
        await agent.runs.retry(run.id)
        assert await ended(run) == "Done."
    assert ledger.lines == ["a"]


async def test_one_process_has_one_store(tmp_path: Path) -> None:
    other = settings(tmp_path, store=str(tmp_path / "other.db"))
    async with Agent(ScriptedModel(["Done."]), durable=settings(tmp_path)) as agent:
        assert await ended(agent.start("Go.")) == "Done."
        async with Agent(ScriptedModel(["Done."]), durable=other) as second:
            with pytest.raises(RunStoreError, match="already has durable runs"):
                await ended(second.start("Go."))
        named = settings(tmp_path, agent="second")
        async with Agent(ScriptedModel(["By the second."]), durable=named) as second:
            assert await ended(second.start("Go.")) == "By the second."
        assert [info.agent for info in await agent.runs.recent(ended=True)] == ["second", "agent"]


async def test_an_agent_without_a_store_says_what_is_missing() -> None:
    async with Agent(ScriptedModel([])) as agent:
        with pytest.raises(ValueError, match="no durable runs"):
            agent.start("Go.")


async def test_a_store_that_cannot_be_used_is_named_without_its_password(tmp_path: Path) -> None:
    unreachable = settings(tmp_path, store="postgresql://ann:secret@127.0.0.1:1/none")
    async with Agent(ScriptedModel([]), durable=unreachable) as agent:
        with pytest.raises(RunStoreError) as raised:
            await ended(agent.start("Go."))
    assert "127.0.0.1" in str(raised.value)
    assert "secret" not in str(raised.value)
