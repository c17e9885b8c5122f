"""Tools that change while a run lasts: a call of one waits for a person, and recorded results stay."""

import asyncio
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from tests.durable.stage import Ledger, ended, is_waiting, run_when, settings
from tests.inside.core import Answer
from tests.patience import PATIENCE
from tests.servers.asking import asking
from toolbus.agent import Agent
from toolbus.agent.durable import NotWaiting, QuestionAnswered
from toolbus.testing import ScriptedModel, ToolCall, Turn

pytestmark = pytest.mark.anyio


class ReadingModel(ScriptedModel):
    """Remembers the descriptions of the tools that it was offered at every turn."""

    def __init__(self, turns: list[Turn]) -> None:
        super().__init__(turns)
        self.read: list[dict[str, str | None]] = []

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self.read.append({tool.name: tool.description for tool in model_request_parameters.function_tools})
        return await super().request(messages, model_settings, model_request_parameters)


BOOK, WRITE = ToolCall("inn_book", {"guest": "Ann"}), ToolCall("ledger_write", {"line": "a"})


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_a_call_of_a_tool_that_changed_waits_until_somebody_accepts_it(
    tmp_path: Path, is_accepted: bool
) -> None:
    turns: list[Turn] = [BOOK, WRITE, lambda results: results[-1]]
    servers = {"ledger": {"server": Ledger().server()}, "inn": {"server": asking()}}
    async with Agent(ScriptedModel(turns), mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="k")
        await run_when(agent.runs, "k", is_waiting)
        assert await agent.runs.accept_changes("k") == []
        await run.answer(Answer(action="decline"), question="q1")

    changed, model = Ledger("Write a line, and send it to somebody."), ReadingModel(turns)
    servers = {"ledger": {"server": changed.server()}, "inn": {"server": asking()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        agent.join("k")
        info = await run_when(agent.runs, "k", lambda info: bool(info.question and info.question.id == "q2"))
        assert list(info.held) == ["ledger/write"]
        assert [step.outcome for step in await agent.runs.steps("k")][-1] == "held"
    assert changed.lines == []
    # The worker ends while the call waits; the next one goes on.
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.join("k")
        await run.recorded
        if is_accepted:
            assert await agent.runs.accept_changes("k") == ["ledger/write"]
        else:
            await run.answer(Answer(action="accept", content={"answer": "no"}), question="q2")
        output = await ended(run)
        steps = [(step.about, step.outcome) for step in await agent.runs.steps("k") if step.name == "call"]
        events = [event async for event in run]
        with pytest.raises(NotWaiting, match="run 'k' is done"):
            await agent.runs.accept_changes("k")
    assert changed.lines == (["a"] if is_accepted else [])
    assert steps[-1] == ("ledger/write", "done" if is_accepted else "refused")
    assert ("a person did not accept" in output) is not is_accepted
    words = [event.action for event in events if isinstance(event, QuestionAnswered)]
    assert words == ["decline", "accept" if is_accepted else "no"]
    first, last = (read["ledger_write"] or "" for read in model.read)
    assert first.startswith("This tool changed"), "the model reads accepted definitions only"
    assert ("send it to somebody" in last) is is_accepted


async def test_a_call_in_flight_whose_tool_then_changed_is_unknown(tmp_path: Path) -> None:
    hold, own = ToolCall("ledger_hold", {"line": "a"}), settings(tmp_path, drain=0.01)
    turns: list[Turn] = [hold, lambda results: results[-1]]
    ledger = Ledger()
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(ScriptedModel(turns), mcp_servers=servers, durable=own) as agent:
        agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
    again = Ledger(hold="Write a line, wait, and send it to somebody.")
    # Safe to repeat, but nobody has accepted what the tool is now.
    servers = {"ledger": {"server": again.server(), "repeatable": ["hold"]}}
    async with Agent(ScriptedModel(turns), mcp_servers=servers, durable=own) as agent:
        output = await ended(agent.join("k"))
    assert """outcome unknown: the process that called 'ledger/hold' with {"line": "a"} at 20""" in output
    assert output.endswith("check whether it took effect, for example with 'ledger_count'")
    assert again.lines == []
