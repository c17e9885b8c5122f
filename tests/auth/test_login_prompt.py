"""URLs that are links, the availability of a browser, and the meaning of a pasted text."""

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.inside.cli import WrongPaste, redirect_in
from tests.inside.connect import has_browser, is_link, open_browser
from tests.patience import PATIENCE
from toolbus import Interactions, browser_login
from toolbus.records import LoginRequest

pytestmark = pytest.mark.anyio

REDIRECT = "http://127.0.0.1:3118/callback"
PAGE = "https://as.example/authorize?response_type=code&state=s-1&redirect_uri=" + quote(REDIRECT, safe="")
REQUEST = LoginRequest(server="linear", user="", url=PAGE, redirect_uri=REDIRECT)


@pytest.mark.parametrize(
    ("pasted", "meant"),
    [
        (f"{REDIRECT}?code=c-1&state=s-1&iss=x", f"{REDIRECT}?code=c-1&state=s-1&iss=x"),
        (f"  <{REDIRECT}?code=c-1&state=s-1>\n", f"{REDIRECT}?code=c-1&state=s-1"),
        ("?code=c-1&state=s-1", f"{REDIRECT}?code=c-1&state=s-1"),
        ("code=c-1&state=s-1", f"{REDIRECT}?code=c-1&state=s-1"),
        ("127.0.0.1:3118/callback?code=c-1&state=s-1", f"{REDIRECT}?code=c-1&state=s-1"),
        ("c-1", "c-1"),
        ("abc==", "abc=="),
        ("4%2F0Ab", f"{REDIRECT}?code=4%2F0Ab&state=s-1"),
        ("4/0Ab", f"{REDIRECT}?code=4%2F0Ab&state=s-1"),
    ],
)
def test_a_redirect_is_understood_whole_or_in_part(pasted: str, meant: str) -> None:
    assert redirect_in(pasted, REQUEST) == meant


@pytest.mark.parametrize(
    ("pasted", "why"),
    [
        (f"{REDIRECT}?code=c-1&state=other", "belongs to another attempt"),
        (f"{REDIRECT}?code=c-1", "is not complete"),
        (f"{REDIRECT}?state=s-1", "has no code"),
        (f"{REDIRECT}?code=&state=s-1", "has no code"),
        (f"{REDIRECT}?code=a&code=b&state=s-1", "has a parameter twice"),
        (f"{REDIRECT}?error=access_denied&state=s-1", "the sign-in was refused: access_denied"),
        (PAGE, "that is a page of as.example; the one you end on begins with http://127.0.0.1:3118/callback"),
        ("https://127.0.0.1:3118/callback?code=c-1&state=s-1", "that is a page of 127.0.0.1:3118"),
        ("http://127.0.0.1:3118/other?code=c-1&state=s-1", "that is a page of 127.0.0.1:3118"),
        ("http://[::1", "that is not a URL"),
        ("two words", "that is not a code"),
        ("c\u00f6de", "that is not a code"),
    ],
)
def test_a_wrong_paste_is_explained(pasted: str, why: str) -> None:
    with pytest.raises(WrongPaste, match=why.replace("?", "[?]")):
        redirect_in(pasted, REQUEST)


@pytest.mark.parametrize(
    ("pasted", "why"),
    [
        ("c-1", "a code alone does not say who issued it; paste the whole URL of the page you end on"),
        ("4/0Ab", "a code alone does not say who issued it"),
        ("?code=c-1&state=s-1", "does not say who issued the code"),
        (f"{REDIRECT}?code=c-1&state=s-1&iss=", "does not say who issued the code"),
        ("two words", "that is not a URL; expected the URL of the page you end on$"),
    ],
)
def test_a_code_without_its_issuer_is_not_enough_where_the_issuer_is_named(pasted: str, why: str) -> None:
    request = replace(REQUEST, names_issuer=True)
    assert redirect_in(f"{REDIRECT}?code=c-1&state=s-1&iss=x", request).endswith("&iss=x")
    with pytest.raises(WrongPaste, match=why):
        redirect_in(pasted, request)


@pytest.mark.parametrize(
    "url", ["https://a.example", PAGE, "http://[::1]:1/x", "HTTPS://a.example/%20?a=b#c"]
)
def test_a_web_page_is_a_link(url: str) -> None:
    assert is_link(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "ssh://a.example",
        "-x",
        "--help",
        "//a.example",
        "https://",
        "https://bank.example@evil.example/",
        "https://a.example/a b",
        "https://a.example/\n--x",
        "https://a.example/\x1b]8;;x\x07",
        'https://a.example/"&calc',
        "https://a.example/`id`",
        "https://a.example/\\x",
        "https://[::1/",
        " https://a.example",
        "https://\u0430.example",
    ],
)
async def test_anything_else_than_a_web_page(url: str) -> None:
    """It is never opened."""
    assert not is_link(url)
    assert not await open_browser(url)


@pytest.mark.parametrize(
    ("platform", "env", "expected"),
    [
        ("darwin", {}, True),
        ("win32", {}, True),
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"BROWSER": "firefox"}, True),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"BROWSER": "w3m", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, False),
        ("linux", {"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, True),
        ("darwin", {"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, False),
    ],
)
def test_there_is_a_browser_where_the_user_would_see_it(
    platform: str, env: dict[str, str], expected: bool
) -> None:
    assert has_browser(env, platform) is expected


@pytest.fixture
def browser_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes down the arguments it gets."""
    program, log = tmp_path / "browser", tmp_path / "log"
    program.write_text(f"#!{sys.executable}\nimport sys\nopen({str(log)!r}, 'a').write(repr(sys.argv[1:]))\n")
    program.chmod(0o755)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("BROWSER", str(program))
    return log


async def written(file: Path) -> str:
    """The content of the file, once it has any."""

    def read() -> str:
        deadline = time.monotonic() + PATIENCE
        while not file.exists() or not file.read_text():
            assert time.monotonic() < deadline, "the browser was not opened"
            time.sleep(0.005)
        return file.read_text()

    return await asyncio.to_thread(read)


async def test_the_url_is_one_argument_of_the_browser_and_no_shell_reads_it(browser_log: Path) -> None:
    url = "https://as.example/authorize?a=$(touch%20x)&b='c';d=%24HOME"
    assert await open_browser(url)
    assert await written(browser_log) == repr([url])


async def test_the_handler_for_programs_opens_the_page_and_waits(browser_log: Path) -> None:
    assert Interactions(login=browser_login).login is browser_login
    waiting = asyncio.ensure_future(browser_login(REQUEST))
    assert await written(browser_log) == repr([PAGE])
    assert not waiting.done()
    waiting.cancel()  # as when the browser has come back


async def test_the_handler_for_programs_declines_without_a_browser(
    browser_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    assert await browser_login(REQUEST) is None
    monkeypatch.delenv("SSH_CONNECTION")
    monkeypatch.setenv("BROWSER", "/no/such/browser")
    assert await browser_login(REQUEST) is None


async def test_the_handler_for_programs_declines_to_show_a_code(browser_log: Path) -> None:
    page = "https://as.example/device"
    request = LoginRequest(server="linear", user="", url=page, redirect_uri="", code="ABCD-EFGH")
    assert await browser_login(request) is None
    waiting = asyncio.ensure_future(browser_login(replace(request, url=f"{page}?user_code=ABCD-EFGH")))
    assert await written(browser_log) == repr([f"{page}?user_code=ABCD-EFGH"])
    waiting.cancel()
