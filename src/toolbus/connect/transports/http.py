"""The HTTP client that both HTTP transports use.

Everything passes `SecretTransport`, the last step before the network. Secrets enter there and nowhere above,
so no logger of the SDK or the HTTP library can print them.
"""

import base64
import ssl
import time
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

import httpx2

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.diagnostics import Diagnostics, Line
from toolbus.connect.transports.delivery import DELIVERY, Delivery
from toolbus.connect.transports.jsonrpc import WireError
from toolbus.core.errors import ConnectFailed

# Connections are kept for less time than common servers keep theirs (5 s), so that a request is
# not sent on one that is just being closed.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=4.0)
MOST_REDIRECTS = 5
LOOK_EVERY = 5.0
"""Seconds of silence after which a server is looked for (see `liveness.py`)."""
LOOK_EVERY_TLS = 30.0
"""A TLS server may log a connection that ends before its handshake."""
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Web:
    """One server's HTTP client, and the secrets it goes through."""

    client: httpx2.AsyncClient
    secrets: "SecretTransport"
    line: Line

    @asynccontextmanager
    async def sent(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send, and follow redirects that stay on the server's origin and keep the method.

        Raises `WireError`, which says whether the request may have reached the server.
        """
        request = self.client.build_request(method, url, headers=dict(headers), content=content)
        delivery = DELIVERY.get()
        # A request of several rounds has arrived once one of them has.
        if content is not None and delivery is not None and delivery.held is None:
            delivery.held = True
            request.stream = _Body(content, delivery)
        self.line.busy += 1
        try:
            response = await self.client.send(request, stream=True)
            for _ in range(MOST_REDIRECTS):
                following = response.next_request
                if (
                    following is None
                    or following.method != method
                    or not self.secrets.same_origin(following.url)
                ):
                    break
                await response.aclose()
                response = await self.client.send(following, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except NOT_SENT as error:
            raise WireError(f"cannot connect: {str(error) or 'refused'}", sent=False) from error
        except httpx2.TransportError as error:
            # One broken connection of many is not the end of the session.
            reason = f"the connection failed: {str(error) or type(error).__name__}"
            raise WireError(reason, sent=True, lost=False) from error
        finally:
            self.line.busy -= 1
            self.line.used = time.monotonic()


def refused(response: httpx2.Response) -> WireError:
    """The error of a response that is none of what was asked for."""
    if response.next_request is not None:
        here, there = response.url, response.next_request.url
        origin = "" if _origin(here) == _origin(there) else ", another origin"
        shown = there.copy_with(userinfo=b"", query=None)
        message = f"HTTP {response.status_code} redirects to {shown}{origin}, which is not followed"
    else:
        message = phrase(response.status_code)
    return WireError(message, sent=True, lost=False, status=response.status_code, code=-32603)


def is_temporary(status: int) -> bool:
    """Whether a refusal may be over in a moment; a 501, or any other 4xx, means that it is not offered."""
    return status in (408, 425, 429) or (status >= 500 and status != 501)


def unusable(response: httpx2.Response) -> str:
    """What came instead of an answer: in words, to end a sentence about the server."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        return f"the server's answer is a web page ({kind})"
    return f"the server's answer ({kind or phrase(response.status_code)}) holds no message"


def phrase(status: int) -> str:
    """An HTTP status in words."""
    return f"HTTP {status} {HTTPStatus(status).phrase if status in set(HTTPStatus) else ''}".rstrip()


@asynccontextmanager
async def web(config: ServerConfig, values: Resolved, diagnostics: Diagnostics) -> AsyncGenerator[Web]:
    """An HTTP client for one server."""
    assert values.url is not None
    proxy = _proxy(httpx2.URL(values.url))
    secrets = SecretTransport(_network(config, values.url, proxy), values)
    diagnostics.line = line = line_of(values.url, proxy)
    # No read limit here: an event stream may be silent for long. Each request has its own bound.
    timeout = httpx2.Timeout(config.timeouts.connect, read=None)
    async with httpx2.AsyncClient(transport=secrets, timeout=timeout) as client:
        yield Web(client, secrets, line)


def _proxy(url: httpx2.URL) -> str | None:
    bypass = urllib.request.proxy_bypass(url.host)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # missing in typeshed
    return None if bypass else urllib.request.getproxies().get(url.scheme)


def line_of(url: str, proxy: str | None) -> Line:
    """Where the server of a URL listens, and how often it is looked for."""
    parts = httpx2.URL(url)
    is_tls = parts.scheme == "https"
    every = LOOK_EVERY_TLS if is_tls else LOOK_EVERY
    return Line(parts.host, parts.port or (443 if is_tls else 80), None if proxy else every)


def _network(config: ServerConfig, url: str, proxy: str | None) -> httpx2.AsyncHTTPTransport:
    # Whom to trust takes 50 ms to load, at every connect: not for plain HTTP, and once for all others.
    verify = _trust(config) if url.startswith("https:") or proxy else False
    return httpx2.AsyncHTTPTransport(verify=verify, limits=LIMITS, proxy=proxy)


@cache
def _default_trust() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _trust(config: ServerConfig) -> ssl.SSLContext | bool:
    if config.verify is True:
        return _default_trust()
    if config.verify is False:
        return False
    try:
        return ssl.create_default_context(cafile=config.verify)
    except (OSError, ssl.SSLError) as error:
        raise ConnectFailed(
            config.alias, "configure", f"the CA bundle {config.verify!r} (verify) cannot be read"
        ) from error


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What stands behind a shown URL; made once, because taking URLs apart is slow."""

    url: httpx2.URL
    headers: dict[str, str]


class _Body(httpx2.AsyncByteStream):
    """A body that notes when it is written; a server acts on no request without its body."""

    def __init__(self, content: bytes, delivery: Delivery) -> None:
        self._content = content
        self._delivery = delivery

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        self._delivery.held = False
        yield self._content


class SecretTransport(httpx2.AsyncBaseTransport):
    """Adds what is secret and sends."""

    def __init__(self, network: httpx2.AsyncBaseTransport, values: Resolved) -> None:
        assert values.url is not None
        self._network = network
        self._redacted = values.redacted
        self._headers = dict(values.headers)
        self._userinfo = httpx2.URL(values.url).userinfo
        self._origin = _origin(httpx2.URL(values.url))
        self._real: dict[httpx2.URL, _Hidden] = {}
        self.url = self.shown(values.url)
        """The server's URL, as everything above the secrets may know it."""

    def shown(self, url: str) -> str:
        """A URL of the server's origin that stands for the real one above the secrets and holds no secret."""
        real = httpx2.URL(url)
        shown = real.copy_with(userinfo=b"", query=None, fragment=None, path=self._redacted(real.path))
        headers = dict(self._headers)
        # A redirect does not repeat them: those of the config count for the whole origin.
        userinfo = real.userinfo or self._userinfo
        if userinfo and not any(name.lower() == "authorization" for name in headers):
            headers["authorization"] = f"Basic {base64.b64encode(unquote_to_bytes(userinfo)).decode()}"
        self._real[shown] = _Hidden(real.copy_with(userinfo=b""), headers)
        return str(shown)

    def same_origin(self, url: str | httpx2.URL) -> bool:
        """Whether a URL is on the server's own origin."""
        return _origin(httpx2.URL(url)) == self._origin

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        complete = self._complete(request)
        response = await self._network.handle_async_request(complete)
        if location := response.headers.get("location"):
            # Servers repeat the query there, and with it the secrets in it.
            target = str(complete.url.join(location))
            if self.same_origin(target):
                response.headers["location"] = self.shown(target)
        return response

    async def aclose(self) -> None:
        await self._network.aclose()

    def _complete(self, request: httpx2.Request) -> httpx2.Request:
        hidden = self._real.get(request.url)
        if hidden is None:
            return request  # not a URL of ours: it gets none of our secrets
        if hidden.url == request.url and not hidden.headers:
            return request
        headers = request.headers.copy()
        headers.update(hidden.headers)
        # A copy: the request the HTTP library knows, logs and shows keeps its public URL.
        return httpx2.Request(
            request.method, hidden.url, headers=headers, stream=request.stream, extensions=request.extensions
        )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
