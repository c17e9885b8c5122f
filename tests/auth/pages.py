"""Somebody at the pages of the authorization server: by plain HTTP, or in Chromium.

Both sign in and agree. The first is fast; the second proves it with a real browser.
"""

import asyncio
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from html.parser import HTMLParser
from http.client import HTTPMessage
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode, urljoin

from tests.auth.authorization_server import MODULES, SCRIPT
from tests.interop.servers import NODE
from tests.patience import PATIENCE
from toolbus.records import LoginRequest

PAGES = 12
"""More than these it is not sent to."""


class _Form(HTMLParser):
    """The first form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._ended = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = values.get("action") or ""
        elif tag == "input" and self.action is not None and not self._ended and (name := values.get("name")):
            self.fields[name] = values.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        self._ended = self._ended or tag == "form"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect by itself."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def walk(url: str, user: str, callback: str | None = None) -> str | None:
    """Sign in as `user` and agree; returns where the browser was sent, if that is below `callback`."""
    opener = urllib.request.build_opener(_Stay, urllib.request.HTTPCookieProcessor(CookieJar()))
    data: bytes | None = None
    for _ in range(PAGES):
        try:
            with opener.open(url, data, PATIENCE) as page:
                text: str = page.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                if "location" not in answer.headers:
                    raise AssertionError(f"{answer.code} at {url}: {answer.read().decode()}") from answer
                url, data = urljoin(url, answer.headers["location"]), None
            if callback is not None and url.startswith(callback):
                return url
            continue
        form = _Form()
        form.feed(text)
        if form.action is None:
            return None  # all is done
        answers = {"login": user, "password": "any"}
        url = urljoin(url, form.action)
        data = urlencode({name: answers.get(name, value) for name, value in form.fields.items()}).encode()
    raise AssertionError(f"no end at {url}")


class Person:
    """A login handler: somebody who signs in wherever asked to, and copies the URL of the last page."""

    def __init__(self, name: str, sign_in: Callable[[str, str, str | None], str | None] = walk) -> None:
        self.name = name
        self.requests: list[LoginRequest] = []
        self._sign_in = sign_in

    async def __call__(self, request: LoginRequest) -> str | None:
        self.requests.append(request)
        callback = request.redirect_uri or None
        return await asyncio.to_thread(self._sign_in, request.url, self.name, callback)


def browse(url: str, user: str, callback: str | None = None) -> None:
    """The same in Chromium, which follows the redirect to `callback` itself; returns once it has arrived."""
    settings = {"modules": str(MODULES), "url": url, "user": user, "callback": callback}
    _run_browser(settings)


def why_no_browser() -> str | None:
    """The reason why Chromium cannot be used here; None if it can."""
    try:
        _run_browser({"modules": str(MODULES)})
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        return f"Chromium does not start: {next((line for line in lines if 'Error' in line), lines)}"
    return None


def _run_browser(settings: dict[str, Any]) -> str:
    folder = MODULES.parent / "browser"
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [NODE, str(SCRIPT.with_name("browser.mjs")), json.dumps(settings)],
        env=os.environ | {"TMPDIR": str(folder)},
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout
