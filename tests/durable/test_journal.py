"""The records of a run, the use of its records, and concurrent calls."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel
from pydantic_ai import ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.messages import ToolReturn as PydanticReturn
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.durable.stage import Ledger, ended, is_waiting, run_when, settings
from tests.inside.agent import Clock, ToolCalled, ToolReturned
from tests.inside.core import Answer
from tests.patience import PATIENCE
from tests.servers.asking import asking
from toolbus.agent import Agent, Limits
from toolbus.agent.durable import QuestionAnswered, RunFailed, Runs, repeatable
from toolbus.testing import ScriptedModel, ToolCall, Turn

pytestmark = pytest.mark.anyio


def following(*replies: Callable[[list[str]], ModelResponse]) -> FunctionModel:
    """A model that gives one reply for each turn of a run, wherever it is continued."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        results = [str(part.content) for part in returns(messages)]
        return replies[sum(isinstance(message, ModelResponse) for message in messages)](results)

    return FunctionModel(answer)


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """The results of all calls."""
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part for one in requests for part in one.parts if isinstance(part, ToolReturnPart)]


def calling(*calls: tuple[str, dict[str, Any]]) -> Callable[[list[str]], ModelResponse]:
    """A reply that makes calls."""
    return lambda _: ModelResponse([ToolCallPart(*call) for call in calls])


def saying(_: list[str]) -> ModelResponse:
    """A reply that ends the run with all results."""
    return ModelResponse([TextPart(json.dumps(_))])


async def test_a_run_of_four_calls_records_a_step_for_each_request_and_call(store: str) -> None:
    ledger = Ledger()
    calls: list[Turn] = [ToolCall("ledger_write", {"line": str(number)}) for number in range(4)]
    servers = {"ledger": {"server": ledger.server()}}
    own = settings(Path(), store=store)
    async with Agent(ScriptedModel([*calls, "Done."]), mcp_servers=servers, durable=own) as agent:
        run = agent.start("Go.")
        assert await ended(run) == "Done."
        recorded = await asyncio.to_thread(agent.runs.store.client.list_workflow_steps, run.id)
        steps = await agent.runs.steps(run.id)
    assert len(recorded) == 10, "the offer, five requests, four calls"
    assert [step.name for step in steps] == ["offer", "model", *["call", "model"] * 4]
    assert ledger.lines == ["0", "1", "2", "3"]


class Meeting:
    """A server whose reads return only when a number of them are in flight at once."""

    def __init__(self, people: int) -> None:
        self.reads: list[str] = []
        self.writes: list[str] = []
        self._together = asyncio.Barrier(people)

    def server(self) -> MCPServer:
        """The server, in this process."""
        built: MCPServer = MCPServer("meeting")

        @built.tool(structured_output=False, annotations=types.ToolAnnotations(read_only_hint=True))
        async def look(name: str) -> str:
            """Look at something."""
            self.reads.append(name)
            await self._together.wait()
            return f"saw {name}"

        @built.tool(structured_output=False)
        async def write(name: str) -> str:
            """Write something."""
            self.writes.append(f"begin {name}")
            await asyncio.sleep(0.05)
            self.writes.append(f"end {name}")
            return f"wrote {name}"

        return built


async def test_reads_of_one_turn_are_made_at_the_same_time_and_writes_one_after_another(
    tmp_path: Path,
) -> None:
    meeting = Meeting(3)
    looks = [("meeting_look", {"name": name}) for name in "abc"]
    writes = [("meeting_write", {"name": name}) for name in "de"]
    servers = {"meeting": {"server": meeting.server(), "trust_annotations": True}}
    model = following(calling(*looks, *writes), saying)
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.")
        assert json.loads(await ended(run)) == ["saw a", "saw b", "saw c", "wrote d", "wrote e"]
        events = [event async for event in run]
    assert meeting.writes == ["begin d", "end d", "begin e", "end e"]
    assert [event.text for event in events if isinstance(event, ToolReturned)][3:] == ["wrote d", "wrote e"]


