"""The page of durable runs: a list, one run, and answers to the questions of runs."""

import asyncio
from pathlib import Path

import pytest

from tests.durable.stage import Ledger, ended, is_waiting, run_when, settings
from tests.gateway.console.opening import Markup, console_over, plain
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
        assert "k 1 waiting Answer" in plain(await opened.page("runs?status=waiting"))
        page = await opened.page("run?id=k+1")
        assert "inn asks" in plain(page)
        assert "waits for an answer" in plain(page)
        assert HOSTILE not in page
        form = {"run": "k 1", "question": "q1", "answer": "accept"}
        await opened.post("run/answer", {**form, "question": "q9"})
        assert "does not wait any more" in plain(await opened.page("run?id=k+1"))
        typed = {anchor("field", "date"): "2027-01-31", anchor("field", "seats"): "3"}
        done = await opened.post("run/answer", {**form, **typed})
        assert (done.status_code, done.headers["location"]) == (303, "../run?id=k+1")
        assert await ended(run) == f"{HOSTILE}: 2027-01-31, 3, inside, quiet False"
        page = await opened.page("run?id=k+1")
        assert "call inn/book" in plain(page)
        assert HOSTILE not in page
        assert "no run 'nothing'" in plain(await opened.page("run?id=nothing"))
    await runs.close()


async def test_a_run_is_canceled_and_continued_on_the_page(tmp_path: Path) -> None:
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
        await opened.post("run/cancel", {"run": "k"})
        page = plain(await opened.page("run?id=k"))
        assert "Canceled k." in page
        assert "status canceled" in page
        assert "cancelled" not in page
        assert await run.status == "cancelled"
        assert "k canceled" in plain(await opened.page("runs?status=cancelled"))
        assert "None of the newest runs is like that." in plain(await opened.page("runs?status=failed"))
        await opened.post("run/retry", {"run": "k"})
        assert await ended(run) == "Done."
    await runs.close()


async def test_a_run_is_shown_as_a_trace(tmp_path: Path) -> None:
    """Turns of the model and calls are bars on one axis, with tokens, errors and links to the tools."""
    model = ScriptedModel(
        [[ToolCall("ledger_write", {"line": HOSTILE}), ToolCall("ledger_write", {})], "Done."]
    )
    servers = {"ledger": {"server": Ledger().server()}}
    runs = Runs(settings(tmp_path))
    async with (
        Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent,
        console_over({"ledger": {"server": Ledger().server()}}) as opened,
    ):
        await opened.enter()
        opened.console.runs = runs
        assert await ended(agent.start("Go.", key="k")) == "Done."
        page = await opened.page("run?id=k")
        steps = await runs.steps("k")
    await runs.close()
    assert [step.name for step in steps if step.name in ("model", "call")].count("model") == 2
    assert all(step.began is not None and step.at is not None and step.began <= step.at for step in steps)
    assert "of which 2 calls" in plain(page)
    assert page.count('class="bar"') == len(steps) + page.count('class="span queue"')
    assert 'class="span model"' in page
    assert 'class="span call"' in page
    assert 'href="tools?tool=ledger_write"' in page
    [failed] = [step for step in steps if step.outcome == "failed"]
    assert failed.error
    assert failed.error.split()[0] in plain(page)
    assert 'class="span bad"' in page
    assert HOSTILE not in page
    widths = [float(one["width"] or "") for one in Markup(page).named("rect")]
    places = [float(one["x"] or "") for one in Markup(page).named("rect")]
    assert places == sorted(places)
    assert all(place >= 0 and place + width <= 1000.1 for place, width in zip(places, widths, strict=True))
