"""Tools are called and switched, content is read, in a real browser; also by keyboard, and without script."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import TOOLBUS
from tests.gateway.console.chromium import SMALL, Chromium, Tab
from tests.gateway.console.opening import Opened, console_over
from tests.gateway.console.shop import ORDER
from tests.inside.console import ArgumentForm, anchor

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
RULES: list[dict[str, Any]] = [
    {"do": "ask", "tools": "shop/refund", "reason": "money leaves"},
    {"do": "deny", "tools": "shop/close", "reason": "never by day"},
]
FOCUSED = "document.activeElement.id"


def shop(**more: Any) -> dict[str, Any]:
    """The entry of the shop."""
    env = {"PYTHONPATH": str(ROOT)}
    return {"command": sys.executable, "args": ["-m", "tests.gateway.console.shop"], "env": env, **more}


def field(name: str) -> str:
    """The selector of a field of a tool's form."""
    return f"#call-{anchor('field', name)}"


def inner(place: str, **value: Any) -> str:
    """The selector of a part of an order that is within another one."""
    parts = ArgumentForm(ORDER, value=value).by_key.values()
    return next(f"#call-{part.key}" for part in parts if part.place == place and part.shape == "field")


async def _open(tab: Tab, opened: Opened, name: str) -> None:
    await tab.enter(opened)
    await tab.goto(f"{tab.home}/tools?tool=shop_{name}")
    await tab.see("#call")


async def _shown(tab: Tab) -> str:
    """The result, once it is shown."""
    await tab.see("#trial .badge", "done")
    return await tab.do("innerText", "#trial .view-shown pre")


