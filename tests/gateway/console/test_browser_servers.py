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


def card(alias: str) -> str:
    """The selector of a server."""
    return f"#{anchor('server', alias)}"


async def test_a_server_that_could_not_start_is_restarted_and_comes_up_without_a_reload(
    browser: Chromium, tmp_path: Path
) -> None:
    needed = tmp_path / "needed"
    config = {"servers": {"wild": wild(str(needed)), "gone": {"command": "no-such-command-at-all"}}}
    async with console_over(config) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        await tab.see(f"{card('gone')} .badge", "failed")
        await tab.see(f"{card('gone')} .problem", "command 'no-such-command-at-all' not found")
        await tab.see(f"{card('wild')} .problem", "cannot start: </pre>")
        await tab.see("#servers-summary", "0 of 2 servers ready, 0 tools in the catalog")
        needed.touch()
        await tab.click(f"{card('wild')} button:has-text('Restart')")
        await tab.see(".notice", "Restarting wild.")
        await tab.see(f"{card('wild')} .badge", "ready")
        await tab.see("#servers-summary", "1 of 2 servers ready, 9 tools in the catalog")
        text = await tab.text(card("wild"))
        assert "era legacy (2025-06-18) transport stdio tools 9 restarts" in text
        await tab.click(f"{card('wild')} summary")
        await tab.see(f"{card('wild')} pre", PICTURE)
        assert await tab.count("#content img") == 0


async def test_a_server_that_dies_is_shown_live_with_the_focus_and_what_is_open_kept(
    browser: Chromium,
) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await opened.bus.call("wild_kinds", {"words": "w", "size": "small"})
        await tab.see(f"{card('wild')} summary", "Last 1 line on stderr")
        # Somebody has opened the lines by keyboard and stays there.
        await tab.do("focus", f"{card('wild')} summary")
        await tab.press("Enter")
        await tab.see(f"{card('wild')} pre", "called kinds")
        await tab.run("window.before = document.querySelector('details')")
        with pytest.raises(ConnectionLost):
            await opened.bus.call("wild_die", {})
        await tab.see(f"{card('wild')} pre", "dying of")
        await tab.see(f"{card('wild')} .facts", "restarts1")
        await tab.see(f"{card('wild')} .badge", "ready")
        assert await tab.run("window.before.isConnected") is False, "the stream has replaced it"
        assert await tab.run("document.activeElement.tagName") == "SUMMARY"
        assert await tab.run("document.activeElement.parentElement.open") is True


async def test_a_server_that_is_added_or_removed_appears_and_goes(browser: Chromium) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.see(card("wild"), "ready")
        await opened.bus.add_server("more", wild())
        await tab.see(f"{card('more')} .badge", "ready")
        await tab.run(f"document.querySelector({json.dumps(card('wild') + ' button')}).focus()")
        await opened.bus.remove_server("more")
        await tab.gone(card("more"))
        hint = await tab.run("document.activeElement.getAttribute('aria-label')")
        assert hint == "Restart wild"
