"""One connection: HTTP/1.1 by uvicorn on httptools, within limits.

Every phase of a request has a deadline. `sweep` enforces them, once a second for all connections, so that a
request costs no timer.
"""

import asyncio
import http
import logging
import urllib.parse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, NoReturn, cast

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from toolbus.gateway.http.limits import Limits, Refusals

logger = logging.getLogger("toolbus")

CONNECTION = "toolbus.connection"
"""The key of the connection in an ASGI scope."""
_LINGER = 2.0
"""Seconds in which a refused client may go on sending, so that it gets to read the refusal."""
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_UNUSED = logging.Logger("toolbus.gateway.access", logging.CRITICAL)


@dataclass(slots=True)
class Hub:
    """What all connections of a server share."""

    config: uvicorn.Config
    app: Any
    """The ASGI application."""
    limits: Limits
    refusals: Refusals
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks."""
    state: ServerState = field(default_factory=ServerState)
    addresses: Counter[str] = field(default_factory=Counter[str])
    """Open connections by address."""


class _Refused(Exception):
    """Ends the parsing of a request that exceeds a limit."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        self.status = status
        self.kind = kind
        self.reason = reason
        super().__init__(reason)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is refused or closed if its client exceeds a limit."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub.config, hub.state, {}, asyncio.get_running_loop())
        self._hub = hub
        self._served: RequestResponseCycle | None = None
        """The last request that was begun, and its response."""
        self._limits = hub.limits
        self._now = self.loop.time
        self._address = ""
        self._refusal: _Refused | None = None
        self._is_refused = False
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._fed = 0
        """The bytes that are being read."""
        self._deadline: float | None = None
        self._phase = "head"
        self._unread_since: float | None = None
        self.on_lost: Callable[[], None] | None = None
        """Called when the connection is lost; the request that is served sets it."""

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        hub, limits = self._hub, self._limits
        self._address = self.client[0] if self.client else ""
        hub.addresses[self._address] += 1
        self._expect("head", limits.head_seconds)
        if len(self.connections) > limits.connections:
            self._refuse(_Refused(503, "connections", "too many connections"))
        elif hub.addresses[self._address] > limits.connections_per_address and not self._is_proxy():
            self._refuse(_Refused(503, "connections", "too many connections of one address"))

    def _is_proxy(self) -> bool:
        return any(ip_address(self._address) in ip_network(one) for one in self._hub.trusted_proxies)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._deadline = self._unread_since = None
        addresses = self._hub.addresses
        addresses[self._address] -= 1
        if not addresses[self._address]:
            del addresses[self._address]
        if self.on_lost is not None:
            self.on_lost()

    def abort(self) -> None:
        """Close the connection without sending what waits to be sent."""
        self.transport.abort()

    def close(self) -> None:
        """Close the connection after what was sent; the request that is served is cancelled."""
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self._now()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    # Time

    def _expect(self, phase: str, seconds: float) -> None:
        self._phase = phase
        self._deadline = self._now() + seconds

    def sweep(self, now: float) -> None:
        """Close the connection if its client is too slow."""
        unread = self._unread_since
        if unread is not None and now - unread > self._limits.unread_seconds:
            self._hub.refusals.note("slow_reader", self._address, "it does not read what is sent to it")
            self.transport.abort()
        elif self._deadline is None or now < self._deadline:
            return
        elif self._is_refused:
            self.transport.abort()
        elif self._phase == "idle" or (self._phase == "head" and not self._head_bytes):
            self.transport.close()
        else:
            self._refuse(_Refused(408, f"slow_{self._phase}", f"its {self._phase} took too long"))

    # The request

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        assert self.parser is not None, "a lost connection gets no data"
        self._fed = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._served is not None:
                self._served.keep_alive = False
        except httptools.HttpParserError as error:
            if self._refusal is None and isinstance(error, httptools.HttpParserCallbackError):
                logger.error("could not read a request", exc_info=error)  # a bug of ours
            self._refuse(self._refusal or _Refused(400, "malformed", "it is not HTTP"))
        else:
            if self._in_head:
                # An unfinished header is not reported by the parser, so the bytes are counted.
                self._head_bytes += len(data)
                if self._head_bytes > self._limits.head_bytes:
                    self._refuse(_Refused(431, "head", "its headers are too long (serve.max_header)"))

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = headers = []
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "client": self.client,
            "server": self.server,
            "scheme": self.scheme,
            "root_path": "",
            "headers": headers,
            CONNECTION: self,
        }
        self.scope = cast("Any", scope)
        self._in_head = True
        self._head_bytes = self._body_bytes = 0
        self._expect("head", self._limits.head_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        value = value.strip(b" \t")  # the parser leaves what follows a value
        self.headers.append((name, value))
        if name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        elif name == b"content-length" and int(value) > self._limits.body_bytes:
            self._fail(413, "body", "its body is too long (serve.max_body)")

    def on_headers_complete(self) -> None:
        headers, limits = self.headers, self._limits
        if len(headers) > limits.headers:
            self._fail(431, "head", "it has too many headers")
        if self._head_bytes + self._fed > limits.head_bytes:  # with what may already be of the body
            self._check_head()
        self._in_head = False
        self._expect("body", limits.body_seconds)
        parser, scope = self.parser, self.scope
        assert parser is not None, "it calls this method"
        version = parser.get_http_version()
        scope["http_version"] = version
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"], scope["query_string"] = self._path()
        existing = self._served
        self._served = self.cycle = cycle = _Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=_UNUSED,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and bool(parser.should_keep_alive()),
            on_response=self.on_response_complete,
        )
        if existing is None or existing.response_complete:
            self._start(cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self._hub.app))

    def _check_head(self) -> None:
        if (
            sum((len(name) + len(value) for name, value in self.headers), len(self.url))
            > self._limits.head_bytes
        ):
            self._fail(431, "head", "its headers are too long (serve.max_header)")

    def _path(self) -> tuple[str, bytes]:
        try:
            url = httptools.parse_url(self.url)
            path = url.path.decode("ascii")
        except (httptools.HttpParserError, AttributeError, UnicodeDecodeError):
            self._fail(400, "malformed", "its path cannot be read")
        return urllib.parse.unquote(path) if "%" in path else path, url.query or b""

    def _start(self, cycle: RequestResponseCycle) -> None:
        task = self.loop.create_task(cycle.run_asgi(self._hub.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._fail(413, "body", "its body is too long (serve.max_body)")
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if cycle.response_complete:
            self._expect("idle", self._limits.idle_seconds)
            return
        self._phase, self._deadline = "response", None
        cycle.more_body = False
        cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.pop()[0])
        elif self._phase == "response":  # else its body is still coming
            self._expect("idle", self._limits.idle_seconds)

    # Refusals

    def _fail(self, status: int, kind: str, reason: str) -> NoReturn:
        self._refusal = _Refused(status, kind, reason)
        raise self._refusal

    def _refuse(self, refusal: _Refused) -> None:
        """Send the refusal and close the connection; the client may go on sending for a moment."""
        self._hub.refusals.note(refusal.kind, self._address, refusal.reason)
        self._is_refused = True
        transport = self.transport
        if transport.is_closing():
            return
        served = self._served
        if served is None or served.response_complete or not served.response_started:
            phrase = http.HTTPStatus(refusal.status).phrase
            head = f"HTTP/1.1 {refusal.status} {phrase}\r\nconnection: close\r\ncontent-type: text/plain\r\n"
            transport.write(f"{head}content-length: {len(phrase)}\r\n\r\n{phrase}".encode())
        if served is not None and not served.response_complete:
            served.disconnected = True
            served.message_event.set()
        if not transport.can_write_eof():
            transport.close()
            return
        # Closed at once, with bytes of the client unread, the refusal itself would be lost.
        transport.write_eof()
        self.flow.resume_reading()
        self._deadline = self._now() + _LINGER


class _Cycle(RequestResponseCycle):
    """A request and its response, which is written in one piece if it is known as a whole."""

    keep_alive: bool
    _head = b""

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            assert not self.response_started, "a response is started once"
            self.response_started = True
            self._head = self._encoded_head(message["status"], message["headers"])
            return
        assert self.response_started, "a response has a start"
        assert not self.response_complete, "a response ends once"
        body: bytes = message.get("body", b"")
        more_body: bool = message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self.chunked_encoding:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            if not more_body:
                body += b"0\r\n\r\n"
        if self._head:
            body, self._head = self._head + body, b""
        self.transport.write(body)
        if not more_body:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _encoded_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        lines = [STATUS_LINE[status]]
        self.waiting_for_100_continue = False
        self.chunked_encoding = status not in (204, 304) and self.scope["http_version"] != "1.0"
        for name, value in (*self.default_headers, *headers):
            if b"\n" in value or b"\r" in value:
                raise ValueError(f"the header {name.decode()!r} has more than one line")
            if name == b"content-length":
                self.chunked_encoding = False
            elif name == b"connection":
                self.keep_alive = self.keep_alive and value != b"close"
                continue
            lines.append(b"%s: %s\r\n" % (name, value))
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding:
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)
