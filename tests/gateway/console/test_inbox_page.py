"""The Inbox: what waits and in which order, how it is answered, and that nothing waits for nobody."""

import asyncio
from typing import Any

import pytest

from tests.gateway.console.opening import Markup, Opened, console_over, plain
from tests.gateway.console.showing import HOSTILE, PICTURE, Showing
from tests.inside.console import Presence, anchor
from tests.inside.core import QuestionRouter
from tests.patience import PATIENCE, until
from tests.servers.asking import asking
from toolbus import CallDenied, Caller, InputNeeded

pytestmark = pytest.mark.anyio

ASKS: dict[str, Any] = {"policy": [{"do": "ask", "tools": "shows/*", "reason": HOSTILE}]}


def _key(name: str) -> str:
    return anchor("field", name)


def _asking(era: str) -> dict[str, Any]:
    return {"servers": {"ask": {"server": asking(), "era": era, "prefix": ""}}}


async def _question(opened: Opened) -> str:
    """The page of the questions, once something waits there."""
    async with opened.stream("inbox") as stream:
        await stream.until(lambda part: 'id="inbox"' in part and "<article" in part)
        assert "Inbox 1" in plain(stream.parts["navigation"])
    return await opened.page("inbox")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_form_of_a_server_is_filled_in(era: str) -> None:
    async with console_over(_asking(era)) as opened:
        await opened.enter()
        await opened.post("tool/call", {"name": "book", _key("guest"): PICTURE})
        page = await _question(opened)
        fields = {one["name"]: one for tag in ("input", "select") for one in Markup(page).named(tag)}
        number = fields["number"]["value"]
        # The day is missing; the other fields stay as they were typed.
        wrong = {"number": number, "answer": "accept", _key("seats"): "7", _key("place"): '"terrace"'}
        await opened.post("inbox/answer", wrong)
        again = await opened.page("inbox")
        await opened.post("inbox/answer", {**wrong, _key("date"): "2026-12-24"})
        async with opened.stream("tools?tool=book") as stream:
            done = await stream.until(lambda part: 'id="trial"' in part and "done" in plain(part))
        await opened.post("inbox/answer", {"number": number, "answer": "accept"})
        late = plain(await opened.page("inbox"))
    assert f"When does {PICTURE} come?" in Markup(page).text
    assert Markup(page).named("img") == []
    assert fields[_key("date")]["type"] == "date"
    assert "'date' must be a date" in plain(again)
    assert [one["value"] for one in Markup(again).named("input") if one["name"] == _key("seats")] == ["7"]
    assert ": 2026-12-24, 7, terrace, quiet False" in plain(done)
    assert "That question does not wait any more. Inbox Nothing waits for an answer." in late


@pytest.mark.parametrize("answer", ["accept", "decline"])
async def test_a_url_is_a_link_to_accept_or_decline(answer: str) -> None:
    async with console_over(_asking("modern")) as opened:
        await opened.enter()
        url = "https://pay.example/<b>?ü=1"
        await opened.post("tool/call", {"name": "pay", _key("url"): url})
        page = Markup(await _question(opened))
        (number,) = [one["value"] for one in page.named("input")]
        await opened.post("inbox/answer", {"number": number, "answer": answer})
        async with opened.stream("tools?tool=pay") as stream:
            await stream.until(lambda part: f"payment: {answer}" in plain(part))
    assert [one["href"] for one in page.named("a") if "target" in one] == ["https://pay.example/<b>?%C3%BC=1"]
    assert url in page.text


@pytest.mark.parametrize(
    ("answer", "is_allowed"), [("once", True), ("always", True), ("no", False), ("", False)]
)
async def test_a_call_is_allowed_or_denied(answer: str, is_allowed: bool) -> None:
    config = {"servers": {"shows": {"server": Showing().server}}, **ASKS}
    async with console_over(config) as opened:
        await opened.enter()
        await opened.page("servers")
        view = opened.bus.view(caller=Caller(face="test", session=HOSTILE))
        call = asyncio.create_task(view.call("shows_markup", {HOSTILE: HOSTILE}))
        page = Markup(await _question(opened))
        (number,) = [one["value"] for one in page.named("input")]
        await opened.post("inbox/decide", {"number": number, "answer": answer})
        async with asyncio.timeout(PATIENCE):
            if is_allowed:
                assert PICTURE in (await call).text
            else:
                with pytest.raises(CallDenied, match="a person did not allow it"):
                    await call
        if answer == "always":
            assert PICTURE in (await view.call("shows_markup", {})).text
    assert page.named("img") == []
    # The reason of the rule, the name and the value of the argument; the session is cut.
    assert page.text.count(PICTURE) == 3
    assert page.text.count(HOSTILE[:8]) == 4
    assert "policy[0]" in page.text


async def test_nothing_waits_while_no_console_is_open_and_the_rule_is_named() -> None:
    servers = {**_asking("modern")["servers"], "shows": {"server": Showing().server}}
    async with console_over({"servers": servers, **ASKS}) as opened:
        with pytest.raises(CallDenied, match=r"rule policy\[0\] asks a person, and nobody can be asked"):
            await opened.bus.call("shows_markup", {})
        with pytest.raises(InputNeeded):
            await opened.bus.call("book", {"guest": "Ann"})
        assert not opened.console.board.is_watched
        await opened.http.get(f"{opened.home}/inbox")
        assert not opened.console.board.is_watched, "who is not let in cannot answer"
        await opened.enter()
        await opened.page("servers")
        assert opened.console.board.is_watched
    assert not opened.console.board.is_watched


async def test_an_open_page_counts_until_some_time_after_it_is_closed() -> None:
    board = QuestionRouter()
    presence = Presence(board, recent_seconds=0.0)
    loop = asyncio.get_running_loop()

    async def timers_ran() -> None:
        ran = asyncio.Event()
        loop.call_later(0.0, ran.set)  # after those that are due as well
        await ran.wait()

    with presence.following():
        presence.note_request()
        await timers_ran()
        assert board.is_watched
    await until(lambda: not board.is_watched)
    presence.close()
    presence.note_request()
    assert not board.is_watched
