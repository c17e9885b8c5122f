"""One HTTP request to the front, and the ways to respond to it."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from toolbus.core.records import JSON, JSONObject
from toolbus.gateway.access.admission import Access, Refusal, RequestFacts
from toolbus.gateway.http.protocol import CONNECTION
from toolbus.gateway.principal import LOCAL, Principal

if TYPE_CHECKING:
    from toolbus.gateway.http.protocol import LimitedProtocol

logger = logging.getLogger("toolbus")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

JSON_TYPE = (b"content-type", b"application/json")
_SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class ClientGone(Exception):
    """The client closed the connection before its request was answered."""


class Watch:
    """A block that ends with `ClientGone` when the client closes the connection."""

    __slots__ = ("_connection", "_is_gone", "_task")

    def __init__(self, connection: "LimitedProtocol") -> None:
        self._connection = connection
        self._task = asyncio.current_task()
        self._is_gone = False

    def __enter__(self) -> None:
        self._connection.on_lost = self._cancel

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._connection.on_lost = None
        if self._is_gone and isinstance(error, asyncio.CancelledError):
            assert self._task is not None
            self._task.uncancel()
            raise ClientGone from None

    def _cancel(self) -> None:
        self._is_gone = True
        assert self._task is not None, "requests are served in tasks"
        self._task.cancel()


async def answer(http: "HttpRequest", work: Awaitable[None]) -> None:
    """Let the work answer a request, until its client leaves; nothing that it raises goes to the client."""
    try:
        with Watch(http.connection):
            await work
    except ClientGone:
        pass
    except Exception:  # the edge of a task
        logger.exception("could not serve a request")
        http.connection.abort()


class HttpRequest:
    """A request, read on demand; each is answered by `respond`, or by `start_stream` and `write`."""

    __slots__ = (
        "_access",
        "_receive",
        "_send",
        "connection",
        "cors",
        "facts",
        "headers",
        "principal",
        "query",
        "repeated",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, access: Access) -> None:
        self._access = access
        self._receive = receive
        self._send = send
        self.repeated: list[tuple[str, str]] = []
        """The headers that are there more than once, twice each; their values are joined."""
        raw: list[tuple[bytes, bytes]] = scope["headers"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
        if len(headers) != len(raw):
            headers = self._joined(raw)
        self.headers = headers
        client = scope["client"]
        self.facts = RequestFacts(
            method=scope["method"],
            path=scope["path"],
            headers=headers,
            address=client[0] if client else "",
            scheme=scope["scheme"],
        )
        self.query: bytes = scope["query_string"]
        self.principal: Principal = LOCAL
        """Who sent it; set once it is admitted."""
        self.cors: Headers = ()
        self.connection: LimitedProtocol = scope[CONNECTION]

    def _joined(self, raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for raw_name, raw_value in raw:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            if name in headers:
                self.repeated += [(name, ""), (name, "")]
                value = f"{headers[name]}, {value}"
            headers[name] = value
        return headers

    @property
    def is_still_admitted(self) -> bool:
        """Whether whoever sent it would be let in again: a key may be revoked while a stream is open."""
        return self._access.is_current(self.principal)

    async def body(self) -> bytes:
        """The whole body; `ClientGone` if the client leaves before."""
        chunks: list[bytes] = []
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            if not message["more_body"]:
                return b"".join((*chunks, message["body"])) if chunks else message["body"]
            chunks.append(message["body"])

    async def respond(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """Send the whole response."""
        length = (b"content-length", b"%d" % len(body))
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [*headers, *self.cors, length]}
        )
        await self._send({"type": "http.response.body", "body": body})

    async def respond_json(self, status: int, value: JSON, headers: Headers = ()) -> None:
        """Send a JSON value."""
        await self.respond(status, encoded(value), (JSON_TYPE, *headers))

    async def refuse(self, refusal: Refusal) -> None:
        """Send what is said to somebody who is not admitted."""
        await self.respond(refusal.status, refusal.body, encoded_headers(refusal.headers))

    async def start_stream(self, headers: Headers = ()) -> None:
        """Begin an event stream."""
        names = [*_SSE_HEADERS, *headers, *self.cors]
        await self._send({"type": "http.response.start", "status": 200, "headers": names})
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def write(self, data: bytes) -> None:
        """Write to the stream; waits while the client does not read."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self, data: bytes = b"") -> None:
        """Write the last of the stream."""
        await self._send({"type": "http.response.body", "body": data})


def encoded(value: JSON) -> bytes:
    """The value as JSON."""
    try:
        return to_json(value)
    except PydanticSerializationError:  # a lone surrogate, which JSON can have, but UTF-8 cannot
        return json.dumps(value, separators=(",", ":")).encode()


def response(request_id: str | int, result: JSONObject) -> JSONObject:
    """The JSON-RPC response with a result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: str | int | None, error: Mapping[str, JSON]) -> JSONObject:
    """The JSON-RPC response with an error."""
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def event(message: bytes, event_id: str = "") -> bytes:
    """A JSON-RPC message as an event of a stream."""
    line = f"id: {event_id}\r\n".encode() if event_id else b""
    return b"event: message\r\n%sdata: %s\r\n\r\n" % (line, message)


def encoded_headers(headers: Mapping[str, str]) -> Headers:
    """Headers as they are sent."""
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
    """Whether a Content-Type header announces JSON."""
    return content_type.split(";")[0].strip().lower() == "application/json"
