"""One connection: HTTP/1.1, parsed by httptools, within limits.

Every phase of a request has a deadline. `sweep` enforces them, once a second for all connections, so that a
request costs no timer.
"""

import asyncio
import json
import logging
import time
import urllib.parse
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, NamedTuple, NoReturn, cast

import httptools

from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.request import HttpRequest, RawHeaders

logger = logging.getLogger("toolbus")

_LINGER = 2.0
"""Seconds in which a refused client may go on sending, so that it gets to read the refusal."""
_MOST_UNREAD = 64 * 1024
"""Bytes of a body that are kept before somebody takes it."""
_MOST_WAITING = 16
"""Requests of one connection that wait for the one before them; no known client of MCP sends any."""
RESERVE = 64
"""Connections beyond the limits, for probes: a gateway that is busy is not one that has gone."""
_PROBE_SECONDS = 1.0
"""The time that such a connection gets to prove that it is one."""
_LATE = 3.0
"""Seconds without a tick after which the process was suspended; then also for those who wait to connect."""
_MOMENT = 0.1
_FRAMING = (b"content-length", b"transfer-encoding")


@dataclass(slots=True, eq=False)
class ConnectionLimits:
    """The state that all connections of a server share."""

    serve: Callable[[HttpRequest], Coroutine[Any, Any, None]]
    """Answers a request."""
    limits: HttpLimits
    refusals: Refusals
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    connections: "set[HttpConnection]" = field(default_factory=lambda: set[HttpConnection]())
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Those that answer requests."""
    addresses: Counter[str] = field(default_factory=Counter[str])
    """Connections by address, from the moment they are accepted."""
    probes: frozenset[str] = frozenset()
    """The pages that tell a load balancer whether to send requests here; they never wait."""
    date_line: bytes = b""
    """The header with the date."""
    ticked: float = field(default_factory=time.monotonic)
    """The last tick of the server's clock, which ticks every second."""
    woken: float = float("-inf")
    """The last time that the process was found to have been suspended."""
    on_change: Callable[[], None] | None = None
    """Called when a connection has ended."""
    is_closed: bool = False
    """Whether no connection may begin any more."""

    def tick(self, now: float) -> None:
        if now - self.ticked > _LATE:
            self.woken = now
        self.ticked = now

    def is_late(self, now: float) -> bool:
        """Whether data read now may have arrived long ago: the process was suspended until recently."""
        return now - self.ticked > _LATE or now - self.woken < _LATE


class _Refused(NamedTuple):
    """A refusal of a request: its status, kind and reason."""

    status: int
    kind: str
    reason: str


class _Stop(Exception):
    """Ends the parsing of a request that is refused."""


# Any page of a host, on any port, can give a browser too many cookies for it.
_TOO_LONG = _Refused(
    431, "head", "its headers are too long (serve.max_header); in a browser, delete the cookies of this host"
)
_TOO_MANY = _Refused(431, "head", "it has too many headers")
_CODES = {408: "too_slow", 413: "too_large", 431: "too_large", 503: "busy"}
"""The codes of refusals, by status."""
_TOO_LARGE = _Refused(413, "body", "its body is too long (serve.max_body)")


