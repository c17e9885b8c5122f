"""Sends the requests of one API, to the places that its owner named and no others.

A document decides where requests go, and may come from anyone. So only the API's own origin gets the
credentials, and other origins need the owner's consent. An address in a private network is refused unless
the owner named it. Connections go to the address that was checked.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from functools import partial
from typing import Any
from urllib.parse import urlencode

from toolbus.config import ServerConfig
from toolbus.connect.auth.credentials import StaticHeaders
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch
from toolbus.connect.http.addresses import is_public, looked_up, spelled_address
from toolbus.connect.http.pool import Addresses
from toolbus.connect.http.response import HttpFailure, Response, TooLarge
from toolbus.connect.http.tls import guarded_tls_context, tls_context
from toolbus.connect.http.url import Url, bracketed, parse_url
from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.transports.http import MAX_REDIRECTS, HttpClient, origin_client, warn_insecure
from toolbus.connect.transports.wire.messages import add_trace
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.values.errors import ConnectFailed
from toolbus.openapi.operation import ApiOperation
from toolbus.openapi.request import ApiRequest, build

_REDIRECTS = (301, 302, 303, 307, 308)
_SECONDS = 30.0
"""The time limit for fetching a document."""


class RequestRefused(Exception):
    """A request that was not sent; the message says why, and what in the config would allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The limits on where the requests of an API go."""

    own: Url
    """The base URL of the API: its origin gets the credentials."""
    named: Sequence[Url] = ()
    """The URLs of the document and the API in the config; their hosts may be in a private network."""
    allowed: Sequence[Url] = ()
    """Further origins that requests may go to, if they are public."""
    allow_private: bool = False
    """Whether any origin of the API may be in a private network."""

    def check_origin(self, url: Url) -> None:
        """Refuse an origin that is neither the API's own nor named."""
        if all(url.origin != one.origin for one in (self.own, *self.named, *self.allowed)):
            origin = shown_origin(url)
            raise RequestRefused(
                f"{origin} is another origin than the API's own, {shown_origin(self.own)};"
                f" to allow it, add {origin!r} to openapi.allow_origins"
            )

    def trusts(self, url: Url) -> bool:
        """Whether the system may look up the host, wherever it is."""
        return self.allow_private or any(url.origin == one.origin for one in self.named)

    def check_proxied(self, url: Url) -> None:
        """Refuse a host that is a private address however it is spelled; the proxy looks up the names."""
        literal = spelled_address(url.host)
        if literal is not None and not self.trusts(url) and not is_public(literal):
            raise self._refused_private(url, str(literal))

    async def addresses(self, url: Url) -> Sequence[str]:
        """The addresses of a host, all of them public."""
        literal = spelled_address(url.host)
        try:
            found = [literal] if literal is not None else await looked_up(url)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise HttpFailure(f"{url.host}: {reason}", sent=False) from error
        for address in found:
            if not is_public(address):
                raise self._refused_private(url, str(address))
        return [str(address) for address in found]

    def _refused_private(self, url: Url, address: str) -> RequestRefused:
        what = url.host if url.host == address else f"{url.host} ({address})"
        is_own = url.origin == self.own.origin
        base = f"set openapi.base_url to a URL of {shown_origin(url)}, or " if is_own else "set "
        return RequestRefused(
            f"{what} is in a private network. To allow it, {base}openapi.allow_private: true"
        )


