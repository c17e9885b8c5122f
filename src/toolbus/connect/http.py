"""The HTTP client that both HTTP transports use, and the streamable HTTP transport.

Everything passes `Door`, the last step before the network. Secrets enter there and nowhere above,
so no logger of the SDK or the HTTP library can print them. And a failed connection comes out of it
as an answer: the SDK would let one failed request end the whole session.
"""

import base64
import ssl
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes, urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED
from pydantic_core import to_json

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.witness import EXCHANGE, Witness
from toolbus.errors import ConnectFailed

# Connections are kept for less time than common servers keep theirs (5 s), so that a request is
# not sent on one that is just being closed.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=4.0)


@asynccontextmanager
async def streamable_http(
    config: ServerConfig, values: Resolved, witness: Witness
) -> AsyncGenerator[JSONRPCDispatcher]:
    """A conversation over streamable HTTP; on the way out the server's session is ended."""
    async with AsyncExitStack() as stack:
        client, door = await stack.enter_async_context(http_client(config, values))
        witness.phase = "handshake"
        streams = await stack.enter_async_context(
            # No limit on an event: a large result is the user's choice. Our own bound is the timeout.
            streamable_http_client(door.url, http_client=client, max_sse_event_size=None)
        )
        yield JSONRPCDispatcher(*streams)


@asynccontextmanager
async def http_client(
    config: ServerConfig, values: Resolved
) -> AsyncGenerator[tuple[httpx2.AsyncClient, "Door"]]:
    """An HTTP client for one server, and the door it goes through, which knows the URL to use."""
    assert values.url is not None
    door = Door(_network(config, values.url), values)
    # No read limit here: an event stream may be silent for long. Each request has its own bound.
    timeout = httpx2.Timeout(config.timeouts.connect, read=None)
    async with httpx2.AsyncClient(transport=door, timeout=timeout) as client:
        yield client, door


def _network(config: ServerConfig, url: str) -> httpx2.AsyncHTTPTransport:
    parts = urlsplit(url)
    host = parts.hostname or ""
    bypass = urllib.request.proxy_bypass(host)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # missing in typeshed
    proxy = None if bypass else urllib.request.getproxies().get(parts.scheme)
    return httpx2.AsyncHTTPTransport(verify=_trust(config), limits=LIMITS, proxy=proxy)


def _trust(config: ServerConfig) -> ssl.SSLContext | bool:
    if isinstance(config.verify, bool):
        return config.verify
    try:
        return ssl.create_default_context(cafile=config.verify)
    except (OSError, ssl.SSLError) as error:
        raise ConnectFailed(
            config.alias, "configure", f"the CA bundle {config.verify!r} (verify) cannot be read"
        ) from error


class Door(httpx2.AsyncBaseTransport):
    """Adds what is secret, sends, and turns what fails into an answer."""

    def __init__(self, network: httpx2.AsyncBaseTransport, values: Resolved) -> None:
        assert values.url is not None
        self._network = network
        self._redacted = values.redacted
        self._headers = dict(values.headers)
        self._origin = _origin(httpx2.URL(values.url))
        self._real: dict[httpx2.URL, _Hidden] = {}
        self.url = self.shown(values.url)
        """The server's URL, as everything above the door may know it."""

    def shown(self, url: str) -> str:
        """A URL that stands for the real one above the door and holds no secret."""
        real = httpx2.URL(url)
        shown = real.copy_with(userinfo=b"", query=None, fragment=None, path=self._redacted(real.path))
        headers = dict(self._headers)
        if real.userinfo and not any(name.lower() == "authorization" for name in headers):
            headers["authorization"] = f"Basic {base64.b64encode(unquote_to_bytes(real.userinfo)).decode()}"
        self._real[shown] = _Hidden(real.copy_with(userinfo=b""), headers)
        return str(shown)

    def same_origin(self, url: str) -> bool:
        """Whether a URL is on the server's own origin."""
        return _origin(httpx2.URL(url)) == self._origin

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = EXCHANGE.get()
        complete = self._complete(request)
        try:
            response = await self._network.handle_async_request(complete)
        except httpx2.TransportError as error:
            fault = _described(error)
            if exchange is not None:
                exchange.fault = fault
            return _refusal(fault)
        if exchange is not None and response.status_code >= 400:
            exchange.status = response.status_code
        if location := response.headers.get("location"):
            # Servers repeat the query there, and with it the secrets in it.
            target = str(complete.url.join(location))
            if self.same_origin(target):
                response.headers["location"] = self.shown(target)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Stream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._network.aclose()

    def _complete(self, request: httpx2.Request) -> httpx2.Request:
        hidden = self._real.get(request.url)
        if hidden is None:
            if self._origin != _origin(request.url):
                return request  # another origin gets none of our secrets
            hidden = _Hidden(request.url, self._headers)
        if hidden.url == request.url and not hidden.headers:
            return request
        headers = request.headers.copy()
        headers.update(hidden.headers)
        # A copy: the request the HTTP library knows, logs and shows keeps its public URL.
        return httpx2.Request(
            request.method, hidden.url, headers=headers, stream=request.stream, extensions=request.extensions
        )


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What stands behind a shown URL; made once, because taking URLs apart is slow."""

    url: httpx2.URL
    headers: dict[str, str]


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _Stream(httpx2.AsyncByteStream):
    """A body whose broken connection is the kind of error the SDK expects of a body."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                yield chunk
        except httpx2.TransportError as error:
            exchange = EXCHANGE.get()
            if exchange is not None:
                exchange.fault = _described(error)
            raise httpx2.StreamError(_described(error)) from error

    async def aclose(self) -> None:
        await self._body.aclose()


def _refusal(fault: str) -> httpx2.Response:
    error = {"code": CONNECTION_CLOSED, "message": fault}
    body = to_json({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=body)


def _described(error: httpx2.TransportError) -> str:
    """The fault in words; the library's own text is empty for some."""
    match error:
        case httpx2.ConnectTimeout():
            return "no connection in time"
        case httpx2.ConnectError():
            return f"cannot connect: {str(error) or 'refused'}"
        case httpx2.RemoteProtocolError():
            return f"the server broke off: {error}"
        case _:
            return f"the connection failed: {str(error) or type(error).__name__}"
