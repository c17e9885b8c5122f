"""The servers in a real browser: what they show, live, the restart button, and signing in."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.gateway.console.chromium import SMALL, Chromium
from tests.gateway.console.opening import console_over
from tests.gateway.console.wild import PICTURE
from tests.inside.console import anchor
from toolbus import ConnectionLost

pytestmark = pytest.mark.anyio

WILD = str(Path(__file__).with_name("wild.py"))


def wild(*words: str, **more: Any) -> dict[str, Any]:
    """The entry of the wild server."""
    return {"command": warm.python(), "args": [WILD, *words], **more}


def row(alias: str) -> str:
    """The selector of a server in the table."""
    return f"#{anchor('server', alias)}"


async def test_a_server_that_could_not_start_is_restarted_and_comes_up_without_a_reload(
    browser: Chromium, tmp_path: Path
) -> None:
    needed = tmp_path / "needed"
    config = {"servers": {"wild": wild(str(needed)), "gone": {"command": "no-such-command-at-all"}}}
    async with console_over(config) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.see(f"{row('gone')} .badge", "failed")
        await tab.see(f"{row('gone')} .problem", "command 'no-such-command-at-all' not found")
        await tab.see(f"{row('wild')} .problem", "cannot start: </pre>")
        await tab.see("#servers-summary", "0 of 2 servers ready, 0 tools in the catalog")
        needed.touch()
        await tab.click(f"{row('wild')} button:has-text('Restart')")
        await tab.see(".notice", "Restarting wild.")
        await tab.see(f"{row('wild')} .badge", "ready")
        await tab.see("#servers-summary", "1 of 2 servers ready, 9 tools in the catalog")
        await tab.click(f"{row('wild')} a:text-is('wild')")
        await tab.see("#server-state", "legacy (2025-06-18)")
        await tab.see("#server-ends", "exit code 3")
        await tab.see("#server-ends", PICTURE)
        await tab.see("#server-stderr pre", PICTURE)
        assert await tab.count("#content img") == 0


async def test_a_server_that_dies_is_shown_live_with_the_focus_kept(browser: Chromium) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/server?name=wild")
        await opened.bus.call("wild_kinds", {"words": "w", "size": "small"})
        await tab.see("#server-calls", "wild_kinds")
        await tab.see("#server-stderr pre", "called kinds")
        # Somebody is about to restart it by keyboard.
        await tab.do("focus", "[aria-label='Restart wild']")
        await tab.run("window.before = document.querySelector('#server-state')")
        with pytest.raises(ConnectionLost):
            await opened.bus.call("wild_die", {})
        await tab.see("#server-stderr pre", "dying of")
        await tab.see("#server-ends td", "exit code")
        await tab.see("#server-state", "restarts1")
        await tab.see("#server-state .badge", "ready")
        assert await tab.run("window.before.isConnected") is False, "the stream has replaced it"
        hint = await tab.run("document.activeElement.getAttribute('aria-label')")
        assert hint == "Restart wild"


async def test_a_server_that_is_added_or_removed_appears_and_goes(browser: Chromium) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers?sort=name")
        await tab.see(row("wild"), "ready")
        await opened.bus.add_server("more", wild())
        await tab.see(f"{row('more')} .badge", "ready")
        await tab.run(f"document.querySelector({json.dumps(row('wild') + ' button')}).focus()")
        await opened.bus.remove_server("more")
        await tab.gone(row("more"))
        hint = await tab.run("document.activeElement.getAttribute('aria-label')")
        assert hint == "Restart wild"


async def test_the_table_is_filtered_and_sorted_by_keyboard_and_the_url_keeps_it(browser: Chromium) -> None:
    config = {"servers": {"wild": wild(lazy=True), "gone": {"command": "no-such-command-at-all"}}}
    async with console_over(config) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.do("focus", "#servers-search")
        await tab.do("keyboard.type", "wi")
        await tab.press("Enter")
        await tab.gone(row("gone"))
        await tab.do("focus", "thead >> text=Crashes per hour")
        await tab.press("Enter")
        await tab.see("[aria-current=true]", "Crashes per hour")
        url = await tab.do("url")
        assert "search=wi" in url
        assert "sort=crashes" in url
