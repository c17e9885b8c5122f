"""Apps of tools in a real browser: what they are told, and what they may ask for."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.console.app_pages import ALLOW_ONCE, DENY, app_of, app_says, dashboard, in_app
from tests.gateway.console.chromium import Chromium
from tests.gateway.console.opening import Opened, console_over
from tests.inside.config import Serve, ServeAuth
from tests.interop.servers import CLOCK, require_installed
from tests.patience import until

pytestmark = pytest.mark.anyio


def config(script: str = "", **more: Any) -> dict[str, Any]:
    return {"servers": {"dash": dashboard(script)}, **more}


def _last_time(opened: Opened) -> str:
    """The time that the server gave an app last."""
    results = [one.result for one in opened.console.calls.ended if one.caller.face == "app"]
    found = next(one.structured for one in results if one is not None and one.structured)
    return found["time"]


async def test_an_example_app_shows_the_time_and_asks_for_it_again(browser: Chromium, tmp_path: Path) -> None:
    """The app that the authors of the extension publish, with their own side of the protocol."""
    require_installed("apps")
    rules = [{"do": "ask", "tools": "clock/*", "reason": "a person looks at it"}]
    servers = {"clock": CLOCK.config(tmp_path)}
    given = {"servers": servers, "policy": rules, "audit": str(tmp_path / "audit.jsonl")}
    async with app_of(browser, given, "clock_get-time", harmless=False) as (opened, tab):
        await tab.click(ALLOW_ONCE)
        await tab.see("#trial .badge", "done")
        shown = opened.console.trials.of("clock_get-time")[0].result
        assert shown is not None
        await app_says(tab, shown.structured["time"])
        await in_app(tab, "document.getElementById('get-time-btn').click()")
        await tab.see("#questions-here h2", "Allow a call of clock_get-time?")
        await tab.click(ALLOW_ONCE)
        await tab.gone("#questions-here .card")
        await until(lambda: [one.caller.face for one in opened.console.calls.ended].count("app") == 2)
        await app_says(tab, _last_time(opened))
        await in_app(tab, "document.getElementById('send-log-btn').click()")
        await in_app(tab, "document.getElementById('send-message-btn').click()")
        await tab.click("#app summary")
        await tab.see(".app-lines", "log, info: This is log text.")
        await tab.see(".app-lines", "message for the model: ")
        await in_app(tab, "document.getElementById('open-link-btn').click()")
        await tab.see("#app-asks", "https://modelcontextprotocol.io/")
        await tab.click("#app-asks button")
        await tab.gone("#app-asks .card")
        assert len(await tab.do("pages")) == 1
        assert [text for text in await tab.problems() if "favicon" not in text] == []
    trail = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {one.get("face") for one in trail if one.get("tool") == "get-time"} >= {"console", "app"}


async def test_an_app_is_told_of_its_call_and_of_its_host(browser: Chromium) -> None:
    async with app_of(browser, config(), colorScheme="dark") as (_, tab):
        await app_says(tab, "result: show {}")
        host = await in_app(tab, "window.host")
        heard = await in_app(tab, "heard")
        assert [one["method"] for one in heard][:2] == [
            "ui/notifications/tool-input",
            "ui/notifications/tool-result",
        ]
        assert heard[0]["params"] == {"arguments": {}}
        assert host["hostInfo"]["name"] == "toolbus"
        context = host["hostContext"]
        assert (context["theme"], context["displayMode"], context["platform"]) == ("dark", "inline", "web")
        assert context["toolInfo"]["tool"]["name"] == "show"
        assert context["containerDimensions"]["width"] > 100
        await in_app(tab, "tell('ui/notifications/size-changed', { height: 333, width: 9000 })")
        await tab.see("#app iframe[style*='333px']")
        await in_app(tab, "tell('ui/notifications/size-changed', { height: 99999 })")
        await tab.see("#app iframe[style*='800px']")
        assert await in_app(tab, "ask('ui/request-display-mode', { mode: 'fullscreen' })") == {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {"mode": "inline"},
        }
        assert (await in_app(tab, "ask('ping', {})"))["result"] == {}
        assert (await in_app(tab, "ask('sampling/createMessage', {})"))["error"]["code"] == -32601


async def test_an_app_calls_and_reads_what_its_own_server_offers_it(browser: Chromium) -> None:
    servers = {"dash": dashboard(), "other": dashboard()}
    async with app_of(browser, {"servers": servers}) as (opened, tab):
        await app_says(tab, "result: show {}")
        assert await in_app(tab, "call('refresh', { day: 1 })") == 'refresh {"day": 1}', "for apps only"
        assert await in_app(tab, "call('pay')") == "pay {}"
        assert "does not let its apps" in await in_app(tab, "call('secret')")
        for name in ("other/refresh", "other_refresh", "dash_refresh", "nothing", "../other/refresh"):
            assert "no tool named" in await in_app(tab, f"call({json.dumps(name)})")
        assert "bytes" in await in_app(tab, "call('big')")
        read = await in_app(tab, "ask('resources/read', { uri: 'data://notes' })")
        assert read["result"]["contents"][0]["text"] == "buy tea"
        ended = [(one.caller.face, one.server) for one in opened.console.calls.ended]
        assert {face for face, _ in ended} == {"console", "app"}
        assert {server for _, server in ended} == {"dash"}


async def test_a_call_of_an_app_asks_a_person_beside_its_frame(browser: Chromium) -> None:
    rules = [{"do": "ask", "tools": "dash/pay"}, {"do": "deny", "tools": "dash/refresh"}]
    script = "begin = () => call('pay', { amount: 5 }).then(say);"
    async with app_of(browser, config(script, policy=rules)) as (_, tab):
        await tab.see("#questions-here pre", '"amount": 5')
        assert await tab.run("document.activeElement.closest('#questions-here')") is None
        assert await tab.run("document.querySelector('#questions-here .card').inert")
        await tab.click(ALLOW_ONCE)
        await app_says(tab, 'pay {"amount": 5}')
        await in_app(tab, "void call('pay', { amount: 6 }).then(say)")
        await tab.see("#questions-here pre", '"amount": 6')
        await tab.click(DENY)
        await app_says(tab, "error: ")
        denied = await in_app(tab, "call('refresh')")
        assert "policy" in denied or "no tool named" in denied


async def test_a_call_that_was_denied_is_canceled_for_its_app(browser: Chromium) -> None:
    rules = [{"do": "ask", "tools": "dash/show"}]
    async with app_of(browser, config(policy=rules)) as (_, tab):
        await tab.click(DENY)
        await app_says(tab, "canceled: ")


async def test_an_app_stays_while_the_form_changes_and_goes_with_the_next_call(browser: Chromium) -> None:
    async with app_of(browser, config()) as (opened, tab):
        await app_says(tab, "result: show {}")
        await in_app(tab, "window.mine = 1")
        await tab.click("#call-form button:text-is('JSON')")
        await tab.see("#call-json")
        assert await in_app(tab, "window.mine") == 1, "it was not loaded again"
        await tab.fill("#call-json", '{"a": 1}')
        await tab.click("#call")
        await app_says(tab, 'result: show {"a": 1}')
        assert await in_app(tab, "window.mine ?? null") is None
        await tab.goto(f"{tab.home}/servers")
        await until(lambda: not opened.console.apps.sessions_of(opened.console.trials.of("dash_show")[0]))


async def test_a_server_that_sends_no_app_is_named(browser: Chromium) -> None:
    given = {"servers": {"dash": dashboard(mime="text/html")}}
    async with app_of(browser, given) as (_, tab):
        await tab.see("#app .problem", "'dash' sent no app of the type text/html;profile=mcp-app")


async def test_an_app_that_the_policy_keeps_from_being_read_is_not_shown(browser: Chromium) -> None:
    rules = [{"do": "deny", "resources": "*/ui://*"}]
    async with app_of(browser, config(policy=rules)) as (_, tab):
        await tab.see("#app .problem", "policy")
        await tab.see("#trial .badge", "done")


async def test_the_page_names_what_an_app_uses_and_asks_before_it_gets_a_permission(
    browser: Chromium,
) -> None:
    ui: dict[str, Any] = {
        "csp": {"connectDomains": ["https://api.example.com", "*"]},
        "permissions": {"camera": {}, "clipboardWrite": {}},
    }
    async with app_of(browser, {"servers": {"dash": dashboard(ui=ui)}}) as (_, tab):
        await app_says(tab, "result: show {}")
        await tab.see(".app-facts", "It connects to https://api.example.com.")
        await tab.see(".app-facts", "Not allowed: *.")
        assert await tab.run("document.querySelector('#app iframe').allow") == ""
        await tab.click(".app-facts button")
        await tab.see(".app-facts", "It may use your camera, writing to your clipboard.")
        assert await tab.run("document.querySelector('#app iframe').allow") == "camera; clipboard-write"
        await app_says(tab, "result: show {}")
        assert (await in_app(tab, "window.host"))["hostCapabilities"]["sandbox"]["permissions"] == {
            "camera": {},
            "clipboardWrite": {},
        }


async def test_behind_a_proxy_the_page_says_what_apps_need() -> None:
    auth = ServeAuth(keys=True)
    serve = Serve(public_url="https://tools.example.com", console=True, auth=auth)
    async with console_over(config(), serve) as opened:
        opened.http.headers["host"] = "tools.example.com"
        await opened.enter()
        opened.console.trials.call("dash_show", {}, {}, "console-test")
        page = await opened.page("tools?tool=dash_show")
        assert "Set serve.apps.url to a second name" in page
        assert 'id="app"' not in page


async def test_a_tool_without_an_app_has_no_place_for_one(browser: Chromium) -> None:
    async with app_of(browser, config(), "dash_pay") as (_, tab):
        await tab.see("#trial .badge", "done")
        assert await tab.count("#app") == 0


async def test_the_quota_counts_calls_of_apps_with_those_of_the_console(
    browser: Chromium, tmp_path: Path
) -> None:
    quotas = [{"per": "server", "tools": "dash/pay", "per_day": 2}]
    log = tmp_path / "audit.jsonl"
    async with app_of(browser, config(quotas=quotas, audit=str(log))) as (opened, tab):
        await app_says(tab, "result: show {}")
        assert await in_app(tab, "call('pay', { n: 1 })") == 'pay {"n": 1}'
        trial = opened.console.trials.call("dash_pay", {"n": 2}, {}, "console-test")
        await until(lambda: trial.outcome == "done")
        refused = await in_app(tab, "call('pay', { n: 3 })")
        assert "quotas[0] allows server 'dash' 2 calls per day" in refused
        assert await in_app(tab, "call('refresh')") == "refresh {}", "it does not count"
    assert _of_pay(log, "outcome") == [("app", "ok"), ("console", "ok"), ("app", "refused")]


async def test_the_audit_log_has_the_answers_to_the_calls_of_apps(browser: Chromium, tmp_path: Path) -> None:
    rules = [{"do": "ask", "tools": "dash/pay"}, {"do": "deny", "tools": "dash/refresh"}]
    log = tmp_path / "audit.jsonl"
    async with app_of(browser, config(policy=rules, audit=str(log))) as (_, tab):
        await app_says(tab, "result: show {}")
        assert (await in_app(tab, "call('refresh')")).startswith("error: ")
        for button, expected in ((DENY, "error: "), (ALLOW_ONCE, "pay {}")):
            await in_app(tab, "void call('pay').then(say)")
            await tab.click(button)
            await app_says(tab, expected)
    assert _of_pay(log, "decision") == [("app", "deny"), ("app", "allow")]
    assert _of_pay(log, "by") == [("app", "console"), ("app", "console")]
    assert _of_pay(log, "outcome") == [("app", "ok")]


def _of_pay(log: Path, key: str) -> list[tuple[str, str]]:
    """The faces in an audit log that called `pay`, with a value of those entries that have it."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [(one["face"], one[key]) for one in entries if one.get("tool") == "pay" and key in one]


async def test_tools_with_an_app_are_marked_in_the_list(browser: Chromium) -> None:
    async with app_of(browser, config()) as (_, tab):
        marked = "[...document.querySelectorAll('#list li:has(.badge) a')].map((one) => one.innerText)"
        assert await tab.run(marked) == ["refresh", "show", "slow_show"]
