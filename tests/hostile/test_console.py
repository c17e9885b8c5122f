"""The console under attack by other programs and pages of the same host, which share its cookies."""

import json
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from tests.cli.running import scripted, toolbus, write_config
from tests.cli.test_cli_serve_http import served
from tests.gateway.console.chromium import Chromium, started_or_skipped, token
from tests.gateway.console.opening import Opened, console_over, home_of
from tests.gateway.driving import JSON
from tests.gateway.front import Gates, gated
from tests.hostile.neighbor import ATTACK, neighbor
from tests.inside.console import BY_PATH, Console, Element, Page, PageRequest, element
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio

FORGED = [
    {},
    {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    {"sec-fetch-site": "same-origin", "x-forwarded-for": "127.0.0.1", "authorization": "Bearer x"},
]
READS = ("probe", "servers", "keys", "audit", "events/probe", "events/servers", "")
ACTION = "probe/press"


class Probe:
    """A page that counts how often it is read, and its button pressed."""

    def __init__(self) -> None:
        self.reads = 0
        self.presses = 0

    async def render(self, console: Console, request: PageRequest) -> Element:
        self.reads += 1
        return element("p", "what only the user may read", id="probe")

    async def press(self, console: Console, request: PageRequest) -> str:
        self.presses += 1
        return "probe"


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    """The probe, as the page `probe` with the action `press`."""
    made = Probe()
    page = Page(path="probe", title="Probe", render=made.render, actions={"press": made.press})
    monkeypatch.setitem(BY_PATH, "probe", page)  # pyright: ignore[reportArgumentType]  it is a dict
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """One Chromium for the tests of this file."""
    yield from started_or_skipped()


def _config() -> JSON:
    return {"servers": {"files": {"server": gated(Gates())}}}


async def _enter(opened: Opened) -> tuple[str, str]:
    """Let a browser in: what the URLs of its pages begin with, and its cookie."""
    async with httpx2.AsyncClient() as browser:
        entered = await browser.get(f"{opened.url}?token={token(opened)}")
    return home_of(opened.url, entered.headers["location"]), entered.headers["set-cookie"].partition(";")[0]


async def _replay(opened: Opened, homes: list[str], cookie: str) -> set[int]:
    """Use the console as a program that can send any header; returns how all of that was answered."""
    statuses = set[int]()
    async with httpx2.AsyncClient(timeout=PATIENCE) as program:
        for home, forged in product(homes, FORGED):
            headers = {"cookie": cookie, "referer": f"{opened.url}/servers", **forged}
            for path, method in product(READS, ("GET", "HEAD")):
                async with program.stream(method, f"{home}/{path}", headers=headers) as answered:
                    statuses.add(answered.status_code)
            form = {"origin": opened.origin, **headers}
            for path in (ACTION, "servers/restart"):
                posted = await program.post(f"{home}/{path}", data={"server": "files"}, headers=form)
                statuses.add(posted.status_code)
    return statuses


async def test_a_program_that_has_the_cookie_of_the_console(probe: Probe) -> None:
    """A cookie alone opens no page, stream or action, even with guesses."""
    async with console_over(_config()) as opened:
        home, cookie = await _enter(opened)
        value = cookie.partition("=")[2]
        guesses = ["", "/", "/token", "/static", "/%00", f"/{value}", f"/{home[-43:-1]}", "/x" * 20]
        statuses = await _replay(opened, [f"{opened.url}{guess}" for guess in guesses], cookie)
        assert (statuses, probe.reads, probe.presses) == ({401}, 0, 0)
        assert opened.bus.servers["files"].restarts == 0
        assert not opened.console.board.is_watched
        allowed = await _replay(opened, [home], cookie)
    assert (allowed, probe.presses) == ({200, 303, 404}, len(FORGED))


async def test_somebody_who_has_the_url_of_a_page(probe: Probe) -> None:
    """A URL from a history or the log of a proxy opens nothing without the cookie of its browser."""
    async with console_over(_config()) as opened:
        home, cookie = await _enter(opened)
        _, other = await _enter(opened)
        name, _, value = cookie.partition("=")
        for wrong in (
            "",
            "a=b",
            f"{name}=",
            f"{name}={value[:-1]}",
            f"{name}={home[-43:]}",
            f"x{cookie}",
            other,
        ):
            assert await _replay(opened, [home], wrong) == {401}
    assert (probe.reads, probe.presses) == (0, 0)


async def test_cookies_of_the_same_name_from_another_port(probe: Probe) -> None:
    """They neither lock the user out nor become a session; and too many of them are explained."""
    async with console_over(_config()) as opened:
        home, cookie = await _enter(opened)
        name = cookie.partition("=")[0]
        tossed = "; ".join(f"{name}=tossed-{number}" for number in range(180))
        async with httpx2.AsyncClient(timeout=PATIENCE) as browser:
            for sent in (f"{tossed}; {cookie}", f"{cookie}; {tossed}"):
                assert (await browser.get(f"{home}/probe", headers={"cookie": sent})).status_code == 200
            fixed = {"cookie": f"{name}=tossed-1"}
            entered = await browser.get(f"{opened.url}?token={token(opened)}", headers=fixed)
            assert "tossed" not in entered.headers["set-cookie"] + entered.headers["location"]
            full = await browser.get(f"{home}/probe", headers={"cookie": f"{cookie}; x={'x' * 40_000}"})
        assert await _replay(opened, [home_of(opened.url, entered.headers["location"])], tossed) == {401}
    assert full.status_code == 431
    assert "delete the cookies of this host" in full.text


async def test_a_page_on_another_port_that_gets_the_cookies_of_the_browser(
    browser: Chromium, probe: Probe
) -> None:
    """Neither the cookies that it is sent, nor all that the browser has, let its server use the console."""
    async with console_over(_config()) as opened, neighbor() as page, browser.tab(harmless=False) as tab:
        await tab.enter(opened)
        for path in ("/", "/console", "/console/", "/console/servers", "/console/static/console.js"):
            await tab.goto(f"{page.url}{path}")
        sent = {cookie for cookie in page.cookies if "toolbus" in cookie}
        has = {f"{one['name']}={one['value']}" for one in await tab.do("cookies")}
        assert has, "the user is admitted"
        for cookie in sent | has:
            assert await _replay(opened, [opened.url, f"{opened.url}/x"], cookie) == {401}
        assert (sent, probe.reads, probe.presses) == (set(), 0, 0)


async def test_a_page_on_another_port_that_uses_the_console_in_the_browser(
    browser: Chromium, probe: Probe
) -> None:
    """It reads nothing, does nothing and learns no URL, by scripts, frames, forms, windows or Referer."""
    names = ("", "/probe", f"/{ACTION}", "/events/probe", "/x/probe", f"/x/{ACTION}")
    async with console_over(_config()) as opened, neighbor() as page, browser.tab(harmless=False) as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/probe")
        await tab.see("#probe")
        before = probe.reads
        await tab.run(f"location.href = {json.dumps(page.url)}")
        await tab.see("#neighbor")
        learned = await tab.run(f"({ATTACK})({json.dumps([opened.url, names])})")
        assert (learned, probe.reads, probe.presses) == ([], before, 0)
        assert not [head for head in page.heads if opened.url in head]
        await tab.goto(f"{tab.home}/probe")  # the user goes on, with the cookies that the page has set
        await tab.see("#probe")
        await tab.do("reload")
        await tab.click("nav a >> nth=1")
        await tab.see("h1", "Servers")


def test_a_reader_of_logs(tmp_path: Path) -> None:
    """Neither of a session's secrets is in a log, the audit trail, the metrics or an error page."""
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    post = scripted(folder, "post", tools=[{"name": "send"}])
    write_config(folder, {"post": post}, audit="audit.jsonl")
    with served(folder, "-vv") as gateway:
        url = toolbus("console", "--print", folder=folder).stdout.strip()
        visit, shown = _visit(url), gateway.get("/metrics")[1].decode()
        gateway.process.send_signal(signal.SIGTERM)
        logs = gateway.process.communicate(timeout=PATIENCE)
    texts = [*logs, shown, (folder / "audit.jsonl").read_text(), *visit.pages]
    assert all(len(secret) == 43 for secret in visit.secrets)
    assert "send" in texts[3], "the call of the console is in the trail"
    assert [text for text in texts if any(secret in text for secret in visit.secrets)] == []


class Visit(NamedTuple):
    """A visit of the console that has ended."""

    secrets: tuple[str, ...]
    pages: list[str]


def _visit(url: str) -> Visit:
    """Enter a console, read some pages, make a call, and make all kinds of mistakes."""
    base, _, token = url.partition("?token=")
    with httpx2.Client(timeout=PATIENCE) as browser:
        entered = browser.get(url)
        home = home_of(base, entered.headers["location"])
        cookie = entered.headers["set-cookie"].partition(";")[0].partition("=")[2]
        own, form = (
            {"origin": base.removesuffix("/console")},
            {"name": "post_send", "server": "no such server"},
        )
        pages = [browser.get(f"{home}/{path}") for path in ("servers", "audit", "nowhere", "tools?a=%ff")]
        for path in ("servers/restart", "tools/call", "x/y"):
            pages.append(browser.post(f"{home}/{path}", data=form, headers=own))
        for wrong in ({"cookie": "a=b"}, {"host": "evil.example"}, {"x-forwarded-for": "203.0.113.7"}):
            pages.append(browser.get(f"{home}/servers", headers=wrong))
        pages += [browser.put(f"{home}/servers"), browser.post(f"{home}/tools/call", json={}, headers=own)]
    return Visit((token, home[-43:], cookie), [page.text for page in pages])


@pytest.mark.parametrize(
    "back",
    [
        "//evil.example",
        "https://evil.example",
        "../../evil",
        "/evil",
        "servers/../../x",
        "nowhere",
        "servers\r\nx: y",
    ],
)
async def test_a_form_that_sends_the_browser_elsewhere_after_it(back: str) -> None:
    """A form sends back the page to return to; anything but a page of the console leads to the first one."""
    async with console_over(_config()) as opened:
        await opened.enter()
        for path, form in (("theme/choose", {"theme": "dark"}), ("inbox/answer", {"number": "1"})):
            done = await opened.post(path, {**form, "back": back})
            assert done.status_code == 303
            place = done.headers["location"].removeprefix("../")
            assert place in BY_PATH
            assert "x" not in done.headers


async def test_a_theme_that_is_none_and_a_theme_for_somebody_else() -> None:
    """No text of a request becomes a cookie or an attribute, and only a page of the session sets one."""
    async with console_over(_config()) as opened:
        await opened.enter()
        done = await opened.post("theme/choose", {"theme": "dark; Domain=evil", "back": "servers"})
        assert done.headers["set-cookie"].startswith(
            "toolbus_console_theme=; Path=/console; Max-Age=0; HttpOnly"
        )
        refused = await opened.post("theme/choose", {"theme": "dark"}, origin="http://evil.example")
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        opened.http.cookies.set("toolbus_console_theme", '"><script>', path="/console")
        assert "data-theme" not in await opened.page("servers")
