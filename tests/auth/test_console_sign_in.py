"""Sign in to a server from the console: the button, the page of the authorization server, and the end."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.auth.authorization_server import AuthorizationServer
from tests.auth.buses import called, config, stored
from tests.auth.pages import walk
from tests.auth.resource_server import ResourceServer
from tests.gateway.console.editing import edited_console, gone_to, hidden, tried
from tests.gateway.console.opening import Markup, Opened, Stream, console_over, plain
from tests.interop.servers import require_installed
from tests.patience import until

require_installed("oauth")
pytestmark = pytest.mark.anyio

FORM = {"server": "guarded"}
PAGE = "server?name=guarded"


async def _link(opened: Opened, stream: Stream) -> dict[str, str | None]:
    """Press the button, and return the link that the page then shows."""
    assert 'action="server/sign-in"' in await opened.page(PAGE)
    assert (await opened.post("server/sign-in", FORM)).status_code == 303
    shown = await stream.until(lambda markup: "in a new tab" in markup)
    [link] = Markup(shown).named("a")
    assert link["target"] == "_blank"
    assert link["rel"] == "noopener noreferrer"
    assert 'action="server/sign-in"' not in await opened.page(PAGE)
    return link


async def _signed_in(link: dict[str, str | None]) -> str:
    """The URL that the browser of somebody who signs in is sent back to."""
    url = link["href"] or ""
    [callback] = parse_qs(urlsplit(url).query)["redirect_uri"]
    back = await asyncio.to_thread(walk, url, "ann", callback)
    assert back is not None
    return back


async def test_a_person_signs_in_and_the_server_is_there(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    async with console_over(config(guarded, tmp_path)) as opened:
        await opened.enter()
        assert "sign-in needed" in plain(await opened.page(PAGE))
        async with opened.stream(PAGE) as stream:
            link = await _link(opened, stream)
            back = await _signed_in(link)
            # The browser comes back by itself.
            assert (await opened.http.get(back)).status_code == 200
            await stream.until(lambda markup: plain(markup).startswith("guarded ready since"))
        assert await called(opened.bus, "whoami") == "ann"
        assert "Sign in" not in await opened.page(PAGE)
    assert (await stored(guarded, tmp_path)).access


async def test_a_browser_on_another_machine_has_its_url_pasted(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    async with console_over(config(guarded, tmp_path)) as opened:
        await opened.enter()
        async with opened.stream(PAGE) as stream:
            link = await _link(opened, stream)
            back = await _signed_in(link)
            await opened.post("server/finish", {**FORM, "url": f" {back}\n"})
            await stream.until(lambda markup: plain(markup).startswith("guarded ready since"))
        await opened.post("server/finish", {**FORM, "url": back})
        assert "Nobody is signing in to guarded any more." in await opened.page(PAGE)


async def test_a_sign_in_that_fails_says_why_and_can_be_tried_again(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    async with console_over(config(guarded, tmp_path)) as opened:
        await opened.enter()
        async with opened.stream(PAGE) as stream:
            await _link(opened, stream)
            await opened.post("server/finish", {**FORM, "url": "http://127.0.0.1:1/?code=<b>&state=wrong"})
            failed = await stream.until(lambda markup: "The sign-in failed" in markup)
            assert "its state differs" in failed
            await _link(opened, stream)
            await opened.post("server/cancel", FORM)
            assert "was cancelled" in await stream.until(lambda markup: "The sign-in failed" in markup)
        assert authority.count("token ") == 0


async def test_a_server_without_a_sign_in_has_no_button() -> None:
    settings = {"servers": {"plain": {"command": "no-such-command-at-all"}}}
    async with console_over(settings) as opened:
        await opened.enter()
        assert "Sign in" not in await opened.page("server?name=plain")
        assert (await opened.post("server/sign-in", {"server": "plain"})).status_code == 303
        async with opened.stream("server?name=plain") as stream:
            failed = await stream.until(lambda markup: "The sign-in failed" in markup)
        assert "auth: oauth" in failed


async def test_a_server_that_is_added_asks_for_a_sign_in_in_its_trial_and_on_its_page(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    text = f"tokens: file:{tmp_path / 'tokens'}\nservers: {{}}\n"
    async with edited_console(tmp_path, text) as (opened, path):
        typed = {"way": "url", "name": "guarded", "url": guarded.url, "auth": "oauth"}
        place, page = await gone_to(opened, "add-server/review", typed)
        shown = await tried(opened, place, page)
        assert "It asks for a sign-in. Save it, and sign in on its page." in plain(shown)
        await gone_to(opened, "add-server/save", hidden(shown, "add-server/save"))
        await until(lambda: opened.bus.servers["guarded"].state == "auth_required")
        async with opened.stream(PAGE) as stream:
            back = await _signed_in(await _link(opened, stream))
            assert (await opened.http.get(back)).status_code == 200
            await stream.until(lambda markup: plain(markup).startswith("guarded ready since"))
        assert await called(opened.bus, "whoami") == "ann"
    assert "auth: oauth" in path.read_text()
