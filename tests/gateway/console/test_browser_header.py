"""The header in a real browser: the palette, the search without script, the theme, the pages on a phone."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.gateway.console.chromium import SMALL, Chromium
from tests.gateway.console.opening import console_over
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio


def _copy() -> str:
    """Copy a page of a book."""
    return "copied"


def _config() -> dict[str, Any]:
    return {"servers": {name: {"server": FakeServer([_copy])} for name in ("books", "maps")}}


async def test_a_tool_is_found_by_keyboard_on_any_page(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab(harmless=False) as tab:
        await tab.enter(opened)
        for key in ("Control+k", "/"):
            await tab.goto(f"{tab.home}/calls")
            await tab.see("#connection.live", "live")
            await tab.press(key)
            await tab.see("#palette .hits h2", "Pages")
            await tab.do("keyboard.type", "copy book")
            await tab.see("#palette a.chosen", "books__copy")
            await tab.press("Escape")
            await tab.gone("#palette")
            await tab.press(key)
            await tab.see("#palette a.chosen", "books__copy")
            await tab.press("ArrowDown", "ArrowDown")
            assert "maps__copy" in await tab.text(":focus")
            await tab.press("ArrowUp", "ArrowUp", "Enter")
            await tab.do("waitForURL", f"{tab.home}/tools?tool=books__copy")


async def test_a_slash_in_a_field_is_a_slash(browser: Chromium) -> None:
    async with console_over(_config()) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/search")
        await tab.click("#words")
        await tab.do("keyboard.type", "a/b")
        assert await tab.do("inputValue", "#words") == "a/b"
        assert await tab.count("dialog") == 0


async def test_the_search_and_the_theme_need_no_script(browser: Chromium) -> None:
    async with (
        console_over(_config()) as opened,
        browser.tab(javaScriptEnabled=False, colorScheme="light") as tab,
    ):
        await tab.enter(opened)
        background = "getComputedStyle(document.body).backgroundColor"
        light = await tab.run(background)
        await tab.goto(f"{tab.home}/calls?server=books")
        await tab.click(".theme >> text=Dark")
        await tab.see(":root[data-theme=dark]")
        await tab.loaded()
        assert await tab.do("url") == f"{tab.home}/calls?server=books"
        assert await tab.run(background) != light
        await tab.click("#find")
        await tab.fill("#words", "copy")
        await tab.press("Enter")
        await tab.see("#hits a", "maps__copy")
        await tab.loaded()
        assert await tab.run(background) != light
        await tab.click(".theme >> text=System")
        await tab.gone(":root[data-theme]")
        await tab.loaded()
        assert await tab.run(background) == light


async def test_the_pages_are_behind_a_menu_on_a_phone_and_the_inbox_is_not(browser: Chromium) -> None:
    rules = [{"do": "ask", "tools": "books/*"}]
    async with (
        console_over({**_config(), "policy": rules}) as opened,
        browser.tab(viewport=SMALL) as tab,
    ):
        await tab.enter(opened)
        call = asyncio.create_task(opened.bus.call("books__copy", {}))
        await tab.see("nav .count", "1")
        assert not await tab.do("isVisible", "nav >> text=Calls")
        await tab.do("focus", "#menu summary")
        await tab.press("Enter")
        await tab.see("nav a >> text=Calls")
        await tab.see(".context", "toolbus ")
        await tab.press("Enter")
        await tab.gone("nav a >> text=Calls")
        await tab.click("nav >> text=Inbox")
        await tab.see("article h2", "Allow a call of books__copy?")
        buttons = "[...document.querySelectorAll('.answers button')]"
        shapes = (
            "map((one) => one.getBoundingClientRect()).map(({ top, bottom, width }) => [top, bottom, width])"
        )
        boxes = await tab.run(f"{buttons}.{shapes}")
        assert all(bottom - top >= 48 and width > 280 for top, bottom, width in boxes)
        assert min(below[0] - above[1] for above, below in pairwise(boxes)) >= 12
        await tab.click("button:text-is('Allow once')")
        assert (await call).text == "copied"