class HttpConnection(asyncio.Protocol):
    """A connection that is refused or closed if its client exceeds a limit."""

    _transport: asyncio.Transport

    def __init__(self, hub: ConnectionLimits, address: str = "") -> None:
        """The connection is counted from here on, opened or not; `address` is empty for a Unix socket."""
        self._hub = hub
        self._limits = hub.limits
        self.address = address
        hub.connections.add(self)
        hub.addresses[address] += 1
        self.is_made = False
        """Whether it was opened: accepted, and encrypted if necessary."""
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._parser = self._new_parser()
        self.scheme = "http"
        self._surplus: str | None = None
        """The reason why it may be used for a probe only."""
        self._probe: HttpRequest | None = None
        """A probe whose end has not come yet."""
        self._served: HttpRequest | None = None
        """The request that is being answered, or was last."""
        self._task: asyncio.Task[None] | None = None
        """Answers it."""
        self._waiting: deque[HttpRequest] = deque()
        """Requests that came before others were answered."""
        self._coming: HttpRequest | None = None
        """The last request whose head was read."""
        self._refusal: _Refused | None = None
        self._is_refused = False
        """Whether nothing more of the client is read as a request."""
        self._url = b""
        self._headers: RawHeaders = []
        self._expects_continue = False
        self._in_head = True
        self._is_head_known = False
        """Whether the parser reads a head again that was read before."""
        self._head_bytes = 0
        """Bytes that are no body: of the head, and then of trailers and between chunks."""
        self._trailers = 0
        self._body_bytes = 0
        self._fed = 0
        """The bytes that are being read."""
        self._has_advanced = False
        """Whether they ended a head, or have some of a body, or ended that."""
        self._deadline: float | None = None
        self._phase = "head"
        self._unread_since: float | None = None
        self._is_reading = True
        self._writable = asyncio.Event()

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_made = cast("asyncio.Transport", transport), True
        self.scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._expect("head", self._limits.head_seconds)
        self._surplus = self.surplus()
        if self._hub.is_closed:  # it was accepted just before
            self.abort()
        elif (reason := self.surplus(RESERVE)) is not None:
            self._refuse(_Refused(503, "connections", reason))
        elif self._surplus is not None:
            self._expect("head", _PROBE_SECONDS)

    def surplus(self, reserve: int = 0) -> str | None:
        """The reason why it exceeds the limits, with a `reserve` beyond them; None if it does not."""
        hub, limits = self._hub, self._limits
        if len(hub.connections) > limits.connections + reserve:
            return "too many connections"
        most = limits.connections_per_address + reserve
        if hub.addresses[self.address] > most and not self._is_proxy():
            return "too many connections of one address"
        return None

    def _is_proxy(self) -> bool:
        proxies = self._hub.trusted_proxies
        return bool(proxies and self.address) and any(ip_address(self.address) in one for one in proxies)

    def forget(self) -> None:
        """It has ended, or could not be opened."""
        self._hub.connections.discard(self)
        addresses = self._hub.addresses
        addresses[self.address] -= 1
        if not addresses[self.address]:
            del addresses[self.address]
        if self._hub.on_change is not None:
            self._hub.on_change()
        del self._parser  # holds this object, which would be kept until the garbage collector runs

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self._deadline = self._unread_since = None
        self._waiting.clear()
        self._writable.set()
        served = self._served
        if served is not None and not served.has_ended:
            served.abandon()
        if self._task is not None:
            self._task.cancel()
        self._served = self._coming = self._task = None  # the requests hold this object, too

    def abort(self) -> None:
        if self.is_made:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection after the sent data; the current request is cancelled."""
        if self.is_made:
            self._transport.close()

    # Flow

    def pause_writing(self) -> None:
        self._writable.clear()
        self._unread_since = self._now()

    def resume_writing(self) -> None:
        self._writable.set()
        self._unread_since = None

    @property
    def is_full(self) -> bool:
        """Whether the client leaves sent data unread."""
        return self._unread_since is not None

    async def wait_writable(self) -> None:
        """Wait until the client has read, or is gone."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send data; dropped if the client is gone."""
        self._transport.write(data)

    @property
    def date_line(self) -> bytes:
        return self._hub.date_line

    # Time

    def _expect(self, phase: str, seconds: float) -> None:
        self._phase = phase
        self._deadline = self._now() + seconds

    def sweep(self, now: float) -> None:
        """Close the connection if its client is too slow."""
        unread = self._unread_since
        if unread is not None and now - unread > self._limits.unread_seconds:
            self._hub.refusals.note("slow_reader", self.address, "it does not read its messages")
            self._transport.abort()
        elif self._deadline is None or now < self._deadline:
            return
        elif self._is_refused:
            self._transport.abort()
        elif self._surplus is not None:
            self._refuse(_Refused(503, "connections", self._surplus))
        elif self._phase == "idle" or (self._phase == "head" and not self._head_bytes):
            self._transport.close()
        else:
            self._refuse(_Refused(408, f"slow_{self._phase}", f"its {self._phase} took too long"))

    # The request

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # Data after a request that ends the connection is ignored, and does not cost it its response.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return None
        self._fed, self._has_advanced = len(data), False
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if self._refusal is None and isinstance(error, httptools.HttpParserCallbackError):
                logger.error("could not read a request", exc_info=error)  # a bug of ours
            return self._refuse(self._refusal or _Refused(400, "malformed", "it is not HTTP"))
        if not self._has_advanced:
            # Unfinished headers, trailers and chunk extensions are not reported by the parser.
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(_TOO_LONG)
        return None

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                return self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # No upgrade is offered, so the request is an ordinary one; but the parser took its body for
                # another protocol. Another one reads on, from a head that does not ask for an upgrade.
                self._parser, self._is_head_known = self._new_parser(), True
                framing = b"".join(b"%s: %s\r\n" % one for one in self._headers if one[0] in _FRAMING)
                self._parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % framing)
                data = data[upgrade.args[0] :]

    def on_message_begin(self) -> None:
        if self._is_head_known:
            return
        self._url = b""
        self._headers = []
        self._expects_continue = False
        self._in_head = True
        self._head_bytes = self._body_bytes = self._trailers = 0
        self._expect("head", self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        if not self._is_head_known:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head_known:
            return None
        if not self._in_head:
            return self._count_trailer(len(name) + len(value))
        name = name.lower()
        value = value.strip(b" \t")  # the parser leaves what follows a value
        self._headers.append((name, value))
        if name == b"expect":
            self._expects_continue = value.lower() == b"100-continue"
        elif name == b"content-length" and int(value) > self._limits.body_bytes:
            self._fail(_TOO_LARGE)
        return None

    def _count_trailer(self, size: int) -> None:
        """Nothing that we serve has trailers, so they are read over."""
        self._has_advanced = True
        self._trailers += 1
        self._head_bytes += size
        if self._trailers > self._limits.headers:
            self._fail(_TOO_MANY)
        if self._head_bytes > self._limits.head_bytes:
            self._fail(_TOO_LONG)

    def on_headers_complete(self) -> None:
        if self._is_head_known:
            self._is_head_known = False
            return
        headers, limits, parser = self._headers, self._limits, self._parser
        if len(headers) > limits.headers:
            self._fail(_TOO_MANY)
        if self._head_bytes + self._fed > limits.head_bytes:  # with what may already be of the body
            self._check_head()
        self._in_head, self._has_advanced = False, True
        self._head_bytes = 0
        self._expect("body", limits.body_seconds)
        version = parser.get_http_version()
        request = HttpRequest(self, parser.get_method().decode("ascii"), self._path(), headers, version)
        request.keeps_alive = version != "1.0" and bool(parser.should_keep_alive())
        request.expects_continue = self._expects_continue
        if b"?" in self._url:
            request.query = self._url.partition(b"?")[2]
        if self._surplus is not None:
            if request.facts.path not in self._hub.probes:
                self._fail(_Refused(503, "connections", self._surplus))
            request.keeps_alive = False
        self._coming = request
        if self._served is None or self._served.has_ended:
            self._start(request)
        elif len(self._waiting) < _MOST_WAITING:
            self.pause_reading()
            self._waiting.append(request)
        else:
            self._fail(_Refused(429, "pipelined", "it sends requests without waiting for responses"))

    def _check_head(self) -> None:
        size = sum((len(name) + len(value) for name, value in self._headers), len(self._url))
        if size > self._limits.head_bytes:
            self._fail(_TOO_LONG)

    def _path(self) -> str:
        try:
            path = httptools.parse_url(self._url).path.decode("ascii")
        except (httptools.HttpParserError, AttributeError, UnicodeDecodeError):
            self._fail(_Refused(400, "malformed", "its path cannot be read"))
        return urllib.parse.unquote(path) if "%" in path else path

    def _start(self, request: HttpRequest) -> None:
        self._served = request
        if request.facts.path in self._hub.probes and _is_simple(request):
            self._probe = request
            return
        tasks = self._hub.tasks
        is_late = self._hub.is_late(self._now())
        serving = self._serve_late(request) if is_late else self._hub.serve(request)
        self._task = task = self._loop.create_task(serving)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _serve_late(self, request: HttpRequest) -> None:
        """Serve a request that may have come long ago, unless its client turns out to have left meanwhile.

        That client, or a replica that passed the request on, gave it up while this process was suspended.
        """
        await asyncio.sleep(_MOMENT)
        await self._hub.serve(request)

    def on_body(self, body: bytes) -> None:
        self._has_advanced, self._head_bytes = True, 0
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._fail(_TOO_LARGE)
        coming = self._coming
        if coming is not None and not coming.has_ended:
            coming.add_body(body)
            if self._body_bytes > _MOST_UNREAD and not coming.is_read:
                self.pause_reading()

    def on_message_complete(self) -> None:
        self._has_advanced = True
        if self._parser.should_upgrade():
            return  # `_feed` reads on
        coming = self._coming
        assert coming is not None, "its head was read"
        if coming.has_ended:
            self._expect("idle", self._limits.idle_seconds)
        else:
            self._phase, self._deadline = "response", None
            coming.end_body()
            if coming is self._probe:
                self._answer_probe(coming)

    def _answer_probe(self, request: HttpRequest) -> None:
        """Answer a probe here and now: a task would run only after the tasks of all received calls."""
        self._probe, serving = None, self._hub.serve(request)
        try:
            serving.send(None)
        except StopIteration:
            return
        serving.close()  # a bug of ours: it wanted to wait; the connection is closed

    def response_ended(self, request: HttpRequest) -> None:
        """The response to a request was written: go on with the next one."""
        if self._transport.is_closing():
            return None
        if not request.keeps_alive:
            return self._end(lingering=not request.is_whole)
        self.resume_reading()
        if self._waiting:
            self._start(self._waiting.popleft())
        elif self._phase == "response":  # else its body is still coming
            self._expect("idle", self._limits.idle_seconds)
        return None

    # Refusals

    def _fail(self, refusal: _Refused) -> NoReturn:
        self._refusal = refusal
        raise _Stop

    def _refuse(self, refusal: _Refused) -> None:
        self._hub.refusals.note(refusal.kind, self.address, refusal.reason)
        transport = self._transport
        if transport.is_closing():
            self._is_refused = True
            return
        served = self._served
        if served is None or served.has_ended or not served.has_started:
            phrase = HTTPStatus(refusal.status).phrase
            code = _CODES.get(refusal.status, "malformed")
            problem = {"title": phrase, "detail": refusal.reason, "status": refusal.status, "code": code}
            body = json.dumps({**problem, "sent": False})
            head = f"HTTP/1.1 {refusal.status} {phrase}\r\nconnection: close\r\n"
            kind = "content-type: application/problem+json\r\n"
            transport.write(f"{head}{kind}content-length: {len(body)}\r\n\r\n{body}".encode())
        if served is not None and not served.has_ended:
            served.abandon()
        self._end(lingering=True)

    def _end(self, *, lingering: bool) -> None:
        """Read no more requests, and close; a client that is still sending gets to read the response."""
        self._is_refused = True
        self._waiting.clear()
        if not lingering or not self._transport.can_write_eof():
            self._transport.close()
            return
        # Closed at once, with bytes of the client unread, the response itself would be lost.
        self._transport.write_eof()
        self.resume_reading()
        self._deadline = self._now() + _LINGER


def _is_simple(request: HttpRequest) -> bool:
    """Whether it ends soon, and nobody has to be identified for it."""
    is_coming = request.facts.method == "GET" and not request.is_whole
    return is_coming and "authorization" not in request.headers
