"""One HTTP request to the front, and the ways to respond to it."""

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias, cast

from pydantic_core import PydanticSerializationError, to_json

from toolbus.connect.transports.wire.messages import MAX_ID, is_usable_id
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.access.admission import Admission, Refusal, RequestFacts
from toolbus.gateway.protocol.principal import LOCAL, Principal
from toolbus.gateway.protocol.words import PROTOCOL_VERSION, is_object, object_in

logger = logging.getLogger("toolbus")

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

CONSOLE = "/console"
"""The path of the console."""
JSON_TYPE = (b"content-type", b"application/json")
_SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_DISMISSED = ((b"www-authenticate", b"Bearer"), (b"content-length", b"0"))
_STATUS_LINES = {int(one): f"HTTP/1.1 {int(one)} {one.phrase}\r\n".encode() for one in HTTPStatus}
_WITHOUT_BODY = (204, 304)

LARGE = 64 * 1024
"""Bytes of a body from which on it is read only if there is room for it."""


class NoRoom(Exception):
    """There is no room for the body of a request."""


class ClientGone(Exception):
    """The client left, or was refused, before its request was answered."""


class RequestConnection(Protocol):
    """The connection that a request came over; see `HttpConnection`."""

    address: str
    """The IP address of the client; empty if it has none."""
    scheme: str

    @property
    def date_line(self) -> bytes: ...
    @property
    def is_full(self) -> bool: ...
    async def wait_writable(self) -> None: ...
    def write(self, data: bytes) -> None: ...
    def resume_reading(self) -> None: ...
    def response_ended(self, request: "HttpRequest") -> None: ...
    def abort(self) -> None: ...


async def answer(http: "HttpRequest", work: Awaitable[None]) -> None:
    """Let the work answer a request; nothing that it raises goes to the client."""
    try:
        await work
    except ClientGone:
        pass
    except asyncio.CancelledError:
        if not http.is_abandoned:  # else its client has left
            raise
    except Exception:  # the edge of a task
        logger.exception("could not serve a request")
    finally:
        if not http.has_ended and not http.is_abandoned:
            http.connection.abort()


