"""The page of durable runs: a list, one run, and the answers to what runs wait for."""

import asyncio
from pathlib import Path

import pytest

from tests.durable.stage import Ledger, ended, is_waiting, run_when, settings
from tests.gateway.console.opening import console_over, plain
from tests.inside.console import anchor
from tests.patience import PATIENCE
from tests.servers.asking import asking
from toolbus.agent import Agent
from toolbus.agent.durable import Runs
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio
HOSTILE = "<script>alert(1)</script>"


async def test_a_question_of_a_run_is_answered_on_the_page(tmp_path: Path) -> None:
    model = ScriptedModel([ToolCall("inn_book", {"guest": HOSTILE}), lambda results: results[-1]])
    runs = Runs(settings(tmp_path))
    async with (
        Agent(model, mcp_servers={"inn": {"server": asking()}}, durable=settings(tmp_path)) as agent,
        console_over({"ledger": {"server": Ledger().server()}}) as opened,
    ):
        await opened.enter()
        assert (await opened.http.get(f"{opened.home}/runs")).status_code == 404
        run = agent.start("Go.", key="k 1")
        await run_when(agent.runs, "k 1", is_waiting)
        opened.console.runs = runs
        page = await opened.page("runs")
        assert "k 1: inn asks" in plain(page)
        assert HOSTILE not in page
        form = {"run": "k 1", "question": "q1", "answer": "accept"}
        await opened.post("runs/answer", {**form, "question": "q9"})
        assert "does not wait any more" in plain(await opened.page("runs"))
        typed = {anchor("field", "date"): "2027-01-31", anchor("field", "seats"): "3"}
        done = await opened.post("runs/answer", {**form, **typed})
        assert (done.status_code, done.headers["location"]) == (303, "../runs")
        assert await ended(run) == f"{HOSTILE}: 2027-01-31, 3, inside, quiet False"
        page = await opened.page("runs?run=k%201")
        assert "call inn/book" in plain(page)
        assert HOSTILE not in page
        assert "no run 'nothing'" in plain(await opened.page("runs?run=nothing"))
    await runs.close()


async def test_a_run_is_cancelled_and_continued_on_the_page(tmp_path: Path) -> None:
    ledger, runs = Ledger(), Runs(settings(tmp_path))
    model = ScriptedModel([ToolCall("ledger_hold", {"line": "a"}), "Done."])
    servers = {"ledger": {"server": ledger.server()}}
    async with (
        Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent,
        console_over({"other": {"server": Ledger().server()}}) as opened,
    ):
        await opened.enter()
        opened.console.runs = runs
        run = agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
        await opened.post("runs/cancel", {"run": "k"})
        assert "Cancelled k." in plain(await opened.page("runs?run=k"))
        assert await run.status == "cancelled"
        await opened.post("runs/retry", {"run": "k"})
        assert await ended(run) == "Done."
    await runs.close()