async def test_a_tool_is_found_and_an_order_with_parts_inside_is_placed(browser: Chromium) -> None:
    async with console_over({"servers": {"shop": shop()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.click("nav >> text=Tools")
        await tab.see("#list-summary", "7 tools")
        await tab.do("type", "#search", "articles")
        await tab.see("#list-summary", "1 of 7 tools")
        assert "search=articles" in await tab.do("url")
        await tab.click("#list a >> text=order")
        await tab.see("#verdict", "not ready")
        await tab.fill(field("customer"), "Ann")
        await tab.fill(inner("address.street", address={}), "Elm St 1")
        await tab.click("[aria-label='Add item: to items']")
        article = inner("items[0].article", items=[{}])
        await tab.see(f"{article}:focus")
        await tab.do("keyboard.type", "tea")
        await tab.see("#verdict", "allowed")
        await tab.do("selectOption", f"#call-{anchor('field', 'payment')}-kind", "1")
        days = inner("payment.days", payment={"kind": "invoice"})
        await tab.see(days)
        assert await tab.do("inputValue", days) == "14"
        await tab.do("check", "label:text-is('gift')")
        await tab.click("#call")
        sent = json.loads(await _shown(tab))
        assert await tab.do("inputValue", field("customer")) == "Ann", "to be changed and sent again"
        # As JSON, and back.
        await tab.click(".switch >> text=JSON")
        assert json.loads(await tab.do("inputValue", "#call-json")) == sent
        await tab.fill("#call-json", json.dumps({**sent, "customer": "Bob"}))
        await tab.click(".switch >> text=Form")
        await tab.see(field("customer"))
        assert await tab.do("inputValue", field("customer")) == "Bob"
    assert sent == {
        "customer": "Ann",
        "address": {"street": "Elm St 1", "city": "Oslo"},
        "items": [{"article": "tea", "count": 1}],
        "payment": {"kind": "invoice", "days": 14},
        "extras": ["gift"],
    }


async def test_a_mistake_is_shown_at_its_field_which_gets_the_focus(browser: Chromium) -> None:
    value = {"customer": "Ann", "address": {"street": "s"}, "items": [{"article": "tea", "count": 0}]}
    async with console_over({"servers": {"shop": shop()}}) as opened, browser.tab() as tab:
        await _open(tab, opened, "order")
        await tab.press("Tab")
        await tab.do("focus", field("customer"))
        await tab.press("Enter")
        await tab.see(f"{field('customer')}[aria-invalid=true]")
        assert await tab.run(FOCUSED) == field("customer")[1:]
        await tab.see(f"{field('customer')}-problem", "'customer' is required")
        # What only the schema forbids is found, too.
        await tab.click(".switch >> text=JSON")
        await tab.fill("#call-json", json.dumps(value))
        await tab.click(".switch >> text=Form")
        count = inner("items[0].count", items=[{"count": 0}])
        await tab.see(count)
        await tab.click("#call")
        await tab.see(f"{count}-problem", "expected an integer of at least 1, got 0")
        assert await tab.run(FOCUSED) == count[1:]
        await tab.fill(count, "2")
        await tab.press("Enter")
        assert json.loads(await _shown(tab))["items"] == [{"article": "tea", "count": 2}]


async def test_a_question_is_answered_over_the_call_by_keyboard_alone(browser: Chromium) -> None:
    async with console_over({"servers": {"shop": shop()}}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/tools")
        await tab.do("focus", "#search")
        await tab.do("keyboard.type", "greet")
        await tab.see("#list-summary", "1 of 7 tools")
        for _ in range(9):
            await tab.press("Tab")
            if await tab.text(":focus") == "greet":
                break
        await tab.press("Enter")
        await tab.see("#call")
        for _ in range(60):
            await tab.press("Tab")
            if await tab.run(FOCUSED) == "call":
                break
        await tab.press("Enter")
        await tab.see("#questions-here input:focus")
        await tab.do("keyboard.type", "Ann")
        await tab.press("Enter")
        assert await _shown(tab) == "Hello Ann!"
        await tab.see(".notice", "Answered.")
        assert await tab.count("#questions-here .card") == 0


async def test_what_the_policy_says_is_seen_before_the_call_and_approved_in_place(browser: Chromium) -> None:
    config = {"servers": {"shop": shop()}, "policy": RULES}
    async with console_over(config) as opened, browser.tab(viewport=SMALL) as tab:
        await _open(tab, opened, "refund")
        await tab.fill(field("who"), "Ann")
        await tab.see("#verdict", "asks a person")
        await tab.see("#verdict", "Rule policy[0] asks about this call: money leaves")
        await tab.press("Enter")
        await tab.click("#questions-here >> text=Allow once")
        assert json.loads(await _shown(tab)) == {"who": "Ann"}
        await tab.click("#trial >> text=Call again")
        await tab.click("#questions-here >> text=Deny")
        await tab.see("#trial .problem", "a person did not allow it")
        await tab.goto(f"{tab.home}/tools?tool=shop/close")
        await tab.see("#pane .problem", "never by day")
        assert len(opened.console.calls.ended) == 2, "looking is no call"


async def test_a_call_is_canceled_and_a_long_result_is_shown_raw_and_saved(browser: Chromium) -> None:
    async with console_over({"servers": {"shop": shop()}}) as opened, browser.tab() as tab:
        await _open(tab, opened, "slow")
        await tab.click("#call")
        await tab.see("#trial", "1 of 4")
        await tab.click("#trial >> text=Cancel")
        await tab.see("#trial .badge", "canceled")
        await tab.goto(f"{tab.home}/tools?tool=shop_report")
        await tab.click("#call")
        await tab.see("#trial .badge", "done")
        await tab.see("#trial .view-shown", "more characters are not shown.")
        await tab.click("#trial label:text-is('Raw')")
        await tab.see("#trial .view-raw pre", '"content"')
        await tab.click("#trial label:text-is('Request')")
        assert json.loads(await tab.do("innerText", "#trial .view-request pre")) == {
            "method": "tools/call",
            "params": {"name": "report", "arguments": {}},
        }
        await opened.enter()
        saved = await opened.http.get(f"{opened.home}/tools/result?trial=2&part=text")
    assert saved.headers["content-disposition"] == 'attachment; filename="call-2.txt"'
    assert saved.text.splitlines()[-1] == "line 19999"


async def test_the_same_call_runs_as_a_command_and_as_a_program(browser: Chromium, tmp_path: Path) -> None:
    text = 'it\'s "quoted" $HOME `x` \\ \u202e\u00e9\n\ttwo lines'
    folder = tmp_path / "a folder"
    folder.mkdir()
    config = folder / "toolbus.json"
    config.write_text(json.dumps({"servers": {"shop": shop()}}))
    env = os.environ | {"HOME": str(tmp_path), "PATH": f"{Path(TOOLBUS).parent}:{os.environ['PATH']}"}
    async with console_over(str(config)) as opened, browser.tab() as tab:
        await _open(tab, opened, "echo")
        await tab.click(".switch >> text=JSON")
        await tab.fill("#call-json", json.dumps({"text": text}))
        await tab.click("#call")
        await _shown(tab)
        await tab.click("text=Copy as CLI, Python or JSON")
        command, program, call = [
            await tab.do("innerText", f"#copy-{kind}-1") for kind in ("cli", "python", "json")
        ]

    def output(words: list[str]) -> str:
        return subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=120).stdout

    assert json.loads(await asyncio.to_thread(output, ["sh", "-c", command])) == {"text": text}
    assert json.loads(await asyncio.to_thread(output, [sys.executable, "-c", program])) == {"text": text}
    assert json.loads(call) == {"name": "shop_echo", "arguments": {"text": text}}


async def test_a_tool_is_switched_off_and_on_as_it_was_shown(browser: Chromium, tmp_path: Path) -> None:
    config = tmp_path / "toolbus.yaml"
    args = ", ".join(json.dumps(one) for one in shop()["args"])
    command = f"    command: {sys.executable}\n    args: [{args}]\n    env: {{PYTHONPATH: {ROOT}}}\n"
    before = f"servers:\n  shop:  # ours\n{command}"
    config.write_text(before)
    async with console_over(str(config)) as opened, browser.tab() as tab:
        await _open(tab, opened, "refund")
        await tab.click("#pane >> text=Switch off")
        await tab.see("#switch .added", "refund")
        # Between looking and pressing, the file changes: nothing is written.
        config.write_text(f"# mine\n{before}")
        await tab.click("text=Write this change")
        await tab.see(".notice.failed", "The file has changed since it was shown. Nothing was written.")
        assert config.read_text() == f"# mine\n{before}"
        await tab.click("text=Write this change")
        await tab.see(".notice", "Switched shop/refund off.")
        assert config.read_text() == f"# mine\n{before}    exclude: [refund]\n"
        await opened.bus.reload(str(config))
        await tab.see("#list li:has-text('refund') .badge", "off")
        await tab.click("#list a >> text=refund")
        await tab.click("#pane >> text=Switch on")
        await tab.click("text=Write this change")
        await tab.see(".notice", "Switched shop/refund on.")
        assert config.read_text() == f"# mine\n{before}"


async def test_without_script_a_call_is_made_and_its_question_answered(browser: Chromium) -> None:
    async with (
        console_over({"servers": {"shop": shop()}}) as opened,
        browser.tab(javaScriptEnabled=False) as tab,
    ):
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/tools")
        await tab.fill("#search", "articles")
        await tab.click("#list-search >> text=Show")
        await tab.see("#list-summary", "1 of 7 tools")
        await tab.click("#list a >> text=order")
        await tab.fill(field("customer"), "Ann")
        await tab.fill(inner("address.street", address={}), "Elm St 1")
        await tab.click("[aria-label='Add item: to items']")
        await tab.click("#call")
        article = inner("items[0].article", items=[{}])
        await tab.see(f"{article}-problem", "'article' is required")
        await tab.fill(article, "tea")
        await tab.do("selectOption", f"#call-{anchor('field', 'payment')}-kind", "0")
        await tab.click("[aria-label='Use: the chosen kind']")
        await tab.fill(inner("payment.number", payment={"kind": "card"}), "4711")
        await tab.click("#verdict ~ form >> text=Check")
        await tab.see("#verdict", "allowed")
        await tab.click("#call")
        await _until_seen(tab, "#trial .badge", "done")
        sent = json.loads(await tab.do("innerText", "#trial .view-shown pre"))
        assert sent["payment"] == {"kind": "card", "number": "4711"}
        await tab.goto(f"{tab.home}/tools?tool=shop_greet")
        await tab.click("#call")
        await _until_seen(tab, "#questions-here .card", "Who are you?")
        await tab.fill("#questions-here input[type=text]", "Ann")
        await tab.click("#questions-here >> text=Send")
        await _until_seen(tab, "#trial .badge", "done")
        assert await tab.do("innerText", "#trial .view-shown pre") == "Hello Ann!"


async def _until_seen(tab: Tab, selector: str, text: str) -> None:
    """Reload, as a person without script does, until it is shown."""
    for _ in range(600):
        if await tab.count(selector) and text in await tab.do("innerText", selector):
            return
        await tab.do("reload")
    raise AssertionError(f"{selector} does not have {text!r}")


async def test_resources_prompts_and_templates_are_read(browser: Chromium) -> None:
    policy = [{"do": "ask", "resources": "shop/shop://terms"}]
    async with console_over({"servers": {"shop": shop()}, "policy": policy}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.click("nav >> text=Content")
        await tab.see("#list", "3 resources, 1 template, 1 prompt")
        await tab.click("#list a >> text=terms")
        await tab.click("#content-form button.main")
        await tab.click("#questions-here >> text=Allow once")
        await tab.see("#reading pre", "all sales are final")
        await tab.click("#list a >> text=logo")
        await tab.click("#content-form button.main")
        await tab.see("#reading img")
        assert await tab.run("document.querySelector('#reading img').naturalWidth") == 48
        await tab.click("#list a >> text=gone")
        await tab.click("#content-form button.main")
        await tab.see("#reading .problem", "nobody knows where it is")
        await tab.click("#list a >> text=hours")
        await tab.click("#content-form button.main")
        await tab.see("#content-form .problem", "'city' is required")
        await tab.fill("#content-form input[type=text]", "os")
        await tab.click("text=Suggest values")
        await tab.click(".suggestions >> text=Osaka")
        await tab.click("#content-form button.main")
        await tab.see("#reading pre", "shop://Osaka/hours")
        await tab.click("#list a >> text=Invite")
        await tab.fill("#content-form input[type=text] >> nth=0", "Oslo")
        await tab.press("Enter")
        await tab.see("#reading .message", "Invite them to Oslo.")
    callers = {(record.route, record.caller.face) for record in opened.console.calls.ended}
    assert callers == {
        (route, "console") for route in ("resources/read", "completion/complete", "prompts/get")
    }
