"""Every page in a real browser: no code of a server runs, it fits a phone, the keyboard does it all."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.console.chromium import SMALL, WIDE, Chromium, Tab, token
from tests.gateway.console.house import TOO_WIDE, full_house, paths, use
from tests.gateway.console.opening import console_over, home_of
from tests.gateway.console.test_browser_servers import row, wild
from tests.gateway.console.wild import PICTURE
from tests.inside.console import SESSION_SECONDS
from tests.patience import until
from toolbus import ToolbusError

pytestmark = pytest.mark.anyio

INJECTED = """[...document.querySelectorAll('*')].filter((one) =>
  ['STYLE', 'IFRAME', 'B'].includes(one.tagName)
  || (one.tagName === 'IMG' && !one.src.startsWith('data:image/png;base64,'))
  || (one.tagName === 'SCRIPT' && !one.src.includes('/console/static/'))
  || [...one.attributes].some((given) => given.name.startsWith('on'))
).map((one) => one.outerHTML)"""
TEXTS = """[document.body.innerText, ...[...document.querySelectorAll('*')].flatMap((one) =>
  [...one.attributes].filter((given) => given.name !== 'value').map((given) => given.value))].join(' ')"""
REACHABLE = """a[href], button:not([tabindex='-1']), input:not([type=hidden], [type=radio]:not(:checked)),
  select, textarea, summary, [tabindex='0']"""
"""The elements that Tab reaches: the chosen one of a group of radio buttons; arrows choose another one."""

FAINT = """[...document.querySelectorAll('p, dt, dd, h1, h2, a, button, .badge')].map((one) => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (any) => getComputedStyle(any).backgroundColor;
  let behind = one;
  while (back(behind) === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
  const pair = [light(getComputedStyle(one).color), light(back(behind))];
  const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  return [contrast, one.outerHTML.slice(0, 80)];
}).filter(([contrast]) => contrast < 4.5)"""
"""Texts with too little contrast to be read by everybody."""


async def _is_harmless(tab: Tab) -> None:
    """Whether a page shows text as text, and fits the screen."""
    assert await tab.run(INJECTED) == []
    assert not set("\x1b\u202e\u200b\U000e0041") & set(await tab.run(TEXTS))
    assert await tab.run(TOO_WIDE) is None


async def test_no_markup_of_a_server_gets_into_a_page_and_every_page_fits_a_phone(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}
    async with full_house(tmp_path, monkeypatch) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        waiting = await use(opened)
        for path in paths(opened):
            await tab.goto(f"{tab.home}/{path}")
            await tab.see("#content")
            # Also what the stream brings: everything, once more.
            await tab.run(
                "document.querySelectorAll('[data-live]').forEach((one) => one.dataset.live = 'old')"
            )
            await tab.run("document.querySelectorAll('details').forEach((one) => one.open = true)")
            await tab.run("(disconnect(), connect())")
            await tab.do("waitForSelector", "[data-live=old]", {"state": "detached"})
            await _is_harmless(tab)
            seen[path] = await tab.text()
        for task in waiting:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    missing = [
        path for path, text in seen.items() if PICTURE not in text and path not in ("search", "add-server")
    ]
    assert missing == []
    assert all(isinstance(one, asyncio.CancelledError | ToolbusError) for one in ended), ended


async def test_the_keyboard_reaches_all_that_can_be_done(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = f"""[...document.querySelectorAll(`{REACHABLE}`)].filter((one) => one.checkVisibility()
      && !one.closest('details:not([open]) > :not(summary)')).length"""
    focus = f"""[...document.querySelectorAll(`{REACHABLE}`)].indexOf(document.activeElement)"""
    async with full_house(tmp_path, monkeypatch) as opened, browser.tab(colorScheme="dark") as tab:
        await tab.enter(opened)
        waiting = await use(opened)
        for path in paths(opened):
            await tab.goto(f"{tab.home}/{path}")
            wanted, reached = await tab.run(count), set[int]()
            for _ in range(wanted + 3):
                await tab.press("Tab")
                reached.add(await tab.run(focus))
            assert len(reached - {-1}) >= wanted, path
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_server_is_restarted_and_a_page_opened_by_keyboard_alone(browser: Chromium) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.see(row("wild"), "ready")
        await tab.press("Tab")
        assert await tab.text(":focus") == "Skip to the content"
        assert await tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await tab.press("Enter", "Tab")
        assert await tab.text(":focus") == "Add a server"
        await tab.do("focus", "[aria-label='Restart wild']")
        await tab.press("Space")
        await tab.see(".notice", "Restarting wild.")
        await until(lambda: opened.bus.servers["wild"].restarts == 1)
        await tab.do("focus", "nav a >> text=Tools")
        await tab.press("Enter")
        await tab.see("h1", "Tools")


LOADED = (
    "document.readyState === 'complete' || new Promise((done) => addEventListener('load', () => done(true)))"
)
"""Waits for the styles of a page, whose text may be there before."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read_in_light_and_in_dark(browser: Chromium, scheme: str) -> None:
    config = {"servers": {"wild": wild(), "gone": {"command": "no-such-command-at-all"}}}
    async with console_over(config) as opened, browser.tab(colorScheme=scheme) as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.see(row("wild"), "ready")
        await tab.click(f"{row('wild')} button")
        await tab.see(".notice")
        await tab.run(LOADED)
        assert await tab.run(FAINT) == []
        page = await tab.run("getComputedStyle(document.body).backgroundColor")
    assert page == ("rgb(246, 247, 249)" if scheme == "light" else "rgb(17, 20, 24)")


async def test_the_token_lets_one_browser_in_and_leaves_no_trace(browser: Chromium) -> None:
    async with console_over({"servers": {"wild": wild()}}) as opened, browser.tab(viewport=WIDE) as tab:
        once = token(opened)
        await tab.goto(f"{opened.url}?token={once}")
        await tab.see("h1", "Overview")
        home = home_of(opened.url, (await tab.do("url")).removeprefix(f"{opened.origin}/"))
        [cookie] = await tab.do("cookies")
        path = home.removeprefix(opened.origin)
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", path)
        assert await tab.run("document.cookie") == ""
        async with browser.tab(harmless=False) as other:
            await other.goto(f"{opened.url}?token={once}")
            await other.see("h1", "Not signed in")
            await other.see("p", "That link was used before")
            await other.goto(f"{home}/servers")
            await other.see("code", "toolbus console")
            assert await other.do("cookies") == []


async def test_a_page_whose_session_ended_says_how_to_go_on(browser: Chromium) -> None:
    now = [0.0]
    async with console_over({}, clock=lambda: now[0]) as opened, browser.tab(harmless=False) as tab:
        await tab.enter(opened)
        now[0] += SESSION_SECONDS
        await tab.run("(disconnect(), connect())")
        await tab.see("#connection", "not connected; reload the page")
        await tab.do("reload")
        await tab.see("h1", "Not signed in")
        await tab.see("p", "Run toolbus console to open the console.")


async def test_a_form_on_a_page_of_others_does_nothing(browser: Chromium) -> None:
    """Of another port of this machine, which somehow knows the secret of the URLs."""
    config = {"servers": {"wild": wild()}}
    form = "<form method=post action={}/servers/restart><input name=server value=wild><button>Press"

    async def other_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = form.format(tab.home).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with console_over(config) as opened, browser.tab(harmless=False) as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.see(row("wild"), "ready")
        other = await asyncio.start_server(other_page, "127.0.0.1", 0)
        async with other:
            await tab.goto(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/")
            await tab.click("button")
            await tab.see("h1", "Not from there")
        assert opened.bus.servers["wild"].restarts == 0
