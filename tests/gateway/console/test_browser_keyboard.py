"""A person without a mouse: find a tool, call it, allow the call, answer its question, and see the result."""

import pytest

from tests.gateway.console.chromium import Chromium, Tab
from tests.gateway.console.opening import console_over
from tests.inside.console import anchor
from tests.servers.asking import asking

pytestmark = pytest.mark.anyio

MOST_KEYS = 80


async def tab_to(tab: Tab, selector: str) -> None:
    """Press Tab until that element has the focus."""
    for _ in range(MOST_KEYS):
        if await tab.run(f"document.activeElement.matches({selector!r})"):
            return
        await tab.press("Tab")
    raise AssertionError(f"Tab does not reach {selector}")


async def _go_to(tab: Tab, words: str, hit: str) -> None:
    """Find a page by the palette."""
    await tab.press("Control+k")
    await tab.do("keyboard.type", words)
    await tab.see("#palette a.chosen", hit)
    await tab.press("Enter")


async def test_a_call_is_found_made_allowed_and_answered_by_keyboard_alone(browser: Chromium) -> None:
    config = {
        "servers": {"inn": {"server": asking(), "era": "modern"}},
        "policy": [{"do": "ask", "tools": "inn/book"}],
    }
    async with console_over(config) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.see("#connection.live")
        await _go_to(tab, "inn book", "inn_book")
        await tab.see("h2", "inn_book")
        await tab_to(tab, f"[name={anchor('field', 'guest')!r}]")
        await tab.do("keyboard.type", "Ann")
        await tab.press("Control+Enter")
        await tab.see("nav .count", "1")
        await _go_to(tab, "inbox", "Inbox")
        await tab.see("article h2", "Allow a call of inn_book?")
        await tab.press("j", "Enter")
        assert await tab.text(":focus") == "Allow once"
        await tab.press("Enter")
        await tab.see(".notice", "Allowed once.")
        await tab.see("nav .count", "1")
        await _go_to(tab, "inbox", "Inbox")
        await tab.see("article h2", "inn asks")
        await tab.press("j", "Enter")
        await tab.do("keyboard.type", "12242026")
        await tab_to(tab, "button[value=accept]")
        await tab.press("Enter")
        await tab.see(".notice", "Answered.")
        await tab.gone("nav .count")
        assert "call?id=" in await tab.do("url")
        await tab.see("#content .badge", "ok")


async def test_j_and_k_walk_the_queue_and_no_key_answers_by_itself(browser: Chromium) -> None:
    config = {
        "servers": {"inn": {"server": asking(), "era": "modern"}},
        "policy": [{"do": "ask", "tools": "inn/*"}],
    }
    async with console_over(config) as opened, browser.tab() as tab:
        await tab.enter(opened)
        view = opened.bus.view()
        calls = [opened.console.begin(view.call("inn_book", {"guest": name}), name) for name in "ABC"]
        await tab.goto(f"{tab.home}/inbox")
        await tab.see("article >> nth=2")
        shown = "[...document.querySelectorAll('article')].indexOf(document.activeElement)"
        places = list[int]()
        for key in ("j", "j", "j", "j", "k", "k", "k"):
            await tab.press(key)
            places.append(await tab.run(shown))
        assert places == [0, 1, 2, 2, 1, 0, 0]
        await tab.press("Enter", "Escape")
        assert await tab.run(shown) == 0
        assert len(opened.console.board.waiting) == 3
        for call in calls:
            call.cancel()