def shown_origin(url: Url) -> str:
    """The origin of a URL, for a message or for `allow_origins`."""
    default = {"http": 80, "https": 443}.get(url.scheme)
    return f"{url.scheme}://{bracketed(url.host)}" + ("" if url.port in (default, 0) else f":{url.port}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """A response with its whole body, decompressed."""

    status: int
    headers: Mapping[str, str]
    """The headers, by name in lower case."""
    media_type: str
    """The content type, without its parameters."""
    body: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The body as text, by its charset; invalid bytes are replaced."""
        message = Message()
        message["content-type"] = self.headers.get("content-type", "")
        charset = message.get_content_charset("utf-8")
        try:
            return self.body.decode(charset, errors="replace")
        except (LookupError, ValueError):  # unknown, or no charset of text
            return self.body.decode(errors="replace")


class Sender:
    """Sends the requests of one API; any number at the same time."""

    def __init__(self, attempt: Attempt, reach: Reach, query: Mapping[str, str]) -> None:
        self._attempt = attempt
        self._reach = reach
        self._query = urlencode(query)
        self._clients: dict[tuple[str, str, int], HttpClient] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def send(self, operation: ApiOperation, arguments: Mapping[str, Any]) -> ApiResponse:
        """Send the request of a call.

        Raises `UnusableArguments` or `RequestRefused` if it was not sent, and `WireError` if there is no
        response.
        """
        request = build(operation, arguments)
        try:
            url = parse_url(request.url)
        except ValueError as error:
            raise RequestRefused(f"the URL of the request is not valid: {error}") from error
        return await self._follow(request, url)

    async def _follow(self, request: ApiRequest, url: Url) -> ApiResponse:
        """Send a request, and follow its redirects as long as they lead to where it may go."""
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._exchange(request, url)
            location = reply.headers.get("location")
            if reply.status not in _REDIRECTS or location is None:
                return reply
            if reply.status == 303 and request.method != "HEAD":
                kept = {name: text for name, text in request.headers.items() if name != "content-type"}
                request = ApiRequest(method="GET", url=request.url, headers=kept)
            elif reply.status in (301, 302) and request.method not in ("GET", "HEAD"):
                return reply  # no standard says which method the next request has
            try:
                url = url.join(location)
            except ValueError as error:
                raise RequestRefused(f"the API redirects to an invalid URL: {error}") from error
            self._check_redirect(url)
        raise RequestRefused(f"the API redirects more than {MAX_REDIRECTS} times")

    def _check_redirect(self, url: Url) -> None:
        try:
            self._reach.check_origin(url)
        except RequestRefused as refused:
            raise RequestRefused(f"the API redirects, which is not followed: {refused}") from None

    async def _exchange(self, request: ApiRequest, url: Url) -> ApiResponse:
        self._reach.check_origin(url)
        client = await self._client(url)
        is_own = url.origin == self._reach.own.origin
        target = client.endpoint(_with_query(url, self._query).text if is_own else url.text)
        assert target is not None, "each client has one origin"
        headers = dict(request.headers)
        add_trace(headers, with_baggage=self._attempt.config.baggage and is_own)
        async with client.request(request.method, target, headers, request.content) as response:
            return ApiResponse(
                status=response.status,
                headers=response.headers,
                media_type=response.media_type,
                body=await _whole(response),
            )

    async def _client(self, url: Url) -> HttpClient:
        async with self._opening:
            if url.origin not in self._clients:
                self._clients[url.origin] = await self._stack.enter_async_context(self._open(url))
        return self._clients[url.origin]

    @asynccontextmanager
    async def _open(self, url: Url) -> AsyncGenerator[HttpClient]:
        attempt, reach = self._attempt, self._reach
        is_own = url.origin == reach.own.origin
        if is_own:
            warn_insecure(attempt, url)
        else:
            attempt = replace(attempt, credentials=StaticHeaders({}))
        tls = None
        if url.is_tls:
            tls = tls_context(attempt.config) if is_own else guarded_tls_context(attempt.config)
        reach.check_proxied(url)
        lookup: Addresses | None = None if reach.trusts(url) else partial(reach.addresses, url)
        async with origin_client(attempt, url, tls, lookup) as client:
            yield client

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        await self._stack.aclose()


@asynccontextmanager
async def api_sender(
    attempt: Attempt, reach: Reach, query: Mapping[str, str] | None = None
) -> AsyncGenerator[Sender]:
    """A sender for an API; `query` is added to every request to its own origin, after the document's."""
    sender = Sender(attempt, reach, query or {})
    try:
        yield sender
    finally:
        await sender.close()


async def _whole(response: Response) -> bytes:
    """The whole body; also of an event stream, which the client hands over as it arrives."""
    if not response.is_stream:
        return response.body
    parts: list[bytes] = []
    size = 0
    try:
        async for chunk in response.chunks():
            size += len(chunk)
            if size > response.limit:
                raise TooLarge("the response", response.limit)
            parts.append(chunk)
    except HttpFailure as failure:
        raise WireError(str(failure), sent=True, lost=False) from failure
    return b"".join(parts)


def _with_query(url: Url, query: str) -> Url:
    if not query:
        return url
    return parse_url(f"{url.text}{'&' if '?' in url.text else '?'}{query}")


async def fetched_document(
    config: ServerConfig, text: str, headers: Mapping[str, str] | None = None
) -> bytes:
    """The document at a URL that the owner wrote; `ConnectFailed` if there is none.

    It follows redirects on the same origin. `headers` are sent with every request.
    """
    url = parse_url(text)
    fetch = Fetch(config, [url], limit=config.limits.message, seconds=_SECONDS)
    for _ in range(MAX_REDIRECTS + 1):
        try:
            reply = await fetch.reply(url.text, headers)
            onward = url.join(reply.headers["location"]) if reply.status in _REDIRECTS else None
        except AuthFailure as failure:
            raise ConnectFailed(config.alias, "connect", failure.reason, hint=failure.hint) from failure
        except (KeyError, ValueError) as error:
            problem = f"{url.without_query} redirects to no valid URL"
            raise ConnectFailed(config.alias, "connect", problem) from error
        if reply.status == 200:
            return reply.body
        if onward is None:
            problem = f"{url.without_query}: {reply.problem}"
            raise ConnectFailed(config.alias, "connect", problem, status=reply.status)
        if onward.origin != url.origin:
            raise ConnectFailed(
                config.alias,
                "connect",
                f"{url.without_query} redirects to {shown_origin(onward)}, which is not followed",
                hint=f"if you trust it, write {onward.without_query} as openapi.document",
            )
        url = onward
    raise ConnectFailed(config.alias, "connect", f"{url.without_query} redirects too often")
