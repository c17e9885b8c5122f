"""The header and the search: what it finds, in which order, how much, and that its markup is ours."""

from typing import Any
from urllib.parse import quote

import pytest

import toolbus
from tests.gateway.console.opening import Markup, console_over, plain
from tests.gateway.console.wild import HOSTILE
from tests.inside.console import BY_PATH
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio


def _copy() -> str:
    """Copy a page of a book."""
    return "copied"


def _config(tools: int = 3) -> dict[str, Any]:
    many = FakeServer({f"copy_{number:04}": _copy for number in range(tools)})
    return {"servers": {"many": {"server": many}, "copier": {"server": FakeServer([_copy])}}}


def _hits(page: str) -> list[tuple[str, str]]:
    """Each group with where its first hit leads."""
    groups = page.partition('id="hits"')[2].partition("</main>")[0].split("<section")[1:]
    shown = [Markup(f"<section{group}") for group in groups]
    return [(str(one.named("section")[0]["aria-label"]), str(one.named("a")[0]["href"])) for one in shown]


async def test_servers_tools_calls_and_pages_are_found_the_best_first() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        await opened.bus.call("many_copy_0001", {})
        call = opened.console.calls.ended[0].id
        by_name = _hits(await opened.page("search?words=MANY_copy_0001"))
        by_about = _hits(await opened.page("search?words=copier+book"))
        by_server = _hits(await opened.page("search?words=copier"))
        by_title = _hits(await opened.page("search?words=calls"))
        at_first = [kind for kind, _ in _hits(await opened.page("search"))]
    assert by_name == [("Tools", "tools?tool=many_copy_0001"), ("Calls", f"call?id={call}")]
    assert by_about == [("Tools", "tools?tool=copier__copy")]
    assert by_server[0] == ("Servers", "server?name=copier")
    assert by_title[0] == ("Pages", "calls")
    assert at_first == ["Pages", "Servers"]


async def test_a_search_in_thousands_of_tools_shows_ten_and_says_how_many_more() -> None:
    async with console_over(_config(2000)) as opened:
        await opened.enter()
        page = await opened.page("search?words=copy")
        long = await opened.page(f"search?words={'x' * 3000}")
    assert page.count("tools?tool=") == 10
    assert "1,991 more; type more words to find them" in plain(page)
    assert len(page) < 20_000
    assert len(long) < 12_000


async def test_words_and_names_with_markup_are_text() -> None:
    config = {"servers": {HOSTILE: {"server": FakeServer([_copy]), "prefix": "x"}}}
    async with console_over(config) as opened:
        await opened.enter()
        none = Markup(await opened.page(f"search?words={quote(HOSTILE + 'y')}"))
        found = await opened.page("search?words=alert")
    assert [one["value"] for one in none.named("input") if one.get("name") == "words"] == [f"{HOSTILE}y"]
    assert none.named("img") == []
    assert Markup(found).named("img") == []
    assert _hits(found)[0][0] == "Servers"


async def test_every_page_says_which_process_it_shows() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        pages = [plain(await opened.page(path)) for path in ("servers", "inbox", "search")]
    for page in pages:
        assert f"no config file in {opened.bus.config.folder or ''}" in page
        assert f"toolbus {toolbus.__version__} started 20" in page


async def test_the_theme_stays_with_the_browser_and_leads_back_to_the_page() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        assert "data-theme" not in await opened.page("calls")
        done = await opened.post("theme/choose", {"theme": "dark", "back": "calls?server=many"})
        assert done.headers["location"] == "../calls?server=many"
        cookie = done.headers["set-cookie"]
        assert cookie.startswith("toolbus_console_theme=dark; Path=/console; Max-Age=31536000; HttpOnly")
        dark = Markup(await opened.page("calls"))
        await opened.enter()  # another session of the same browser
        again = Markup(await opened.page("calls"))
        await opened.post("theme/choose", {"theme": "system", "back": "calls"})
        system = await opened.page("calls")
    pressed = [one["value"] for one in dark.named("button") if one.get("aria-pressed") == "true"]
    assert dark.named("html")[0]["data-theme"] == again.named("html")[0]["data-theme"] == "dark"
    assert [one for one in pressed if one in ("light", "dark", "system")] == ["dark"]
    assert "data-theme" not in system


async def test_all_pages_of_the_navigation_have_the_same_order_everywhere() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        shown = [page for page in BY_PATH.values() if page.is_there(opened.console)]
        orders = {
            tuple(one["href"] for one in Markup((await opened.page(path)).partition("<nav")[2]).named("a"))[
                :4
            ]
            for path in [page.path for page in shown if not page.under]
        }
    assert len(orders) == 1
