"""Sign in to a server from the console in a real browser, on the pages of the authorization server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auth.authorization_server import AuthorizationServer
from tests.auth.buses import called, config
from tests.auth.resource_server import ResourceServer
from tests.gateway.console.chromium import Chromium, started_or_skipped
from tests.gateway.console.opening import console_over
from tests.gateway.console.test_browser_servers import row
from tests.interop.servers import require_installed

require_installed("oauth")
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """The browser."""
    yield from started_or_skipped()


async def test_a_person_signs_in_and_the_page_shows_it_without_a_reload(
    browser: Chromium, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    async with console_over(config(guarded, tmp_path)) as opened, browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.see(f"{row('guarded')} .badge", "sign-in needed")
        await tab.click(f"{row('guarded')} button:text-is('Sign in')")
        await tab.see("a.button[target=_blank]", "Sign in to guarded in a new tab")
        url = await tab.run("document.querySelector('a.button[target=_blank]').href")
        async with browser.tab(harmless=False) as other:
            await other.goto(url)
            await other.fill("input[name=login]", "ann")
            await other.fill("input[name=password]", "any")
            await other.click("text=Sign-in >> nth=-1")
            await other.click("text=Continue")
            await tab.see("#server-state .badge", "ready")
        assert await called(opened.bus, "whoami") == "ann"
        assert await tab.count("a.button[target=_blank]") == 0
