"""Apps of hostile servers in a real browser: their frames, their calls, and what they ask the person."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.gateway.console.app_pages import ALLOW_ONCE, app_of, app_says, dashboard, in_app
from tests.gateway.console.chromium import Chromium, Tab, started_or_skipped
from tests.gateway.console.opening import Opened, console_over
from tests.hostile.neighbor import neighbor
from tests.inside.console import app_policy
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.anyio

# Everything that it tries gives what it gained; an exception is no gain.
ATTACK = """
async (urls) => {
  const gained = [];
  const attempt = async (name, work) => {
    try { const value = await work(); if (value) gained.push(`${name}: ${value}`); } catch {}
  };
  for (const around of ["parent", "top"]) {
    await attempt(`${around} document`, () => window[around].document.body.innerText);
    await attempt(`${around} address`, () => window[around].location.href);
    await attempt(`${around} storage`, () => window[around].localStorage.length >= 0 && "read");
    await attempt(`${around} navigated`, () => { window[around].location.href = urls[0]; return ""; });
  }
  await attempt("cookies", () => { document.cookie = "a=b"; return "set, or read: " + document.cookie; });
  await attempt("local storage", () => { localStorage.a = 1; return "written"; });
  await attempt("databases", () => new Promise((done, fail) => {
    const opened = indexedDB.open("a");
    [opened.onsuccess, opened.onerror] = [() => done("opened"), fail];
  }));
  await attempt("window", () => window.open(urls[0]) && "opened");
  for (const url of urls) {
    const mode = "no-cors";
    for (const options of [{}, { credentials: "include" }, { mode }, { method: "POST", mode }]) {
      await attempt(`fetched ${url}`, async () => (await fetch(url, options)).type);
    }
    await attempt(`beacon ${url}`, () => { navigator.sendBeacon(url, "x"); return ""; });
    await attempt(`socket ${url}`, () => new Promise((done, fail) => {
      const socket = new WebSocket(url.replace("http", "ws"));
      [socket.onopen, socket.onerror] = [() => done("open"), fail];
    }));
    for (const tag of ["img", "script", "iframe", "link", "object", "video"]) {
      const one = { src: url, href: url, data: url, rel: "stylesheet" };
      document.body.append(Object.assign(document.createElement(tag), one));
    }
    const base = Object.assign(document.createElement("base"), { href: url });
    document.head.append(base);
    await attempt("base", () => document.baseURI.startsWith(url) && "set");
  }
  const worker = new Worker(URL.createObjectURL(new Blob([`importScripts(${JSON.stringify(urls[0])})`])));
  await new Promise((done) => { worker.onerror = done; });
  return gained;
}
"""
FLOOD = 4000


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """One Chromium for the tests of this file."""
    yield from started_or_skipped()


def two(script: str = "", **more: Any) -> dict[str, Any]:
    return {"servers": {"dash": dashboard(script, **more), "other": dashboard()}}


def calls_of_apps(opened: Opened) -> list[str]:
    log = opened.console.calls
    ended = [*log.ended, *log.in_flight]
    return [
        f"{one.server}/{one.tool}" for one in ended if (one.caller.face, one.route) == ("app", "tools/call")
    ]


async def test_an_app_that_reaches_for_the_console_the_browser_and_the_network(browser: Chromium) -> None:
    """Although its server asks for all of that in its content security policy."""
    async with neighbor() as page:
        wanted = [
            page.url,
            page.url.replace("127.0.0.1", "localhost"),
            "*",
            "http:",
            "'self'",
            "data:",
            "blob:",
        ]
        csp = {f"{kind}Domains": wanted for kind in ("connect", "resource", "frame", "baseUri")}
        async with app_of(browser, two(ui={"csp": csp}), harmless=False) as (opened, tab):
            await app_says(tab, "result: show {}")
            urls = [page.url, opened.url, f"{tab.home}/servers", f"{opened.origin}/mcp"]
            before = len(page.heads)
            address = await tab.do("url")
            assert await in_app(tab, f"({ATTACK})({json.dumps(urls)})") == []
            assert await in_app(tab, "self.origin") == "null"
            assert page.heads[before:] == []
            assert await tab.do("url") == address
            assert len(await tab.do("pages")) == 1


LEAVE = "location.href = URL"
SUBMIT = """
const form = Object.assign(document.createElement("form"), { action: URL, method: "post" });
document.body.append(form);
form.submit()
"""


async def _first_problem(tab: Tab) -> str:
    """Wait until the browser reports something."""
    async with asyncio.timeout(PATIENCE):
        while not (seen := await tab.problems()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return " ".join(seen)


@pytest.mark.parametrize("script", [LEAVE, SUBMIT], ids=["location", "form"])
async def test_an_app_that_leaves_its_frame_for_another_page(script: str, browser: Chromium) -> None:
    """The frame then has an error of the browser in it, and the console goes on."""
    async with neighbor() as page, app_of(browser, two(), harmless=False) as (_, tab):
        await app_says(tab, "result: show {}")
        await tab.problems()
        await in_app(tab, f"void setTimeout(() => {{ {script.replace('URL', json.dumps(page.url))} }})")
        assert "Content Security Policy" in await _first_problem(tab)
        await tab.click("#call")
        await app_says(tab, "result: show {}")
        assert page.heads == []


@pytest.mark.parametrize(
    "source",
    [
        "https://a.example.com; script-src *",
        "https://a.example.com script-src",
        "https://a.example.com\r\nset-cookie: a=b",
        "https://a.example.com,default-src *",
        "*",
        "https:",
        "https://*",
        "https://*.com*",
        "data:",
        "'unsafe-eval'",
        "'none'",
        "javascript://a",
        "https://user@a.example.com",
        "https://a.example.com/path;x",
        "http://127.0.0.1:7400",
        "http://127.1",
        "http://2130706433",
        "http://0x7f000001",
        "http://0.0.0.0",
        "http://169.254.169.254",
        "http://localhost",
        "http://x.localhost:7400",
        "https://tools.example.com",
        "https://TOOLS.example.com/",
        "https://ä.example.com",
        7,
        None,
        ["https://a.example.com"],
    ],
)
def test_a_source_that_is_none_or_leads_to_this_machine_is_left_out(source: Any) -> None:
    """The content security policy of an app names no such source."""
    ui = {"csp": {"connectDomains": [source, "https://ok.example.com", "wss://*.ok.example.com:8443"]}}
    made = app_policy(ui, "tools.example.com")
    assert made.sources == {"connectDomains": ("https://ok.example.com", "wss://*.ok.example.com:8443")}
    header = made.header(("http://127.0.0.1:1", "http://127.0.0.1:2"))
    directives = dict(part.split(" ", 1) for part in header.split("; "))
    assert directives == {
        "default-src": "'none'",
        "script-src": "'unsafe-inline'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "font-src": "data:",
        "media-src": "data: blob:",
        "worker-src": "blob:",
        "connect-src": "https://ok.example.com wss://*.ok.example.com:8443",
        "frame-src": "'none'",
        "base-uri": "'none'",
        "object-src": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "http://127.0.0.1:1 http://127.0.0.1:2",
        "sandbox": "allow-scripts allow-forms",
    }


@pytest.mark.parametrize(
    "csp", ["x", 7, [], {"connectDomains": "https://a.example.com"}, {"connectDomains": {}}]
)
def test_a_policy_of_another_shape_allows_nothing(csp: Any) -> None:
    """A malformed policy of an app is the strictest one."""
    assert app_policy({"csp": csp, "permissions": "camera"}, "x").sources == {}
    many = app_policy({"csp": {"frameDomains": [f"https://h{n}.example.com" for n in range(999)]}}, "x")
    assert len(many.header(()).encode()) < 4000


async def test_messages_that_do_not_come_through_the_frame_around_the_app(browser: Chromium) -> None:
    """They are ignored."""
    forged: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 99,
        "method": "tools/call",
        "params": {"name": "pay", "arguments": {}},
    }
    async with app_of(browser, two()) as (opened, tab):
        await app_says(tab, "result: show {}")
        await in_app(tab, f"top.postMessage({json.dumps(forged)}, '*')")
        await tab.run(f"window.postMessage({json.dumps(forged)}, '*')")
        inner = "<script>top.postMessage(FORGED, '*'); parent.parent.postMessage(FORGED, '*')</script>"
        srcdoc = json.dumps(inner.replace("FORGED", json.dumps(forged)))
        await in_app(
            tab,
            f"document.body.append(Object.assign(document.createElement('iframe'), {{srcdoc: {srcdoc}}}))",
        )
        assert await in_app(tab, "call('refresh')") == "refresh {}", "its own messages are taken"
        assert calls_of_apps(opened) == ["dash/refresh"]
        for odd in (
            "null",
            "7",
            "'x'",
            "[]",
            "{}",
            "{jsonrpc: '2.0', id: {}, method: 'ping'}",
            "new Map()",
            "1n",
        ):
            await in_app(tab, f"parent.postMessage({odd}, '*')")
        for name in ("__proto__", "constructor", "toString"):
            assert (await in_app(tab, f"ask('{name}', {{}})"))["error"]["code"] == -32601
        assert await in_app(tab, "call('refresh')") == "refresh {}"


async def test_an_app_that_names_tools_and_apps_of_another_server(browser: Chromium) -> None:
    """It reaches its own server only."""
    async with app_of(browser, two()) as (opened, tab):
        await app_says(tab, "result: show {}")
        for name in ("other_refresh", "other/refresh", "other_pay", "call_tool"):
            assert (await in_app(tab, f"call('{name}')")).startswith("error: ")
        for uri in ("ui://other/dash/app.html", "other+data://notes"):
            assert "error" in await in_app(tab, f"ask('resources/read', {{ uri: '{uri}' }})")
        assert {one.server for one in opened.console.calls.ended} == {"dash"}
        assert calls_of_apps(opened) == []


async def test_an_app_that_wants_the_person_to_approve_by_accident(browser: Chromium) -> None:
    """A key or a click that is meant for the app, and an app that moves while a person decides."""
    script = """begin = () => {
      document.body.innerHTML += '<button id="go">Play</button>';
      const go = document.getElementById("go");
      go.onclick = () => { go.onclick = null; call("pay").then(say); };
    };"""
    given = {**two(script), "policy": [{"do": "ask", "tools": "*/pay"}]}
    async with app_of(browser, given) as (opened, tab):
        await app_says(tab, "Play")
        await tab.do("frame.click", "/view", "#go")
        await tab.see("#questions-here .card")
        await tab.press("Enter", "Space", "Enter", "Tab", "Enter")
        assert [one.question.name for one in opened.console.board.waiting.values()]  # pyright: ignore
        assert await tab.run("document.activeElement.closest('#questions-here')") is None
        held = await tab.run("document.querySelector('#questions-here .card').inert")
        before = await tab.run(
            "JSON.stringify(document.querySelector('#questions-here').getBoundingClientRect())"
        )
        await in_app(tab, "tell('ui/notifications/size-changed', { height: 777, width: 9999 })")
        await in_app(tab, "ask('ping', {})")
        assert await tab.run("document.querySelector('#app iframe').style.height") != "777px"
        after = await tab.run(
            "JSON.stringify(document.querySelector('#questions-here').getBoundingClientRect())"
        )
        assert (held, after) == (True, before)
        await tab.do("waitForSelector", "#questions-here .card:not([inert])")
        top = """(() => {
          const button = document.querySelector("#questions-here button.main");
          button.scrollIntoView({ block: "center" });
          const { x, y, width, height } = button.getBoundingClientRect();
          return document.elementFromPoint(x + width / 2, y + height / 2).textContent;
        })()"""
        assert await tab.run(top) == "Allow once", "nothing covers it"
        await tab.click(ALLOW_ONCE)
        await app_says(tab, "pay {}")
        await tab.see("#app iframe[style*='777px']")


async def test_an_app_that_asks_twice_for_a_double_click(browser: Chromium) -> None:
    """The second question waits, so one double click answers one of them."""
    script = "begin = () => { call('pay', { n: 1 }).then(say); call('pay', { n: 2 }); };"
    given = {**two(script), "policy": [{"do": "ask", "tools": "*/pay"}]}
    async with app_of(browser, given) as (opened, tab):
        await until(lambda: len(opened.console.board.waiting) == 2)
        await tab.see("#questions-here .card >> nth=1")
        await tab.see("#questions-here:not(:has(.card[inert]))")
        await tab.run(
            """(() => {
              const seen = new MutationObserver(() => {
                const cards = [...document.querySelectorAll("#questions-here .card")];
                if (cards.length === 1) setTimeout(() => { document.body.dataset.second = cards[0].inert; });
              });
              seen.observe(document.body, { childList: true, subtree: true });
            })()"""
        )
        await tab.do("click", f"{ALLOW_ONCE} >> nth=0")
        await app_says(tab, 'pay {"n": 1}')
        await tab.see("body[data-second]")
        assert await tab.run("document.body.dataset.second") == "true"
        assert len(opened.console.board.waiting) == 1


async def test_an_app_that_opens_pages(browser: Chromium) -> None:
    """A person decides about each page, and only about web pages."""
    async with app_of(browser, two()) as (_, tab):
        await app_says(tab, "result: show {}")
        urls = ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x", "http://a@b/", "x"]
        for url in urls:
            said = await in_app(tab, f"ask('ui/open-link', {{ url: {json.dumps(url)} }})")
            assert said["result"] == {"isError": True}
        await in_app(
            tab,
            "void ask('ui/open-link', { url: 'https://a.example.com/?x' })"
            ".then(({ result }) => say(result.isError))",
        )
        await tab.see("#app-asks", "https://a.example.com/?x")
        second = await in_app(tab, "ask('ui/open-link', { url: 'https://b.example.com/' })")
        assert second["result"] == {"isError": True}, "one question at a time"
        await tab.click("#app-asks button")
        await app_says(tab, "true")
        assert len(await tab.do("pages")) == 1


async def test_an_app_that_floods_the_page(browser: Chromium) -> None:
    """Its messages are bounded, and the console stays usable."""
    async with app_of(browser, two()) as (opened, tab):
        await app_says(tab, "result: show {}")
        await in_app(tab, f"void setTimeout(() => {{ for (let n = 0; n < {FLOOD}; n++) call('pay'); }})")
        await tab.see("#app .problem", "too many messages")
        await until(lambda: not opened.console.calls.in_flight)
        assert len(calls_of_apps(opened)) < 100
        assert await tab.count("#app iframe") == 0


async def test_a_page_that_asks_for_more_than_the_frame_may(browser: Chromium) -> None:
    """The limits hold in the console itself, not only in its page."""
    async with console_over(two()) as opened:
        frame = await _opened_frame(opened)
        requests = [_ask(opened, "call", frame=frame, name="pay") for _ in range(300)]
        said = await asyncio.gather(*requests)
        done = [one for one in said if "result" in one]
        assert 0 < len(done) < 120
        assert {one["error"]["message"] for one in said if "error" in one} == {
            "the app asks for too much at once; it may go on in a few seconds"
        }


async def _opened_frame(opened: Opened) -> str:
    await opened.enter()
    trial = opened.console.trials.call("dash_show", {}, {}, "console-test")
    found = await _ask(opened, "open", trial=trial.number)
    return found["result"]["frame"]


async def _ask(opened: Opened, what: str, **given: Any) -> dict[str, Any]:
    headers = {"origin": opened.origin, "content-type": "application/json"}
    answered = await opened.http.post(f"{opened.home}/app/{what}", json=given, headers=headers)
    assert answered.status_code == 200, answered.text
    return answered.json()


async def test_the_key_of_a_frame_in_other_hands() -> None:
    """It opens nothing without the session that it belongs to."""
    async with console_over(two()) as opened:
        frame = await _opened_frame(opened)
        assert "result" in await _ask(opened, "call", frame=frame, name="pay")
        url, given = f"{opened.home}/app/call", {"frame": frame, "name": "pay"}
        kind = {"content-type": "application/json"}
        async with httpx2.AsyncClient() as stranger:
            bare = await stranger.post(url, json=given, headers={"origin": opened.origin, **kind})
            assert bare.status_code == 401, "without the cookie"
        for origin in ("null", "http://127.0.0.1:1", "https://evil.example.com"):
            forged = await opened.http.post(url, json=given, headers={"origin": origin, **kind})
            assert forged.status_code == 403
        plain = await opened.http.post(
            url, json=given, headers={"origin": opened.origin, "content-type": "text/plain"}
        )
        assert plain.status_code == 415
        first, cookies = opened.home, dict(opened.http.cookies)
        opened.http.cookies.clear()
        await opened.enter()
        assert opened.home != first
        said = await _ask(opened, "call", **given)
        assert said["error"]["message"].startswith("this app was closed"), "another browser's session"
        assert cookies
        others: list[dict[str, Any]] = [{"frame": ""}, {"frame": None}, {"frame": {}}, {}]
        for one in others:
            assert "error" in await _ask(opened, "call", name="pay", **one)
        assert calls_of_apps(opened) == ["dash/pay"]


async def test_an_app_whose_page_was_left(browser: Chromium) -> None:
    """Its calls end with the page."""
    async with app_of(browser, two()) as (opened, tab):
        await app_says(tab, "result: show {}")
        await in_app(tab, "void call('slow_show')")
        await until(lambda: len(opened.console.calls.in_flight) == 1)
        frame = await tab.run("document.querySelector('#app iframe').src")
        await tab.goto(f"{tab.home}/servers")
        await until(lambda: not opened.console.calls.in_flight)
        async with httpx2.AsyncClient() as stranger:
            assert (await stranger.get(frame)).status_code == 404
            assert (await stranger.get(f"{frame}view")).status_code == 404


async def test_the_other_origin_has_nothing_but_frames() -> None:
    """No page of the console is served there."""
    async with console_over(two()) as opened:
        await _opened_frame(opened)
        assert opened.app.sandbox is not None
        place = opened.console.apps.at("")
        assert place is None
        found = await _ask(opened, "open", trial=1)
        url = found["result"]["url"]
        origin = found["result"]["origin"]
        async with httpx2.AsyncClient() as program:
            for path in ("/", "/console", "/mcp", "/console/static/console.js", "/../x", "/view", "/healthz"):
                assert (await program.get(f"{origin}{path}")).status_code == 404, path
            assert (await program.post(url)).status_code == 405
            outer, inner = await program.get(url), await program.get(f"{url}view")
        assert f"frame-ancestors {opened.origin}" in outer.headers["content-security-policy"]
        assert f"frame-src {url}view;" in outer.headers["content-security-policy"]
        assert "sandbox allow-scripts allow-forms" in inner.headers["content-security-policy"]
        for answered in (outer, inner):
            assert answered.headers["referrer-policy"] == "no-referrer"
            assert answered.headers["cache-control"] == "no-store"
            assert "set-cookie" not in answered.headers


async def test_two_browsers_with_apps_at_once(browser: Chromium) -> None:
    """Neither acts with the frame of the other, closes it, or sees its questions beside its own app."""
    given = {**two(), "policy": [{"do": "ask", "tools": "dash/pay"}]}
    async with app_of(browser, given) as (opened, first), browser.tab() as second:
        await second.enter(opened)
        await second.goto(f"{second.home}/tools?tool=dash_show")
        await second.click("#call")
        for tab in (first, second):
            await app_says(tab, "result: show {}")
        [one, other] = opened.console.apps.frames
        assert one.session != other.session
        forged = """(async ([what, frame]) => {
          const body = JSON.stringify({ frame, name: "refresh", uri: "data://notes" });
          const headers = { "content-type": "application/json" };
          const answered = await fetch(`app/${what}`, { method: "POST", headers, body });
          return (await answered.json()).error?.message;
        })"""
        for tab, foreign in ((first, other), (second, one)):
            for what in ("call", "read", "result", "close"):
                said = await tab.run(f"{forged}({json.dumps([what, foreign.key])})")
                assert said.startswith("this app was closed"), what
        assert calls_of_apps(opened) == []
        await in_app(first, "void call('pay', { n: 1 }).then(say)")
        await first.see("#questions-here .card")
        assert await in_app(second, "call('refresh')") == "refresh {}"
        assert await second.count("#questions-here .card") == 0
        await second.goto(f"{second.home}/servers")
        await until(lambda: opened.console.apps.frames == [one])
        await first.click(ALLOW_ONCE)
        await app_says(first, 'pay {"n": 1}')