class HttpRequest:
    """A request; each is answered by `respond`, or by `start_stream`, `write` and `end_stream`."""

    def __init__(
        self, connection: RequestConnection, method: str, path: str, raw: RawHeaders, version: str
    ) -> None:
        """`raw` are its headers, with lowercase names; `version` is the version of HTTP."""
        self.connection = connection
        self._version = version
        self.keeps_alive = True
        """Whether another request may follow on the connection."""
        self.repeated: list[tuple[str, str]] = []
        """The headers that are there more than once, twice each; their values are joined."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
        if len(headers) != len(raw):
            headers = self._joined(raw)
        self.headers = headers
        self.facts = RequestFacts(
            method=method, path=path, headers=headers, address=connection.address, scheme=connection.scheme
        )
        self.admitted_by = self.facts
        """The facts that decide who is admitted: for the REST API, with the path of the view."""
        self.is_rest = False
        """Whether it is for the REST API, whose clients expect problems and not JSON-RPC."""
        self.query = b""
        """The part of its URL after the `?`."""
        self.principal: Principal = LOCAL
        """The sender; set once it is admitted."""
        self.access: Admission | None = None
        """The admission that accepted it; set together with `principal`."""
        self.is_endless = False
        """Whether its response is a stream that ends with the client or with us."""
        self.cors: Headers = ()
        self.relayed = False
        """Whether another replica forwarded it."""
        self.patience: float | None = None
        """The time that it may still wait for the store, if another replica began to wait."""
        self.avoid: tuple[str, ...] = ()
        """The replicas that do not have what it is about, although they should."""
        self.expects_continue = False
        """Whether the client waits for our word before it sends the body."""
        self._chunks: list[bytes] = []
        self.size = 0
        """The bytes of its body that have come."""
        self.reserved = 0
        """The bytes that are reserved for its body, if that is large."""
        self._whole_from = LARGE
        """The size from which on somebody decides whether there is room for the rest."""
        self._is_kept = True
        self.is_whole = False
        """Whether all of its body has come."""
        self._waiter: asyncio.Future[None] | None = None
        self.has_started = False
        """Whether the response has begun."""
        self.has_ended = False
        """Whether all of the response was written."""
        self.is_abandoned = False
        """Whether nobody waits for the response any more."""
        self._is_chunked = False

    def _joined(self, raw: RawHeaders) -> dict[str, str]:
        headers: dict[str, str] = {}
        for raw_name, raw_value in raw:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            if name in headers:
                self.repeated += [(name, ""), (name, "")]
                value = f"{headers[name]}, {value}"
            headers[name] = value
        return headers

    # For the connection

    @property
    def is_read(self) -> bool:
        return self._waiter is not None

    def add_body(self, data: bytes) -> None:
        if self._is_kept:
            self._chunks.append(data)
            self.size += len(data)
            if self.size > self._whole_from:
                self._wake()

    def end_body(self) -> None:
        self.is_whole = True
        self._wake()

    def abandon(self) -> None:
        """Nobody waits for the response any more."""
        self.is_abandoned = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # For those who answer it

    @property
    def is_still_admitted(self) -> bool:
        """Whether its sender would still be admitted: a key may be revoked while a stream is open."""
        access = self.access
        return access is None or access.is_current(self.principal, answers=not self.is_endless)

    def dismiss(self) -> None:
        """Refuse it if nothing was sent yet, and close its connection: its client gets nothing more."""
        self.abandon()
        if self.has_started:
            return self.connection.abort()
        self.has_started, self.keeps_alive = True, False
        self.connection.write(self._head(401, _DISMISSED))
        return self.connection.response_ended(self)

    async def body(self, has_room: Callable[["HttpRequest"], bool] | None = None) -> bytes:
        """The whole body, once; `ClientGone` if the client leaves before.

        A large one is read on only if it `has_room`; else `NoRoom`.
        """
        if self.expects_continue:
            self.expects_continue = False
            self.connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.connection.resume_reading()
        while not self.is_abandoned:
            if self.size > self._whole_from:
                self._whole_from = sys.maxsize
                if has_room is not None and not has_room(self):
                    self._is_kept = False
                    self._chunks.clear()
                    raise NoRoom
            if self.is_whole:
                break
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.is_abandoned:
            raise ClientGone
        chunks, self._chunks = self._chunks, []  # not kept as long as the request
        return b"".join(chunks)

    async def respond(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        length = () if status in _WITHOUT_BODY else ((b"content-length", b"%d" % len(body)),)
        head = self._head(status, (*headers, *self.cors, *length))
        await self._write(head if self.facts.method == "HEAD" else head + body, is_last=True)

    async def respond_json(self, status: int, value: JSON, headers: Headers = ()) -> None:
        await self.respond(status, encoded(value), (JSON_TYPE, *headers))

    async def respond_error(
        self,
        status: int,
        error: Mapping[str, JSON],
        request_id: str | int | None = None,
        headers: Headers = (),
    ) -> None:
        await self.respond_json(status, failure(request_id, error), headers)

    async def refuse(self, refusal: Refusal) -> None:
        """Send the refusal to somebody who is not admitted."""
        await self.respond(refusal.status, refusal.body, encoded_headers(refusal.headers))

    async def start_stream(self, headers: Headers = ()) -> None:
        await self._write(self._head(200, (*_SSE_HEADERS, *headers, *self.cors)))

    async def write(self, data: bytes) -> None:
        """Write to the stream; waits while the client does not read."""
        if data:  # an empty chunk would end the stream
            await self._write(b"%x\r\n%s\r\n" % (len(data), data) if self._is_chunked else data)

    async def end_stream(self) -> None:
        await self._write(b"0\r\n\r\n" if self._is_chunked else b"", is_last=True)

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        assert not self.has_ended, "a response ends once"
        connection = self.connection
        if connection.is_full:
            await connection.wait_writable()
        if not self.is_abandoned and not self.is_still_admitted:
            self.dismiss()
        if self.is_abandoned:
            return
        self.has_started = True
        connection.write(data)
        if is_last:
            self.has_ended = True
            connection.response_ended(self)

    def _head(self, status: int, headers: Headers) -> bytes:
        if self.expects_continue and not self.is_whole:
            # A client that is refused before it was told to go on may send its body, or may leave it out:
            # what comes next could be either.
            self.keeps_alive = False
        lines = [_STATUS_LINES[status], self.connection.date_line]
        has_length = False
        for name, value in headers:
            if b"\n" in value or b"\r" in value:
                raise ValueError(f"the header {name.decode()!r} has more than one line")
            if name == b"content-length":
                has_length = True
            elif name == b"connection":
                self.keeps_alive = self.keeps_alive and value != b"close"
                continue
            lines.append(b"%s: %s\r\n" % (name, value))
        if not self.keeps_alive:
            lines.append(b"connection: close\r\n")
        if not has_length and status not in _WITHOUT_BODY and self._version != "1.0":
            self._is_chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)


def encoded(value: JSON) -> bytes:
    try:
        return to_json(value)
    except PydanticSerializationError:  # a lone surrogate, which JSON can have, but UTF-8 cannot
        return json.dumps(value, separators=(",", ":")).encode()


def response(request_id: str | int, result: JSONObject) -> JSONObject:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: str | int | None, error: Mapping[str, JSON]) -> JSONObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def event(message: bytes, event_id: str = "") -> bytes:
    """A JSON-RPC message as an event of a stream."""
    line = f"id: {event_id}\r\n".encode() if event_id else b""
    return b"event: message\r\n%sdata: %s\r\n\r\n" % (line, message)


def encoded_headers(headers: Mapping[str, str]) -> Headers:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


@lru_cache(maxsize=64)
def accepted(accept: str) -> tuple[bool, bool]:
    """Whether an Accept header takes JSON, and whether it takes event streams."""
    types = {part.split(";")[0].strip().lower() for part in accept.split(",")}
    if "*/*" in types:
        return True, True
    return bool(types & {"application/json", "application/*"}), bool(types & {"text/event-stream", "text/*"})


@lru_cache(maxsize=64)
def is_json(content_type: str) -> bool:
    return content_type.split(";")[0].strip().lower() == "application/json"


ONE_MESSAGE = f"one JSON-RPC message, with an id of at most {MAX_ID:,} characters"


def kind_of(message: object) -> str | None:
    """The kind of a JSON-RPC message; None if it is not one."""
    if not isinstance(message, dict):
        return None
    fields = cast("dict[str, Any]", message)
    if fields.get("jsonrpc") != "2.0":
        return None
    has_id = "id" in fields
    if has_id and not is_usable_id(fields["id"]):
        return None
    method = fields.get("method")
    if isinstance(method, str):
        params = fields.get("params")
        if params is not None and not isinstance(params, dict):
            return None
        return "request" if has_id else "notification"
    return "response" if has_id and ("result" in fields or "error" in fields) else None


def has_envelope(message: JSON) -> bool:
    """Whether a message says which modern version it is of."""
    return is_object(message) and PROTOCOL_VERSION in object_in(object_in(message, "params"), "_meta")
