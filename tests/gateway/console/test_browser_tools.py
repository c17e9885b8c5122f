"""The catalog, the form of a tool and the calls in a real browser."""

import json

import pytest

from tests.gateway.console.chromium import SMALL, Chromium, Tab
from tests.gateway.console.opening import console_over
from tests.gateway.console.test_browser_servers import wild
from tests.gateway.console.wild import HOSTILE
from tests.inside.console import anchor

pytestmark = pytest.mark.anyio


def field(name: str) -> str:
    """The selector of a field of a tool's form."""
    return f"#call-{anchor('field', name)}"


async def _result(tab: Tab) -> str:
    """The text of a result, once it is shown."""
    await tab.see("#trial .badge", "done")
    return await tab.do("innerText", "#trial .view-shown pre >> nth=0")


async def test_a_tool_is_found_its_form_filled_in_and_its_result_shown(browser: Chromium) -> None:
    config = {"servers": {"wild": wild()}}
    async with console_over(config) as opened, browser.tab(viewport=SMALL, colorScheme="dark") as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/tools")
        await tab.see("#list-summary", "9 tools, about ")
        # What is typed stays while the catalog changes.
        await tab.do("type", "#search", "kinds")
        await tab.see("#list-summary", "1 of 9 tools, about ")
        await opened.bus.call("wild_change", {})
        await tab.see("#list-summary", "1 of 10 tools, about ")
        assert await tab.do("inputValue", "#search") == "kinds"
        assert await tab.run("document.activeElement.id") == "search"
        await tab.click("#list a >> text=kinds")
        await tab.fill(field("words"), "tea & <b>milk</b>")
        await tab.fill(field("many"), "4")
        await tab.fill(field("ratio"), "0.5")
        await tab.do("selectOption", field("loud"), "true")
        await tab.do("selectOption", field("size"), '"large"')
        await tab.fill(f"{field('tags')} input[type=text]", "a")
        await tab.fill(field("more"), '{"deep": {"er": null}}')
        await tab.fill("#call-form > div.field >> nth=-1 >> :is(input, textarea)", "plain")
        await tab.click("#call")
        sent = json.loads(await _result(tab))
        await tab.see("#trial img")
        width = await tab.run("document.querySelector('#trial img').naturalWidth")
        assert await tab.do("inputValue", field("words")) == "tea & <b>milk</b>", (
            "to be changed and sent again"
        )
    expected = {"words": "tea & <b>milk</b>", "many": 4, "ratio": 0.5, "loud": True, "size": "large"}
    assert sent == {**expected, "tags": ["a"], "more": {"deep": {"er": None}}, HOSTILE: "plain"}
    assert width == 48, "the picture is shown"


async def test_progress_is_live_and_what_is_typed_meanwhile_stays(browser: Chromium) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/tools?tool=wild_slow")
        await tab.click("#call")
        await tab.see("#trial progress")
        await tab.see("#trial", "1 of 4")
        await opened.bus.call("wild_go_on", {})
        await tab.see("#trial .badge", "done")
        await tab.see("#trial pre", "it went on")
        await tab.click("#call")
        await tab.see("#trial .badge", "running")
        await tab.click("#trial button:text-is('Cancel')")
        await tab.see("#trial .badge", "canceled")
