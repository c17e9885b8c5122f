"""The cookies of one server: a load balancer may use them to find the server's session."""

import http.cookiejar
import urllib.request
from collections.abc import Sequence
from email.message import Message
from typing import Any, cast

from toolbus.connect.http.url import Url

MAX_COOKIES = 50
MAX_LENGTH = 4096
"""Characters of one cookie, as in browsers."""


class Cookies:
    """Keeps what the server sets, and returns it with later requests."""

    def __init__(self) -> None:
        self._jar: http.cookiejar.CookieJar | None = None

    def keep(self, url: Url, cookies: Sequence[str]) -> None:
        """Keep the values of `set-cookie` headers; too many replace the others, too long ones are ignored."""
        if self._jar is None:
            self._jar = http.cookiejar.CookieJar()
        short = [cookie for cookie in cookies if len(cookie) <= MAX_LENGTH][:MAX_COOKIES]
        if len(self._jar) + len(short) > 2 * MAX_COOKIES:
            self._jar.clear()
        self._jar.extract_cookies(cast(Any, _Headers(short)), urllib.request.Request(_for_jar(url)))

    def header(self, url: Url) -> str | None:
        """The `cookie` header of a request."""
        if self._jar is None:
            return None
        request = urllib.request.Request(_for_jar(url))
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie")


def _for_jar(url: Url) -> str:
    return url.text if url.socket_path is None else f"http://localhost{url.target}"


class _Headers:
    """What the jar reads from a response."""

    def __init__(self, cookies: Sequence[str]) -> None:
        self._message = Message()
        for cookie in cookies:
            self._message["Set-Cookie"] = cookie

    def info(self) -> Message:
        return self._message
