"""Open a sign-in page in the user's browser: http and https only, never through a shell."""

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from urllib.parse import urlsplit

from toolbus.core.ask.interactions import LoginRequest

logger = logging.getLogger("toolbus")
# The characters of RFC 3986, so that no program on the way can misread it.
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+", re.IGNORECASE)
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
BROWSER_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Variables of which one is set where a browser can be opened, except on macOS and Windows."""


async def browser_login(request: LoginRequest) -> str | None:
    """A login handler: opens the user's browser, and waits for it to come back. Declines if there is none.

    Pass it as `Interactions(login=browser_login)`. A code that the page does not know cannot be shown.
    """
    is_complete = request.code is None or request.code in request.url
    if not is_link(request.url) or not is_complete or not has_browser():
        logger.warning("server %r: cannot open a browser to sign in", request.server)
        return None
    if not await open_browser(request.url):
        logger.warning("server %r: the browser did not open", request.server)
        return None
    # Cancelled when the browser has come back, or the time is over.
    return await asyncio.get_running_loop().create_future()


def is_link(url: str) -> bool:
    """Whether it can be shown and opened: an http or https URL with a host, and without a user name."""
    if not _URL.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        # `https://bank.example@evil.example/` is not a page of the bank.
        return bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def has_browser(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether this process can open a browser that the user sees."""
    if env.get("SSH_CONNECTION") and not env.get("DISPLAY"):
        return False
    return platform in ("darwin", "win32") or any(env.get(name) for name in BROWSER_VARIABLES)


async def open_browser(url: str) -> bool:
    """Open the URL; returns whether a browser took it. Some browsers return only when they are closed."""
    if not is_link(url):
        return False
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[bool] = loop.create_future()

    def settle(outcome: bool) -> None:
        if not opened.done():
            opened.set_result(outcome)

    def run() -> None:
        outcome = _opened(url)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    # Not asyncio's threads: the loop would not end before a browser that runs in the foreground.
    Thread(target=run, name="toolbus-browser", daemon=True).start()
    return await opened


def _opened(url: str) -> bool:
    if getattr(sys, "frozen", False) or not sys.executable:
        import webbrowser

        return webbrowser.open(url)
    # In a process without a terminal: browsers print to stdout, and some would use the keyboard.
    try:
        # Isolated (-I): or a `webbrowser.py` in the current folder would be run.
        done = subprocess.run(
            [sys.executable, "-I", "-c", _OPEN, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0