async def test_of_calls_that_were_made_together_only_those_without_a_result_are_made_again(
    tmp_path: Path,
) -> None:
    stopped, made = asyncio.Event(), list[str]()

    async def work(may_end: bool) -> str:
        reached = asyncio.Event()

        @repeatable
        async def look(name: str) -> str:
            """Look at something; the slow one does not return the first time."""
            made.append(name)
            if name == "slow" and not may_end:
                reached.set()
                await stopped.wait()
            return f"saw {name}"

        model = following(calling(("look", {"name": "slow"}), ("look", {"name": "fast"})), saying)
        own = settings(tmp_path, drain=0.01)
        async with Agent(model, tools=[look], durable=own) as agent:
            run = agent.start("Go.", key="k")
            if may_end:
                return await ended(run)
            async with asyncio.timeout(PATIENCE):
                await reached.wait()
                while "call" not in [step.name for step in await agent.runs.steps("k")]:  # noqa: ASYNC110  # in the store
                    await asyncio.sleep(0.02)
        return ""

    await work(may_end=False)
    assert json.loads(await work(may_end=True)) == ["saw slow", "saw fast"]
    assert sorted(made) == ["fast", "slow", "slow"]


async def test_questions_of_calls_that_are_made_together_are_put_one_by_one(tmp_path: Path) -> None:
    """This works even if another worker continues in the middle of them."""
    books = [("inn_book", {"guest": guest}) for guest in ("Ann", "Bob")]
    servers = {"inn": {"server": asking(), "repeatable": ["book"]}}
    when = Answer(action="accept", content={"date": "2027-01-31", "seats": 3})

    async def work(question: str) -> list[str]:
        model = following(calling(*books), saying)
        async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
            run = agent.start("Go.", key="k")
            await run.recorded
            await run_when(agent.runs, "k", lambda info: bool(info.question and info.question.id == question))
            await run.answer(when, question=question)
            return json.loads(await ended(run)) if question == "q2" else []

    await work("q1")
    guests = [result.partition(":")[0] for result in await work("q2")]
    assert guests == ["Ann", "Bob"]


