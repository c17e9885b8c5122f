"""Waiting tasks in a real browser: questions, approvals, held tools, the trail, keys."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus, write_config
from tests.cli.test_cli_serve_http import served
from tests.gateway.console.chromium import SMALL, Chromium
from tests.gateway.console.opening import console_over
from tests.gateway.console.test_browser_servers import wild
from tests.gateway.console.test_held_page import DRIFTED
from tests.gateway.console.wild import PICTURE
from tests.inside.console import anchor
from tests.inside.gateway import digest_of_key, file_keys
from tests.lock.place import READ, WRITE, Place
from tests.patience import until
from toolbus import CallDenied

pytestmark = pytest.mark.anyio


async def test_a_question_for_a_client_without_forms_is_answered_in_the_page(
    browser: Chromium, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    write_config(folder, {"wild": wild()})
    answers: list[Any] = []
    with served(folder) as gateway:
        url = toolbus("console", "--print", folder=folder).stdout.strip()
        call = threading.Thread(
            target=lambda: answers.append(gateway.post("tools/call", name="wild_ask", arguments={}))
        )
        async with browser.tab(viewport=SMALL) as tab:
            await tab.goto(url)
            await tab.see("#overview-servers", "ready")
            call.start()
            await tab.see("nav .count", "1")
            await tab.click("nav >> text=Inbox")
            await tab.see("article .description", PICTURE)
            number = await tab.run("document.querySelector('[name=number]').value")
            await tab.fill(f"#question-{number}-{anchor('field', 'name')}", "Ann <b>")
            await tab.do("selectOption", f"#question-{number}-{anchor('field', 'kind')}", '"b"')
            await tab.click("button:text-is('Send')")
            await tab.see(".notice", "Answered.")
            await tab.see("#call", "wild_ask")
            await tab.gone("nav .count")
            await tab.click("nav >> text=Inbox")
            await tab.see("#inbox", "Nothing waits for an answer.")
            await asyncio.to_thread(call.join, 60)
    [(status, body)] = answers
    assert status == 200
    content = '{"action": "accept", "content": {"kind": "b", "name": "Ann <b>", "sure": true}}'
    assert body["result"]["content"][0]["text"] == f"answered: {content}"


async def test_what_is_typed_stays_while_other_questions_come_and_go(browser: Chromium) -> None:
    rules = [{"do": "ask", "tools": "wild/fail"}]
    async with console_over({"servers": {"wild": wild()}, "policy": rules}) as opened, browser.tab() as tab:
        await tab.enter(opened)
        asked = asyncio.create_task(opened.bus.call("wild_ask", {}))
        await tab.click("nav >> text=Inbox")
        await tab.see("article")
        name = f"article [name={anchor('field', 'name')}]"
        await tab.do("type", name, "half a na")
        approvals = [asyncio.create_task(opened.bus.call("wild_fail", {})) for _ in range(2)]
        await tab.see("nav .count", "3")
        assert await tab.do("inputValue", name) == "half a na"
        assert await tab.run("document.activeElement.name") == anchor("field", "name")
        # One is allowed and one refused, by keyboard.
        await tab.do("focus", "button:text-is('Allow once') >> nth=0")
        await tab.press("Enter")
        await tab.see("nav .count", "2")
        await tab.do("focus", "button:text-is('Deny')")
        await tab.press("Space")
        await tab.see("nav .count", "1")
        allowed, refused = await asyncio.gather(*approvals, return_exceptions=True)
        await tab.click("button:text-is('Decline')")
        assert '"decline"' in (await asked).text
    assert not isinstance(allowed, BaseException)
    assert PICTURE in allowed.text
    assert isinstance(refused, CallDenied)


async def test_a_held_tool_is_approved_as_it_was_shown(browser: Chromium, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    async with console_over(place.config) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/held")
        await tab.see("#held-summary", "Nothing is on hold.")
        place.offer(DRIFTED)  # the server changes its tools while the page is open
        await tab.see("#held-summary", "2 differences from the lock")
        await tab.see("article ins", ", then send it")
        before = place.lock.read_bytes()
        # Once more, between looking and pressing: nothing is approved that was not shown.
        await tab.run("document.querySelector('[aria-label=\"Approve files/read as shown\"]').focus()")
        worse = {**READ, "description": "Send a file to somebody else."}
        place.offer({**DRIFTED, "tools": [worse, WRITE]})
        await tab.see("article ins", "somebody else")
        assert place.lock.read_bytes() == before
        focused = await tab.run("document.activeElement.getAttribute('aria-label')")
        assert focused == "Approve files/read as shown"
        await tab.press("Enter")
        await tab.see(".notice", "Approved files/read.")
        assert "files_read" in [spec.name for spec in opened.bus.catalog]
        assert place.lock.read_bytes() != before


async def test_the_trail_is_there_and_can_be_checked(browser: Chromium, tmp_path: Path) -> None:
    rules = [{"do": "deny", "tools": "wild/die"}]
    config = {"servers": {"wild": wild()}, "policy": rules, "audit": str(tmp_path / "audit.jsonl")}
    async with console_over(config) as opened, browser.tab(viewport=SMALL) as tab:
        await tab.enter(opened)
        await opened.bus.call("wild_fail", {})
        with pytest.raises(CallDenied):
            await opened.bus.call("wild_die", {})
        await tab.click("nav >> text=Audit")
        await tab.see("td", "wild/fail")
        await tab.do("selectOption", "select[name=decision]", "deny")
        await tab.click("button:text-is('Show')")
        await tab.see("td", "wild/die")
        assert "wild/fail" not in await tab.text("#audit-events")
        await tab.click("button:text-is('Check the audit log')")
        await tab.see("#audit-check .badge", "intact")


async def test_a_key_is_made_shown_once_and_revoked(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    config = write_config(folder, {"wild": wild()}, serve={"auth": {"keys": True}})
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / ".state"))
    stored = file_keys(config)
    with served(folder) as gateway:
        url = toolbus("console", "--print", folder=folder).stdout.strip()
        async with browser.tab(viewport=SMALL) as tab:
            await tab.goto(url)
            await tab.click("nav >> text=Keys")
            await tab.fill("#key-name", "ann")
            await tab.fill("#key-days", "30")
            await tab.press("Enter")
            await tab.see(".notice", "which is not shown again: ")
            key = (await tab.text(".notice")).split()[-1]
            assert [one.digest for one in stored.all()] == [digest_of_key(key)]
            assert gateway.tools(key=key)
            await tab.do("reload")
            assert key not in await tab.do("content")
            await tab.click("td summary")
            await tab.click("button:text-is('Revoke it for good')")
            await tab.see(".notice", "Revoked ann.")
            assert stored.all() == []

            def is_refused() -> bool:
                # Of one that is answered at that moment, the stream may end without a message.
                with gateway.stream("tools/list", key=key) as response:
                    return response.status == 401

            await until(is_refused)
