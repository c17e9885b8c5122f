"""The HTTP client of both HTTP transports: one server, its credentials, its redirects.

Secrets are added here, in the last step before the socket. Nothing below writes a log, and a log line has
the public URL only.
"""

import http.cookiejar
import logging
import ssl
import time
import urllib.request
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from typing import Any, cast

from toolbus.config.secrets.redact import Redactor, names_credential
from toolbus.config.settings.limits import ServerLimits
from toolbus.connect.auth.credentials import HttpRefusal
from toolbus.connect.auth.failure import shown
from toolbus.connect.http.pool import Addresses, Pool, Proxy, environment_proxy, request_head, with_body
from toolbus.connect.http.response import ACCEPT_ENCODING, HttpFailure, Response
from toolbus.connect.http.tls import guarded_tls_context, tls_context
from toolbus.connect.http.url import Url, is_loopback_host, parse_url
from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.opening.diagnostics import HttpActivity
from toolbus.connect.transports.wire.messages import UnreadableMessage, parsed
from toolbus.connect.transports.wire.pending import DELIVERY, Delivery, ToolHeaders, WireError
from toolbus.core.operation.tracing import ConnectionFacts
from toolbus.core.values.errors import INTERNAL_ERROR, ConnectFailed

logger = logging.getLogger("toolbus")

MAX_REDIRECTS = 5
CHECK_INTERVAL = 5.0
"""Seconds of inactivity after which the server is checked (see `observer.py`)."""
CHECK_INTERVAL_TLS = 30.0
"""Longer, because a TLS server may log a connection that ends before its handshake."""
AUTH_STATUSES = (401, 403)
MAX_REFUSALS = 4
"""The maximum number of retries of one request with other credentials."""
MAX_HEADS = 32
"""The heads of calls that a client keeps."""
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEP_METHOD = (307, 308)
_REASONS = ("error_description", "detail", "message", "error", "title")
"""The members of a JSON body that name the reason of an error, the most telling first."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A URL of the server, with its secrets, and as everything above the client may know it."""

    url: Url
    public: str