class Flight(BaseModel):
    """The output of a run."""

    number: str
    seats: int


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Flight, {"number": "LH 1", "seats": 2}, Flight(number="LH 1", seats=2)),
        (list[int], {"response": [1, 2]}, [1, 2]),
    ],
)
async def test_a_run_returns_an_object_that_another_process_asked_for(
    tmp_path: Path, kind: type[Any], given: dict[str, Any], value: object
) -> None:
    wrong = {"number": 1, "seats": "many"} if kind is Flight else {"response": "none"}

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        (tool,) = info.output_tools
        return ModelResponse([ToolCallPart(tool.name, given if len(messages) > 1 else wrong)])

    async with Agent(FunctionModel(answer), durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", output=kind, key="k")
        async with asyncio.timeout(PATIENCE):
            assert await run.final == value
            assert await agent.join("k", output=kind).final == value
        assert [event async for event in run if isinstance(event, ToolCalled | ToolReturned)] == []
    elsewhere = Runs(settings(tmp_path))
    info = await elsewhere.get("k")
    await elsewhere.close()
    assert json.loads(info.output or "") == info.structured == given.get("response", given)


async def test_a_run_has_only_so_much_time(tmp_path: Path) -> None:
    ledger = Ledger()
    servers = {"ledger": {"server": ledger.server()}}
    model = ScriptedModel([ToolCall("ledger_hold", {"line": "a"})])
    own, limits = settings(tmp_path), Limits(seconds=0.5)
    async with Agent(model, mcp_servers=servers, limits=limits, durable=own) as agent:
        with pytest.raises(RunFailed, match=r"limit of 0\.5 seconds") as failed:
            await ended(agent.start("Go."))
    assert failed.value.kind == "LimitReached"


def test_the_time_of_a_run_is_that_of_all_executions_without_the_time_that_people_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("toolbus.agent.durable.execution.execution.time.monotonic", lambda: now)
    clock = Clock()
    now = 2.0
    with clock.stopped():
        now = 100.0
        with clock.stopped():  # two calls of one turn ask
            now = 200.0
        assert clock.seconds == 2.0
    now = 203.0
    assert clock.seconds == 5.0
    later = Clock()
    later.replay(clock.seconds)
    now = 204.0
    assert later.seconds == 6.0
    later.replay(1.0)
    assert later.seconds == 6.0, "what was recorded earlier does not count again"


async def test_a_question_that_nobody_answers_in_time_is_declined(tmp_path: Path) -> None:
    ledger = Ledger()
    servers = {"ledger": {"server": ledger.server()}}
    model = ScriptedModel([ToolCall("ledger_write", {"line": "a"}), lambda results: results[-1]])
    own = settings(tmp_path, answer_within=0.3)
    async with Agent(model, mcp_servers=servers, approve="ask", durable=own) as agent:
        run = agent.start("Go.")
        assert "nobody answered in time" in await ended(run)
        assert [event.action async for event in run if isinstance(event, QuestionAnswered)] == ["late"]
        steps = [(step.name, step.about, step.outcome) for step in await agent.runs.steps(run.id)]
    assert ("approval", "ledger_write", "asked") in steps
    assert ledger.lines == []


async def test_a_function_that_got_a_parameter_with_a_default_is_the_same_function(tmp_path: Path) -> None:
    async def work(function: Callable[..., Any], *, ends: bool) -> str:
        servers = {"inn": {"server": asking()}}
        calls = [("buy", {"text": "tea"}), ("inn_book", {"guest": "Ann"}), ("buy", {"text": "milk"})]
        model = following(*map(calling, calls), saying)
        own = settings(tmp_path)
        async with Agent(model, tools=[function], mcp_servers=servers, durable=own) as agent:
            run = agent.start("Go.", key="k")
            await run_when(agent.runs, "k", is_waiting)
            if not ends:
                return ""
            await run.answer(Answer(action="decline"))
            return await ended(run)

    def first(text: str) -> str:
        """Buy something."""
        return f"bought {text}"

    def second(text: str, color: str = "red") -> str:
        """Buy something of a color."""
        return f"bought {text}, {color}"

    first.__name__ = second.__name__ = "buy"
    await work(first, ends=False)
    bought = json.loads(await work(second, ends=True))
    assert (bought[0], bought[2]) == ("bought tea", "bought milk, red")


async def test_the_events_of_a_run_have_the_texts_that_the_model_reads(tmp_path: Path) -> None:
    def text() -> str:
        """A text."""
        return "plain"

    def values() -> list[Any]:
        """Several values."""
        return ["one", {"two": 2}, None]

    def fails() -> str:
        """An error."""
        raise RuntimeError("broken")

    def again() -> str:
        """A retry."""
        raise ModelRetry("say please")

    def wrapped() -> PydanticReturn[Any]:
        """A return of the framework."""
        return PydanticReturn({"a": 1}, metadata={"hidden": True})

    names = ["text", "values", "fails", "again", "wrapped", "ledger_write", "ledger_broken", "nowhere"]
    read: list[str] = []

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        said = returns(messages)
        if said:
            items = said[-1].content_items(mode="str", wrap_if_error=False)
            read.append("\n".join(item for item in items if isinstance(item, str)))
        if len(said) == len(names):
            return ModelResponse([TextPart("Done.")])
        arguments = {"line": "a"} if names[len(said)].startswith("ledger") else {}
        return ModelResponse([ToolCallPart(names[len(said)], arguments)])

    built = Ledger().server()

    @built.tool()
    def broken(line: str) -> str:
        """Fails."""
        raise ValueError(f"cannot write {line}")

    async with Agent(
        FunctionModel(answer),
        tools=[text, values, fails, again, wrapped],
        mcp_servers={"ledger": {"server": built}},
        durable=settings(tmp_path),
    ) as agent:
        run = agent.start("Go.")
        assert await ended(run) == "Done."
        events = [event async for event in run if isinstance(event, ToolReturned)]
    assert [event.name for event in events] == names
    assert [event.text for event in events] == read
    assert [event.is_error for event in events] == [name in {*names[2:4], *names[6:]} for name in names]
