"""Requests of the sign-in, to servers that the user did not name: guarded, limited, without redirects.

A server decides by its metadata where these requests go. So an address inside the user's network is reached
only if the user named its host. Requests are encrypted unless they stay on this machine. A response has a
size limit, and a redirect is not followed. The same rules apply to the pages that a browser is sent to.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode

from toolbus.config import ServerConfig
from toolbus.connect.auth.browser import is_link
from toolbus.connect.auth.failure import AuthFailure, Unreachable
from toolbus.connect.http.addresses import Address, is_public, literal_address, looked_up, spelled_address
from toolbus.connect.http.pool import Pool, environment_proxy, request_bytes
from toolbus.connect.http.response import HttpFailure, TooLarge
from toolbus.connect.http.tls import guarded_tls_context, tls_context
from toolbus.connect.http.url import Url, is_loopback_host, parse_url
from toolbus.core.text.canonical import encoding_problem

logger = logging.getLogger("toolbus")

MAX_SECONDS = 20.0
MAX_BYTES = 256 * 1024
"""The most that a response may have."""
FORM = {"content-type": "application/x-www-form-urlencoded"}
_LONGEST_INT = 18
"""Digits; a longer number is read as a float."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FetchedReply:
    """A response with its whole body."""

    url: Url
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any] | None:
        """The JSON object in the body; None if there is none, or if it could not be stored and sent again."""
        try:
            value = json.loads(
                self.body,
                parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST_INT else float(digits),
            )
        except (ValueError, RecursionError):
            return None
        is_usable = isinstance(value, dict) and encoding_problem(cast(object, value)) is None
        return cast("dict[str, Any]", value) if is_usable else None

    @property
    def problem(self) -> str:
        """The reason why it cannot be used, for a message."""
        if self.status // 100 == 3:
            return f"HTTP {self.status} redirects elsewhere, which is not followed"
        return f"HTTP {self.status}" if self.status != 200 else "the response is not a JSON object"