class HttpClient:
    """The HTTP client of one server."""

    def __init__(self, pool: Pool, url: Url, proxy: Proxy | None, attempt: Attempt) -> None:
        self._pool = pool
        self._credentials = attempt.credentials
        self.redacted = attempt.values.redacted
        # A tunnel carries the request as if there were no proxy.
        self._proxy = None if url.is_tls else proxy
        self._cookies = Cookies()
        self._heads: dict[Hashable, bytes] = {}
        """The heads of the calls of tools, by everything that they are made of."""
        self._added: Mapping[str, str] = {}
        """The credentials of the last request."""
        self.activity = http_activity(url, proxy)
        self.target = self._target(url)

    @asynccontextmanager
    async def request(
        self, method: str, target: ServerUrl, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncGenerator[Response]:
        """Send a request, and end the use of its response after the block."""
        response = await self.send(method, target, headers, content)
        try:
            yield response
        finally:
            self.finish(response)

    def finish(self, response: Response) -> None:
        """End the use of a response; closes the connection if it was not read fully."""
        response.close()
        self._finish()

    def _finish(self) -> None:
        self.activity.open_requests -= 1
        self.activity.last_used = time.monotonic()

    def describe(self, connection: ConnectionFacts) -> None:
        """Note in the facts of a connection where the server is."""
        socket = self.activity.socket_path
        connection.transport = "tcp" if socket is None else "unix"
        connection.address = self.redacted(self.activity.host if socket is None else socket)
        connection.port = self.activity.port if socket is None else None

    def endpoint(self, reference: str) -> ServerUrl | None:
        """The target of a reference that the server sent; None if it is not on the server's origin."""
        try:
            url = self.target.url.join(reference)
        except ValueError:
            return None
        return self._target(url) if url.origin == self.target.url.origin else None

    async def send(
        self, method: str, target: ServerUrl, headers: Mapping[str, str], content: bytes | None
    ) -> Response:
        """Send a request and follow redirects that stay on the server's origin and keep the method.

        `finish` has to be called with the response. Raises `WireError`, whose `sent` says whether the request
        may have reached the server.
        """
        self.activity.open_requests += 1
        delivery = DELIVERY.get() if content is not None else None
        # A call of several round trips has arrived once one of its requests has.
        if delivery is not None and delivery.unsent is None:
            delivery.unsent = True
        try:
            response = await self._send_authorized(method, target, headers, content, delivery)
            followed = 0
            while 300 <= response.status < 400 and followed < MAX_REDIRECTS:
                onward = self._redirect(method, target, response)
                if onward is None:
                    break
                response.close()
                target, followed = onward, followed + 1
                response = await self._send_authorized(method, target, headers, content, delivery)
            return response
        except BaseException as failure:
            self._finish()
            if not isinstance(failure, HttpFailure):
                raise
            if not failure.sent:
                raise WireError(f"cannot connect: {failure}", sent=False) from failure
            # The session may go on over its other connections.
            raise WireError(str(failure), sent=True, lost=False) from failure

    async def _send_authorized(
        self,
        method: str,
        target: ServerUrl,
        headers: Mapping[str, str],
        content: bytes | None,
        delivery: Delivery | None,
    ) -> Response:
        url, earlier = target.url.text, 0
        while True:
            added = self._credentials.headers(method, url)
            if added is None:
                await self._credentials.renew()
                added = self._credentials.headers(method, url) or {}
            if added is not self._added:
                self._learn(added)
            sent = {"accept-encoding": ACCEPT_ENCODING, **headers, **added}
            data = self._encoded(method, target, sent, content, isinstance(headers, ToolHeaders))
            connection = self._pool.idle_connection() or await self._pool.connection()
            if delivery is not None:
                delivery.unsent = False
            try:
                response = await connection.request(data)
            except BaseException:
                connection.abort()
                raise
            if response.cookies:
                self._cookies.keep(target.url, response.cookies)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("%s %s: HTTP %d", method, target.public, response.status)
            if response.status not in AUTH_STATUSES or earlier == MAX_REFUSALS:
                return response
            refusal = HttpRefusal(
                status=response.status, url=url, headers=response.headers, sent=added, earlier=earlier
            )
            if not await self._credentials.refused(refusal):
                return response
            response.close()
            earlier += 1

    def _learn(self, added: Mapping[str, str]) -> None:
        """Hide new credentials in everything that quotes them."""
        self._added = added
        for name, value in added.items():
            if names_credential(name):
                self.redacted.learn(value)

    def _encoded(
        self, method: str, target: ServerUrl, headers: dict[str, str], content: bytes | None, is_kept: bool
    ) -> bytes:
        """The request as it is sent; with `is_kept`, its head is kept for the next such request."""
        if (cookie := self._cookies.header(target.url)) is not None:
            headers["cookie"] = f"{headers['cookie']}; {cookie}" if "cookie" in headers else cookie
        key = (method, target.url.text, *headers.items()) if is_kept else None
        head = None if key is None else self._heads.get(key)
        if head is None:
            try:
                head = request_head(method, target.url, headers, self._proxy)
            except ValueError as error:
                raise HttpFailure(str(error), sent=False) from error
            if key is not None:
                if len(self._heads) >= MAX_HEADS:
                    self._heads.clear()  # a trace, or a proof of a key, makes each of them another
                self._heads[key] = head
        return with_body(head, content)

    def _redirect(self, method: str, target: ServerUrl, response: Response) -> ServerUrl | None:
        """The target of a redirect that is followed."""
        location = response.headers.get("location")
        keeps_method = response.status in _KEEP_METHOD or method == "GET"
        if location is None or response.status not in _REDIRECTS or not keeps_method:
            return None
        try:
            url = target.url.join(location)
        except ValueError:
            return None
        return self._target(url) if url.origin == target.url.origin else None

    def _target(self, url: Url) -> ServerUrl:
        # Without the query: it may contain secrets that nobody marked as such.
        return ServerUrl(url, self.redacted(url.without_query))


@asynccontextmanager
async def http_client(attempt: Attempt) -> AsyncGenerator[HttpClient]:
    """The client for the `url` of a server."""
    assert attempt.values.url is not None
    url = parse_url(attempt.values.url)
    warn_insecure(attempt, url)
    # Loading certificates takes time: not done for plain HTTP.
    tls = tls_context(attempt.config) if url.is_tls else None
    async with origin_client(attempt, url, tls) as client:
        attempt.diagnostics.activity = client.activity
        yield client


@asynccontextmanager
async def origin_client(
    attempt: Attempt, url: Url, tls: ssl.SSLContext | None, addresses: Addresses | None = None
) -> AsyncGenerator[HttpClient]:
    """A client for the origin of a URL, with the credentials of the attempt.

    With `addresses`, direct connections go to those, and the host is not looked up.
    """
    config = attempt.config
    try:
        proxy = environment_proxy(url, lambda: guarded_tls_context(config))
    except ValueError as error:
        raise ConnectFailed(
            config.alias,
            "configure",
            f"the proxy that the environment names cannot be used: {error}",
            hint="use an HTTP proxy, or add the host to no_proxy",
        ) from error
    pool = Pool(
        url,
        tls=tls,
        proxy=proxy,
        connect_timeout=config.timeouts.connect,
        limit=config.limits.message,
        addresses=addresses,
    )
    try:
        yield HttpClient(pool, url, proxy, attempt)
    finally:
        await pool.close()


def warn_insecure(attempt: Attempt, url: Url) -> None:
    """Warn if others on the network can read the requests."""
    if url.is_tls and attempt.config.verify is False:
        attempt.warn("its certificate is not verified (verify: false): anyone on the way can read everything")
    has_credentials = attempt.config.auth is not None or any(map(names_credential, attempt.values.headers))
    if url.scheme == "http" and has_credentials and not is_loopback_host(url.host):
        attempt.warn("credentials are sent without encryption: use https")


def http_activity(url: Url, proxy: Proxy | None) -> HttpActivity:
    interval = CHECK_INTERVAL_TLS if url.is_tls else CHECK_INTERVAL
    return HttpActivity(url.host, url.port, None if proxy else interval, url.socket_path)


def response_error(target: ServerUrl, response: Response, reason: str = "") -> WireError:
    """The error for a response that is a redirect or has an error status, with the server's reason."""
    message = status_text(response.status)
    if response.status in _REDIRECTS and (location := response.headers.get("location")):
        message = (
            f"{message.partition(' ')[0]} {response.status} redirects{_destination(target.url, location)}"
        )
    elif reason:
        message = f"{message}: {reason}"
    return WireError(message, sent=True, lost=False, status=response.status, code=INTERNAL_ERROR)


def message_in(response: Response, redacted: Redactor, limits: ServerLimits) -> dict[str, Any]:
    """The JSON object in the body of a response; empty if there is none."""
    try:
        message = parsed(redacted.received(response.body), limits)
    except (ValueError, UnreadableMessage):
        return {}
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


def refusal_reason(response: Response, body: Mapping[str, Any], redacted: Redactor) -> str:
    """The reason for an error status: from the JSON body, else from the challenge; empty without one."""
    found = next((body[key] for key in _REASONS if isinstance(body.get(key), str) and body[key]), None)
    if found is None and "www-authenticate" in response.headers:
        # Here, because few servers need it.
        from toolbus.connect.auth.discovery import challenge_of

        challenge = challenge_of(response.headers)
        found = challenge.error_description or challenge.error
    phrase = status_text(response.status).partition(" ")[2].partition(" ")[2]
    return "" if found is None or found.lower() == phrase.lower() else shown(redacted(found))


def status_cause(status: int, text: str) -> str:
    """The problem with a request that got this status, if the text is the server's own."""
    return text if text.startswith("HTTP ") else f"{status_text(status)}: {text}"


def _destination(source: Url, location: str) -> str:
    try:
        url = source.join(location)
    except ValueError:
        return " to an invalid URL"
    origin = "" if url.origin == source.origin else ", another origin"
    return f" to {url.without_query:.500}{origin}, which is not followed"


def is_temporary(status: int) -> bool:
    """Whether a retry may succeed; a 501, or any other 4xx, means that the request is not supported."""
    return status in (408, 425, 429) or (status >= 500 and status != 501)


def invalid_response(response: Response) -> str:
    """The problem with a response that contains no message."""
    kind = response.media_type
    if kind in ("text/html", "application/xhtml+xml"):
        return f"the server's response is a web page ({kind})"
    return f"the server's response ({kind or status_text(response.status)}) contains no message"


def status_text(status: int) -> str:
    """An HTTP status with its standard phrase."""
    return f"HTTP {status} {HTTPStatus(status).phrase if status in set(HTTPStatus) else ''}".rstrip()


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
        if self._jar is None:
            return None
        request = urllib.request.Request(_for_jar(url))
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie")


def _for_jar(url: Url) -> str:
    return url.text if url.socket_path is None else f"http://localhost{url.target}"


class _Headers:
    """The response headers in the form that the cookie jar reads."""

    def __init__(self, cookies: Sequence[str]) -> None:
        self._message = Message()
        for cookie in cookies:
            self._message["Set-Cookie"] = cookie

    def info(self) -> Message:
        return self._message
