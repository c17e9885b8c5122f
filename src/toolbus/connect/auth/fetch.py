"""Requests of the sign-in, to servers that the user did not name: guarded, limited, without redirects.

A server decides by its metadata where these requests go. So an address inside of the user's network is only
reached if the user named its host, nothing is sent without encryption except on this machine, a response
has a size limit, and a redirect is not followed.
"""

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, cast
from urllib.parse import urlencode

from toolbus.config import ServerConfig
from toolbus.connect.auth.failure import AuthFailure, Unreachable
from toolbus.connect.http.address import is_loopback_host
from toolbus.connect.http.pool import Pool
from toolbus.connect.http.proxy import Proxy, environment_proxy
from toolbus.connect.http.response import HttpFailure, TooLarge
from toolbus.connect.http.tls import guarded_tls_context, tls_context
from toolbus.connect.http.url import Url, parse_url

logger = logging.getLogger("toolbus")

MAX_SECONDS = 20.0
MAX_BYTES = 256 * 1024
"""The most that a response may have."""
FORM = {"content-type": "application/x-www-form-urlencoded"}
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reply:
    """A response with its whole body."""

    url: Url
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any] | None:
        """The JSON object in the body; None if there is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None

    @property
    def problem(self) -> str:
        """Why it cannot be used, for a message."""
        if self.status // 100 == 3:
            return f"HTTP {self.status} redirects elsewhere, which is not followed"
        return f"HTTP {self.status}" if self.status != 200 else "the response is not a JSON object"


@dataclass(slots=True, repr=False)
class Fetch:
    """Sends the requests of the sign-in to one server."""

    config: ServerConfig
    named: Sequence[Url]
    """The URLs that the user named: the server, and the issuer if it is in the config."""
    _allowed: set[Address] = field(default_factory=set[Address])
    """The addresses of the named hosts, once they were looked up."""

    @property
    def _seconds(self) -> float:
        """For one request: less than for a whole attempt to connect, so that it is the one to fail."""
        return min(MAX_SECONDS, self.config.timeouts.connect / 3)

    async def get(self, url: str) -> Reply:
        """Get a document."""
        return await self._send("GET", self._checked(url), {"accept": "application/json"}, None)

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        """Post a form."""
        accept = {"accept": "application/json"}
        return await self._send(
            "POST", self._checked(url), {**accept, **FORM, **headers}, urlencode(form).encode()
        )

    async def post_json(self, url: str, value: Mapping[str, Any]) -> Reply:
        """Post a JSON document."""
        headers = {"accept": "application/json", "content-type": "application/json"}
        return await self._send("POST", self._checked(url), headers, json.dumps(value).encode())

    def check(self, url: str) -> str:
        """The URL, if it may be requested or opened in a browser; AuthFailure if not."""
        self._checked(url)
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

    async def _send(self, method: str, url: Url, headers: Mapping[str, str], content: bytes | None) -> Reply:
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._exchange(method, url, headers, content)
        except TimeoutError:
            raise Unreachable(f"{_shown(url)} did not respond in time") from None
        except TooLarge as failure:
            raise AuthFailure(f"{_shown(url)} sent more than {MAX_BYTES // 1024} KiB") from failure
        except HttpFailure as failure:
            raise Unreachable(f"{_shown(url)}: {failure}") from failure
        logger.debug("%s %s: HTTP %d", method, url.without_query, reply.status)
        if reply.status >= 500 or reply.status == 429:
            raise Unreachable(f"{_shown(url)}: HTTP {reply.status}")
        return reply

    async def _exchange(
        self, method: str, url: Url, headers: Mapping[str, str], content: bytes | None
    ) -> Reply:
        try:
            proxy = None if url.socket_path else environment_proxy(url)
        except ValueError as error:
            raise AuthFailure(f"the proxy that the environment names cannot be used: {error}") from error
        failure: HttpFailure | None = None
        for address in await self._addresses(url, is_proxied=proxy is not None):
            try:
                return await self._exchange_at(
                    address, proxy, url, _request(method, url, proxy, headers, content)
                )
            except HttpFailure as failed:
                if failed.sent:
                    raise
                failure = failed
        assert failure is not None, "a host has an address"
        raise failure

    async def _exchange_at(self, address: str | None, proxy: Proxy | None, url: Url, request: bytes) -> Reply:
        pool = Pool(
            url,
            tls=self._tls(url) if url.is_tls else None,
            proxy=proxy,
            proxy_tls=guarded_tls_context(self.config) if proxy and proxy.url.is_tls else None,
            connect_timeout=self._seconds,
            limit=MAX_BYTES,
            address=address,
        )
        try:
            connection = await pool.connection()
            response = await connection.request(request)
            if response.is_stream:
                raise AuthFailure(f"{_shown(url)} sent an event stream")
            return Reply(url=url, status=response.status, headers=response.headers, body=response.body)
        finally:
            await pool.close()

    async def _addresses(self, url: Url, *, is_proxied: bool) -> Sequence[str | None]:
        """The addresses to connect to, checked; None to leave it to the system."""
        if url.socket_path is not None or any(url.host == named.host for named in self.named):
            return [None]
        literal = _literal(url.host)
        if literal is None and is_proxied:
            return [None]  # the proxy looks it up
        found = [literal] if literal else await _addresses(url)
        for address in found:
            if not address.is_global and not await self._is_allowed(address):
                raise AuthFailure(
                    f"{url.host} is in a private network, and the server names it, not you",
                    hint="if you trust it, set it as auth.issuer",
                )
        return [None] if is_proxied else [str(address) for address in dict.fromkeys(found)]

    async def _is_allowed(self, address: Address) -> bool:
        """Whether the user named a host at this address, or, for this machine, any host on it."""
        if not self._allowed:
            for named in self.named:
                literal = _literal(named.host)
                if literal is not None:
                    self._allowed.add(literal)
                elif named.socket_path is None:
                    with suppress(Unreachable):  # behind a proxy, which alone can look it up
                        self._allowed.update(await _addresses(named))
        is_ours = address.is_loopback and any(one.is_loopback for one in self._allowed)
        return is_ours or address in self._allowed

    def _tls(self, url: Url) -> ssl.SSLContext:
        """The client certificate, and trust without verification, are for the server alone."""
        is_named = any(url.host == named.host for named in self.named)
        return tls_context(self.config) if is_named else guarded_tls_context(self.config)


def _request(
    method: str, url: Url, proxy: Proxy | None, headers: Mapping[str, str], content: bytes | None
) -> bytes:
    is_forwarded = proxy is not None and not url.is_tls  # a tunnel carries it as if there were no proxy
    target = url.text if is_forwarded else url.target
    lines = [f"{method} {target} HTTP/1.1", f"host: {url.authority}", "user-agent: toolbus"]
    if proxy is not None and is_forwarded and proxy.authorization is not None:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    if content is not None:
        lines.append(f"content-length: {len(content)}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""])
    if head.count("\n") != len(lines) + 1 or head.count("\r") != len(lines) + 1 or "\0" in head:
        raise AuthFailure("a value contains a line break")
    return head.encode("latin-1", errors="replace") + (content or b"")


async def _addresses(url: Url) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{url.host}: {getattr(error, 'strerror', None) or error}") from error
    return [_plain(ip_address(str(address[0]).partition("%")[0])) for *_, address in found]


def _literal(host: str) -> Address | None:
    try:
        return _plain(ip_address(host))
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _shown(url: Url) -> str:
    return url.without_query[:300]
