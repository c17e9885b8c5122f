"""The HTTP client of both HTTP transports.

Every request passes `SecretTransport`, the last step before the network. Secrets are added there and
nowhere above, so neither the SDK's loggers nor the HTTP library's can print them.
"""

import ssl
import time
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus

import httpx2

from toolbus.config import ServerConfig
from toolbus.config.secrets.redact import names_credential
from toolbus.connect.attempt import Attempt
from toolbus.connect.diagnostics import HttpActivity
from toolbus.connect.transports.delivery import DELIVERY, Delivery
from toolbus.connect.transports.jsonrpc import WireError
from toolbus.core.errors import INTERNAL_ERROR, ConnectFailed

# Idle connections are kept for less time than common servers keep theirs (5 s), so that no request
# is sent on a connection that is just being closed.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=4.0)
MAX_REDIRECTS = 5
CHECK_INTERVAL = 5.0
"""Seconds of inactivity after which the server is checked (see `liveness.py`)."""
CHECK_INTERVAL_TLS = 30.0
"""Longer, because a TLS server may log a connection that ends before its handshake."""
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol)
AUTH_STATUSES = (401, 403)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """The HTTP client of one server."""

    client: httpx2.AsyncClient
    transport: "SecretTransport"
    activity: HttpActivity

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request and follow redirects that stay on the server's origin and keep the method.

        Raises `WireError`, whose `sent` says whether the request may have reached the server.
        """
        request = self.client.build_request(method, url, headers=dict(headers), content=content)
        delivery = DELIVERY.get()
        # A call of several round trips has arrived once one of its requests has.
        if content is not None and delivery is not None and delivery.unsent is None:
            delivery.unsent = True
            request.stream = _TrackedBody(content, delivery)
        self.activity.open_requests += 1
        try:
            response = await self.client.send(request, stream=True)
            for _ in range(MAX_REDIRECTS):
                redirect = response.next_request
                if (
                    redirect is None
                    or redirect.method != method
                    or not self.transport.is_same_origin(redirect.url)
                ):
                    break
                await response.aclose()
                response = await self.client.send(redirect, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except NOT_SENT as error:
            raise WireError(f"cannot connect: {str(error) or 'refused'}", sent=False) from error
        except httpx2.TransportError as error:
            # The session may go on over its other connections.
            reason = f"the connection failed: {str(error) or type(error).__name__}"
            raise WireError(reason, sent=True, lost=False) from error
        finally:
            self.activity.open_requests -= 1
            self.activity.last_used = time.monotonic()


def response_error(response: httpx2.Response) -> WireError:
    """The error for a response that is a redirect or has an error status."""
    if response.next_request is not None:
        source, target = response.url, response.next_request.url
        origin = "" if _origin(source) == _origin(target) else ", another origin"
        shown = target.copy_with(userinfo=b"", query=None)
        message = f"HTTP {response.status_code} redirects to {shown}{origin}, which is not followed"
    else:
        message = status_text(response.status_code)
    return WireError(message, sent=True, lost=False, status=response.status_code, code=INTERNAL_ERROR)


def is_temporary(status: int) -> bool:
    """Whether a retry may succeed; a 501, or any other 4xx, means that the request is not supported."""
    return status in (408, 425, 429) or (status >= 500 and status != 501)


def content_type(response: httpx2.Response) -> str:
    """The media type of a response, without its parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def invalid_response(response: httpx2.Response) -> str:
    """The problem with a response that contains no message."""
    kind = content_type(response)
    if kind in ("text/html", "application/xhtml+xml"):
        return f"the server's response is a web page ({kind})"
    return f"the server's response ({kind or status_text(response.status_code)}) contains no message"


def status_text(status: int) -> str:
    """An HTTP status with its standard phrase."""
    return f"HTTP {status} {HTTPStatus(status).phrase if status in set(HTTPStatus) else ''}".rstrip()


@asynccontextmanager
async def http_client(attempt: Attempt) -> AsyncGenerator[HttpClient]:
    """An HTTP client for one server."""
    config, url = attempt.config, attempt.values.url
    assert url is not None
    proxy = _proxy(httpx2.URL(url))
    transport = SecretTransport(_network(config, url, proxy), attempt)
    attempt.diagnostics.activity = activity = http_activity(url, proxy)
    # No read timeout: an event stream may be silent for long. Each request has its own time limit.
    timeout = httpx2.Timeout(config.timeouts.connect, read=None)
    async with httpx2.AsyncClient(transport=transport, timeout=timeout) as client:
        yield HttpClient(client, transport, activity)