@dataclass(slots=True, repr=False)
class Fetch:
    """Sends the requests of the sign-in to one server."""

    config: ServerConfig
    named: Sequence[Url]
    """The URLs that the user named: the server, and the issuer if it is in the config."""
    limit: int = MAX_BYTES
    """The most bytes of a response."""
    seconds: float | None = None
    """The limit of a request; by default less than for a whole attempt to connect, so that it fails first."""
    _allowed: set[Address] = field(default_factory=set[Address])
    """The addresses of the named hosts, once they were looked up."""

    @property
    def _seconds(self) -> float:
        return self.seconds or min(MAX_SECONDS, self.config.timeouts.connect / 3)

    async def reply(self, url: str, headers: Mapping[str, str] | None = None) -> FetchedReply:
        """The response to a GET, of any status."""
        return await self._answered("GET", self._checked(url), headers or {}, None)

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> FetchedReply:
        sent = {"accept": "application/json", **(headers or {})}
        return await self._send("GET", self._checked(url), sent, None)

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> FetchedReply:
        accept = {"accept": "application/json"}
        return await self._send(
            "POST", self._checked(url), {**accept, **FORM, **headers}, urlencode(form).encode()
        )

    async def post_json(self, url: str, value: Mapping[str, Any]) -> FetchedReply:
        headers = {"accept": "application/json", "content-type": "application/json"}
        return await self._send("POST", self._checked(url), headers, json.dumps(value).encode())

    async def check_page(self, url: str) -> str:
        """The URL of a page, if a browser may be sent there; AuthFailure if not."""
        page = self._checked(url)
        if not is_link(url):
            raise AuthFailure(f"the sign-in page {_shown(page)} is not a plain http or https URL")
        if not self._is_named(page) and (literal := spelled_address(page.host)) is not None:
            await self._refuse_private(page, [literal])
        return url

    def _checked(self, text: str) -> Url:
        try:
            url = parse_url(text)
        except ValueError as error:
            raise AuthFailure(f"a URL of the server cannot be used: {error}") from error
        if any(ord(character) <= 32 for character in text):
            raise AuthFailure("a URL of the server contains spaces or control characters")
        is_named = any(url.origin == named.origin for named in self.named)
        if url.socket_path is not None and not is_named:
            raise AuthFailure("a URL of the server names a Unix socket")
        if url.scheme == "http" and not is_named and not is_loopback_host(url.host):
            raise AuthFailure(f"{url.without_query} is not encrypted; https is required")
        return url

    async def _send(
        self, method: str, url: Url, headers: Mapping[str, str], content: bytes | None
    ) -> FetchedReply:
        reply = await self._answered(method, url, headers, content)
        if reply.status >= 500 or reply.status == 429:
            raise Unreachable(
                f"{_shown(url)}: HTTP {reply.status}", hint="it may be temporary; try again later"
            )
        return reply

    async def _answered(
        self, method: str, url: Url, headers: Mapping[str, str], content: bytes | None
    ) -> FetchedReply:
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._exchange(method, url, headers, content)
        except TimeoutError:
            raise Unreachable(f"{_shown(url)} did not respond in time") from None
        except TooLarge as failure:
            raise AuthFailure(f"{_shown(url)} sent more than {self.limit // 1024:,} KiB") from failure
        except HttpFailure as failure:
            raise Unreachable(f"{_shown(url)}: {failure}") from failure
        logger.debug("%s %s: HTTP %d", method, url.without_query, reply.status)
        return reply

    async def _exchange(
        self, method: str, url: Url, headers: Mapping[str, str], content: bytes | None
    ) -> FetchedReply:
        try:
            proxy = environment_proxy(url, lambda: guarded_tls_context(self.config))
        except ValueError as error:
            raise AuthFailure(f"the proxy that the environment names cannot be used: {error}") from error
        try:
            # A tunnel carries it as if there were no proxy.
            request = request_bytes(method, url, headers, content, None if url.is_tls else proxy)
        except ValueError as error:
            raise AuthFailure("a value contains a line break") from error
        if proxy is not None:
            await self._check_proxied(url)
        pool = Pool(
            url,
            tls=self._tls(url) if url.is_tls else None,
            proxy=proxy,
            connect_timeout=self._seconds,
            limit=self.limit,
            addresses=None if proxy or self._is_trusted(url) else partial(self._addresses, url),
        )
        try:
            connection = await pool.connection()
            response = await connection.request(request)
            if response.is_stream:
                raise AuthFailure(f"{_shown(url)} sent an event stream")
            return FetchedReply(url=url, status=response.status, headers=response.headers, body=response.body)
        finally:
            await pool.close()

    async def _check_proxied(self, url: Url) -> None:
        """Refuse a private address that a proxy is to connect to; it looks up the names."""
        if not self._is_trusted(url) and (literal := spelled_address(url.host)) is not None:
            await self._refuse_private(url, [literal])

    async def _addresses(self, url: Url) -> Sequence[str]:
        """The addresses to connect to, checked."""
        literal = literal_address(url.host)
        found = [literal] if literal else await _looked_up(url)
        await self._refuse_private(url, found)
        return [str(address) for address in found]

    def _is_trusted(self, url: Url) -> bool:
        """Whether the user named where it leads, so that the system may look it up."""
        return url.socket_path is not None or self._is_named(url)

    def _is_named(self, url: Url) -> bool:
        return any(url.host == named.host for named in self.named)

    async def _refuse_private(self, url: Url, addresses: Sequence[Address]) -> None:
        for address in addresses:
            if not is_public(address) and not await self._is_allowed(address):
                raise AuthFailure(
                    f"{url.host} is in a private network, and the server names it, not you",
                    hint="if you trust it, set it as auth.issuer",
                )

    async def _is_allowed(self, address: Address) -> bool:
        """Whether the user named a host at this address, or, for this machine, any host on it."""
        if not self._allowed:
            for named in self.named:
                literal = literal_address(named.host)
                if literal is not None:
                    self._allowed.add(literal)
                elif named.socket_path is None:
                    with suppress(Unreachable):  # behind a proxy, which alone can look it up
                        self._allowed.update(await _looked_up(named))
        is_ours = address.is_loopback and any(one.is_loopback for one in self._allowed)
        return is_ours or address in self._allowed

    def _tls(self, url: Url) -> ssl.SSLContext:
        """The client certificate, and trust without verification, are for the server alone."""
        return tls_context(self.config) if self._is_named(url) else guarded_tls_context(self.config)


async def _looked_up(url: Url) -> list[Address]:
    try:
        return await looked_up(url)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{url.host}: {getattr(error, 'strerror', None) or error}") from error


def _shown(url: Url) -> str:
    return url.without_query[:300]
