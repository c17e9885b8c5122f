"""The users of the console: tokens that work once, sessions that end, and nobody else."""

import re

import httpx2
import pytest

from tests.gateway.console.opening import Opened, console_over, home_of
from tests.gateway.driving import JSON
from tests.inside.console import MOST_SESSIONS, MOST_TOKENS, SESSION_SECONDS, TOKEN_SECONDS, ConsoleEntry

pytestmark = pytest.mark.anyio

NONE: JSON = {"servers": {"gone": {"command": "no-such-command-at-all"}}}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def asked(opened: Opened, secret: str, **headers: str) -> httpx2.Response:
    return await opened.http.post(
        f"{opened.url}/token", headers={"authorization": f"Bearer {secret}", **headers}
    )


async def test_a_token_is_exchanged_for_a_url_and_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    async with console_over(NONE) as opened:
        token = (await asked(opened, opened.app.entry.secret)).json()["token"]
        entered = await opened.http.get(f"{opened.url}?token={token}")
        assert entered.status_code == 303
        home, cookie = home_of(opened.url, entered.headers["location"]), entered.headers["set-cookie"]
        path = home.removeprefix(opened.origin)
        assert re.fullmatch(r"/console/[\w-]{43}", path)
        assert re.fullmatch(rf"toolbus_console=[\w-]{{43}}; Path={path}; HttpOnly; SameSite=Strict", cookie)
        assert token not in cookie
        assert (await opened.http.get(f"{home}/servers")).status_code == 200


async def test_a_token_works_once() -> None:
    async with console_over(NONE) as opened:
        token = (await asked(opened, opened.app.entry.secret)).json()["token"]
        assert (await opened.http.get(f"{opened.url}?token={token}")).status_code == 303
        async with httpx2.AsyncClient() as another:
            again = await another.get(f"{opened.url}?token={token}")
    assert again.status_code == 401
    assert "set-cookie" not in again.headers
    assert "toolbus console" in again.text
    assert token not in again.text


async def test_a_token_ends_after_ten_minutes() -> None:
    clock = Clock()
    async with console_over(NONE, clock=clock) as opened:
        token = opened.app.entry.new_token(opened.app.entry.secret)
        clock.now += TOKEN_SECONDS
        assert (await opened.http.get(f"{opened.url}?token={token}")).status_code == 401


async def test_a_session_ends_after_twelve_hours_and_its_stream_with_it() -> None:
    clock = Clock()
    async with console_over(NONE, clock=clock) as opened:
        await opened.enter()
        clock.now += SESSION_SECONDS - 1
        async with opened.stream("servers") as stream:
            assert await stream.next()
            clock.now += 1
            opened.console.changed("servers")
            while await stream.next() is not None:
                pass
        assert (await opened.http.get(f"{opened.home}/servers")).status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", "%00", "%ff", "a&token=b", "x" * 5000])
async def test_a_wrong_token_lets_nobody_in(token: str) -> None:
    async with console_over(NONE) as opened:
        refused = await opened.http.get(f"{opened.url}?token={token}")
        assert refused.status_code == 401
        assert "set-cookie" not in refused.headers
        assert (await opened.http.get(f"{opened.home}/servers")).status_code == 401


async def test_only_who_has_the_secret_gets_a_token_and_never_a_web_page() -> None:
    async with console_over(NONE) as opened:
        secret = opened.app.entry.secret
        assert (await asked(opened, "wrong")).status_code == 403
        assert (await asked(opened, "Basic")).status_code == 403
        assert (await asked(opened, secret, origin=opened.origin)).status_code == 403
        assert (await opened.http.post(f"{opened.url}/token")).status_code == 403
        assert (await asked(opened, secret)).status_code == 200


@pytest.mark.parametrize("path", ["", "/", "/servers", "/events/servers", "/no-such-page", "/static/servers"])
async def test_without_a_session_nothing_is_shown(path: str) -> None:
    async with console_over(NONE) as opened:
        for cookie in ("", "toolbus_console=wrong", "toolbus_console; a=b; toolbus_console="):
            refused = await opened.http.get(f"{opened.url}{path}", headers={"cookie": cookie})
            assert refused.status_code == 401
            assert "gone" not in refused.text


async def test_a_browser_that_another_page_led_here_is_asked_to_come_by_itself() -> None:
    """It withholds the cookie then, although it has one."""
    async with console_over(NONE) as opened:
        led = await opened.http.get(f"{opened.home}/servers", headers={"sec-fetch-site": "cross-site"})
        alone = await opened.http.get(f"{opened.home}/servers", headers={"sec-fetch-site": "same-origin"})
    assert 'http-equiv="refresh"' in led.text
    assert 'http-equiv="refresh"' not in alone.text


def test_tokens_and_sessions_are_bounded_and_the_oldest_gives_way() -> None:
    entry = ConsoleEntry()
    tokens = [entry.new_token(entry.secret) or "" for _ in range(MOST_TOKENS + 1)]
    assert entry.enter(tokens[0]) is None
    given = [entry.enter(tokens[1])]
    for _ in range(MOST_SESSIONS):
        given.append(entry.enter(entry.new_token(entry.secret) or ""))
    sessions = [one and entry.session(one.path, [one.cookie]) for one in given]
    assert sessions[0] is None
    assert None not in sessions[1:]