def _proxy(url: httpx2.URL) -> str | None:
    bypass = urllib.request.proxy_bypass(url.host)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # missing in typeshed
    return None if bypass else urllib.request.getproxies().get(url.scheme)


def http_activity(url: str, proxy: str | None) -> HttpActivity:
    """The activity record of the server at this URL; behind a proxy, the server is not checked."""
    parts = httpx2.URL(url)
    is_tls = parts.scheme == "https"
    interval = CHECK_INTERVAL_TLS if is_tls else CHECK_INTERVAL
    return HttpActivity(parts.host, parts.port or (443 if is_tls else 80), None if proxy else interval)


def _network(config: ServerConfig, url: str, proxy: str | None) -> httpx2.AsyncHTTPTransport:
    # Loading the CA certificates takes 50 ms: not done for plain HTTP, and once for all other servers.
    verify = _ssl_context(config) if url.startswith("https:") or proxy else False
    return httpx2.AsyncHTTPTransport(verify=verify, limits=LIMITS, proxy=proxy)


@cache
def _default_ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _ssl_context(config: ServerConfig) -> ssl.SSLContext | bool:
    if config.verify is True:
        return _default_ssl_context()
    if config.verify is False:
        return False
    try:
        return ssl.create_default_context(cafile=config.verify)
    except (OSError, ssl.SSLError) as error:
        raise ConnectFailed(
            config.alias, "configure", f"the CA bundle {config.verify!r} (verify) cannot be read"
        ) from error


class _TrackedBody(httpx2.AsyncByteStream):
    """A body that records when it is written; a server does not act on a request without its body."""

    def __init__(self, content: bytes, delivery: Delivery) -> None:
        self._content = content
        self._delivery = delivery

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        self._delivery.unsent = False
        yield self._content


class SecretTransport(httpx2.AsyncBaseTransport):
    """Adds the credentials and the secret parts of the URL, then sends."""

    def __init__(self, network: httpx2.AsyncBaseTransport, attempt: Attempt) -> None:
        assert attempt.values.url is not None
        self._network = network
        self._credentials = attempt.credentials
        self._redacted = attempt.values.redacted
        self._origin = _origin(httpx2.URL(attempt.values.url))
        self._real_urls: dict[httpx2.URL, httpx2.URL] = {}
        self.url = self.public_url(attempt.values.url)
        """The server's URL as everything above this transport may know it."""

    def public_url(self, url: str) -> str:
        """Register a URL of the server's origin; returns the URL without secrets that stands for it."""
        real = httpx2.URL(url).copy_with(userinfo=b"")
        public = real.copy_with(query=None, fragment=None, path=self._redacted(real.path))
        self._real_urls[public] = real
        return str(public)

    def is_same_origin(self, url: str | httpx2.URL) -> bool:
        """Whether a URL is on the server's own origin."""
        return _origin(httpx2.URL(url)) == self._origin

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        real_url = self._real_urls.get(request.url)
        if real_url is None:  # not a URL of this server: it gets none of its secrets
            return await self._network.handle_async_request(request)
        response = await self._send(request, real_url)
        if response.status_code in AUTH_STATUSES and await self._credentials.refused(
            response.status_code, dict(response.headers)
        ):
            await response.aclose()
            response = await self._send(request, real_url)
        if location := response.headers.get("location"):
            # Servers repeat the query there, and the secrets in it.
            target = str(real_url.join(location))
            if self.is_same_origin(target):
                response.headers["location"] = self.public_url(target)
        return response

    async def _send(self, request: httpx2.Request, url: httpx2.URL) -> httpx2.Response:
        added = await self._credentials.headers()
        if not added and url == request.url:
            return await self._network.handle_async_request(request)
        headers = request.headers.copy()
        for name, value in added.items():
            headers[name] = value
            if names_credential(name):
                self._redacted.learn(value)
        # A copy: the request that the HTTP library logs and shows keeps its public URL.
        complete = httpx2.Request(
            request.method, url, headers=headers, stream=request.stream, extensions=request.extensions
        )
        return await self._network.handle_async_request(complete)

    async def aclose(self) -> None:
        await self._network.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
