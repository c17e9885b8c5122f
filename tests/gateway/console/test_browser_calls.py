"""The overview, the calls and one call in a real browser."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.console.chromium import SMALL, Chromium, Tab
from tests.gateway.console.opening import Opened, console_over
from tests.gateway.console.test_browser_servers import wild
from tests.gateway.console.wild import HOSTILE, PICTURE
from tests.patience import until
from toolbus import Caller, ConnectionLost, ToolbusError

pytestmark = pytest.mark.anyio


def _config() -> dict[str, Any]:
    return {"servers": {"wild": wild(), "calm": wild()}}


FIRST_ROW = "#calls-ended tr:first-child"


async def _fail(opened: Opened) -> None:
    """Three calls that fail, and one that works."""
    await opened.bus.call("wild_fail", {})
    for name in ("wild_refuse", "wild_die"):
        with pytest.raises(ToolbusError if name == "wild_refuse" else ConnectionLost):
            await opened.bus.call(name, {})
    await opened.bus.call("calm_go_on", {})


async def _calls(tab: Tab, opened: Opened) -> None:
    await tab.enter(opened)
    await tab.click("nav >> text=Calls")
    await tab.see("#connection.live")


async def test_calls_are_live_with_charts_and_can_be_filtered(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        await tab.click("nav >> text=Calls")
        await tab.see("#calls-in-flight", "No call is in flight.")
        slow = asyncio.create_task(opened.bus.call("wild_slow", {}))
        await tab.see("#calls-running-rows td", "wild_slow")
        await tab.see("#calls-running-rows .badge", "running")
        await opened.bus.call("wild_go_on", {})
        await slow
        await _fail(opened)
        await tab.see("#calls-ended tr", "calm_go_on")
        await tab.see("#calls-charts", "6 calls in the last minute")
        await tab.see("#calls-charts", "3 errors in the last minute")
        await tab.do("selectOption", "select[name=outcome]", "failed")
        await tab.do("selectOption", "select[name=server]", "wild")
        await tab.click("button:text-is('Show')")
        await tab.see("h2", "The last calls that match")
        assert await tab.count("#calls-ended tr") == 3
        assert "server=wild" in await tab.do("url")
        assert "3 calls of wild" not in await tab.text("#calls-charts"), "the charts show all outcomes"
        await tab.click("text=Show all")
        await tab.see(FIRST_ROW, "calm_go_on")


async def test_new_rows_come_while_what_is_read_stays_where_it_is(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab(viewport={"width": 900, "height": 500}) as tab:
        await tab.enter(opened)
        for _ in range(40):
            await opened.bus.call("calm_go_on", {})
        with suppress(ToolbusError):
            await opened.bus.call("wild_refuse", {})
        for _ in range(10):
            await opened.bus.call("calm_go_on", {})
        await _calls(tab, opened)
        await tab.see("#calls-ended details")
        await tab.click("#calls-ended details summary")
        await tab.run("document.querySelector('#calls-ended details').scrollIntoView({block: 'center'})")
        place = "Math.round(document.querySelector('#calls-ended details').getBoundingClientRect().top)"
        before = await tab.run(place)
        await tab.run("document.querySelector('#calls-ended').children[0].dataset.seen = 'yes'")
        for _ in range(30):
            await opened.bus.call("calm_kinds", {"words": "new", "size": "small"})
        await until(lambda: len(opened.console.calls.ended) == 81)
        await tab.see("#calls-ended tr:nth-child(81)")
        assert abs(await tab.run(place) - before) <= 1
        assert await tab.run("document.querySelector('#calls-ended details').open")
        assert await tab.count("#calls-ended tr[data-seen]") == 1, "rows that were there are not replaced"
        assert "calm_kinds" in await tab.text(FIRST_ROW)


async def test_a_row_opens_into_a_call_with_its_time_and_its_content(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "toolbus.json"
    config.write_text(json.dumps({**_config(), "history": "everything"}))
    async with console_over(str(config)) as opened, browser.tab() as tab:
        caller = opened.bus.view(caller=Caller(face=HOSTILE, user=HOSTILE))
        await caller.call("wild_kinds", {"words": PICTURE, "size": "small"})
        await _calls(tab, opened)
        await tab.click("#calls-ended a >> text=wild_kinds")
        await tab.see(".waterfall th", "server")
        await tab.see("#call-request", PICTURE)
        sent = json.loads(await tab.do("innerText", "#call-request"))
        answer = json.loads(await tab.do("innerText", "#call-answer"))
        await tab.click("text=Call again")
        await tab.see("h1", "Tools")
        assert "again=" in await tab.do("url")
    assert sent["params"] == {"name": "kinds", "arguments": {"words": PICTURE, "size": "small"}}
    assert PICTURE in json.dumps(answer["result"]["content"])


async def test_a_call_that_waits_for_a_person_leads_to_the_inbox(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        asked = asyncio.create_task(opened.bus.call("wild_ask", {}))
        await tab.see("#overview-needs li", "wild asks")
        await tab.click("nav >> text=Calls")
        await tab.click("#calls-running-rows >> text=waits for you")
        await tab.see("h1", "Inbox")
        assert "#question-" in await tab.do("url")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


async def test_the_overview_shows_a_crash_loop_and_never_a_green_ready(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab() as tab:
        await tab.enter(opened)
        for _ in range(3):
            with suppress(ConnectionLost):
                await opened.bus.call("wild_die", {})
            await until(lambda: opened.bus.servers["wild"].state == "ready")
        await tab.see("#overview-needs li", "wild crashes again and again")
        await tab.see("#overview-servers .bad", "crash loop")
        assert await tab.count("#overview-servers .badge.good") == 1, "the other server"
        assert await tab.count("#overview-servers svg[role=img] title") == 2
        await tab.click("#overview-needs a >> text=Look")
        await tab.see("h1", "Server")
        assert await tab.count("main .badge.good") == 0


async def test_calls_are_exported_as_they_are_filtered(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await _fail(opened)
        await tab.goto(f"{tab.home}/calls?outcome=failed&server=wild")
        fetched = "fetch(document.querySelector('a[href*=\"form=%s\"]').href).then((answer) => answer.text())"
        csv, as_json = await tab.run(fetched % "csv"), json.loads(await tab.run(fetched % "json"))
    assert [row["name"] for row in as_json] == ["wild_die", "wild_refuse", "wild_fail"]
    assert [row["outcome"] for row in as_json] == ["server_failed", "server_failed", "tool_error"]
    assert csv.count("wild_") >= 3
    assert "calm_go_on" not in csv
