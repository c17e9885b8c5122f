"""One HTTP/1.1 connection: a request is written in one piece, and callbacks read its response.

No task and no timer per request. Nothing is written to a connection that the server is closing.
"""

import asyncio
import select
import zlib
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from toolbus.connect.forks import detach_after_fork
from toolbus.connect.http.response import ENCODINGS, HttpFailure, Inflater, Response

MAX_HEAD = 256 * 1024
"""The most bytes of a response that are not its body: its head, its trailers, the frames of its chunks."""
FRAME_RATIO = 16
"""The number of frame bytes allowed for each byte of the body."""
_H = ord("H")
"""The first letter of HEAD, and of no other method."""
MAX_REPEATED = 16 * 1024
"""The most bytes of a header that is sent several times; more of them are ignored."""
MAX_PARTS = 10_000
"""The most parts of a body in one read: a server that sends more wants to keep the loop busy."""
DRAIN_TIME = 2.0
"""Seconds in which the unread rest of a response may arrive."""


class ClientConnection(asyncio.Protocol):
    """A connection to the server; one request at a time."""

    __slots__ = (
        *(
            "_body_size",
            "_draining",
            "_inflater",
            "_is_head",
            "_limit",
            "_loop",
            "_on_end",
            "_on_idle",
            "_overhead",
            "_parser",
            "_part_count",
            "_paused",
        ),
        *("__weakref__", "_poll", "_received", "_response", "_transport", "idle_since"),
    )

    def __init__(self, on_idle: "Callback", on_end: "Callback", limit: int) -> None:
        """`on_idle` is called when a response is complete, `on_end` when the connection has ended.

        `limit` is for the bytes of a response, once it is decompressed.
        """
        self._limit = limit
        self._on_idle = on_idle
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._parser = HttpResponseParser(self)
        self._response: Response | None = None
        """The response that is awaited or arriving."""
        self._received: asyncio.Future[Response] | None = None
        """Resolves when the response is complete; for an event stream, when its head is."""
        self._overhead = 0
        """The bytes that were not body, and that no body has made up for."""
        self._part_count = self._body_size = 0
        """The parts of the body in one read, and their bytes."""
        self._inflater: Inflater | None = None
        self._is_head = False
        """True for a response to HEAD: it has no body, even with a `content-length`."""
        self._draining: asyncio.TimerHandle | None = None
        self._paused = False
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether a request may be written: no side is closing, and the server sent nothing unasked."""
        if self._transport is None or self._transport.is_closing():
            return False
        # Asks the system, because the event loop may not have seen yet what the server did.
        if self._poll is None:
            return not select.select([self._fileno(self._transport)], [], [], 0)[0]
        return not self._poll.poll(0)

    def request(self, data: bytes) -> asyncio.Future[Response]:
        """Write a request; returns the future of its response, which may fail with `HttpFailure`."""
        assert self._transport is not None
        assert self._response is None
        self._response, self._received = Response(self, self._limit), self._loop.create_future()
        self._overhead = self._part_count = self._body_size = 0
        self._inflater = None
        self._is_head = data[0] == _H  # cheaper than a comparison of the method
        self._transport.write(data)
        return self._received

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._fail("the connection was closed")

    def drain(self) -> None:
        """Ignore the rest of the response; close the connection if it takes long."""
        self.resume_reading()
        self._draining = self._loop.call_later(DRAIN_TIME, self.abort)

    def pause_reading(self) -> None:
        """Let the server wait."""
        if not self._paused and self._draining is None and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def fds(self) -> list[int]:
        fd = -1 if self._transport is None else self._fileno(self._transport)
        return [] if fd < 0 else [fd]

    # From the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._fileno(transport), select.POLLIN)
        detach_after_fork(self)

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.abort()  # nothing was asked
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            # The parser wraps what its callbacks raise.
            cause = error.__context__ or error
            reason = (
                str(cause) if isinstance(cause, HttpFailure) else f"the response is not valid HTTP: {cause}"
            )
            self._fail(reason)
            self.abort()
        else:
            if self._response is not None:  # pyright: ignore[reportUnnecessaryComparison]  # the parser may have ended it
                self._check_overhead(len(data))
            if self._is_head:
                self._end_head()

    def connection_lost(self, exc: Exception | None) -> None:
        response = self._response
        if response is not None and response.status and exc is None:
            # The end of the connection ends the body if nothing else does.
            is_body = not response.headers.keys() & {"content-length", "transfer-encoding"}
            if is_body and self._is_inflated:
                self._complete(response)
        self._fail(f"the connection failed: {exc}" if exc else "the server closed the connection")
        self._transport = None
        self._on_end(self)

    # From the parser

    def on_message_begin(self) -> None:
        if self._response is None:
            raise HttpFailure("a second response was sent", sent=True)

    def on_header(self, name: bytes, value: bytes) -> None:
        response = cast(Response, self._response)
        if response.status:
            return  # a trailer: what follows a body says nothing about it
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key == "set-cookie":
            response.cookies.append(text)
        else:
            known = response.headers.get(key)
            if known is None:
                response.headers[key] = text
            elif len(known) < MAX_REPEATED:
                response.headers[key] = f"{known}, {text}"

    def on_headers_complete(self) -> None:
        response, status = cast(Response, self._response), self._parser.get_status_code()
        if status < 200:  # another head follows
            response.headers.clear()
            response.cookies.clear()
            return
        response.begin(status)
        if encoding := response.headers.get("content-encoding"):
            encoding = encoding.strip().lower()
            if encoding in ENCODINGS:
                self._inflater = Inflater()
            elif encoding not in ("", "identity"):
                raise HttpFailure(f"the response has the content encoding {encoding!r}", sent=True)
        if response.is_stream:
            self._resolve(response)

    def on_body(self, data: bytes) -> None:
        response = cast(Response, self._response)
        self._body_size += len(data)
        self._part_count += 1
        if self._part_count > MAX_PARTS:
            raise HttpFailure("the response consists of too many small parts", sent=True)
        if self._draining is not None:
            return
        if self._inflater is None:
            response.add(data)
            return
        try:
            for piece in self._inflater.pieces(data):
                response.add(piece)
        except zlib.error as error:
            raise HttpFailure(f"the response cannot be decompressed: {error}", sent=True) from error

    def on_message_complete(self) -> None:
        response = cast(Response, self._response)
        if response.status:
            if self._inflater is not None and not self._is_inflated:
                raise HttpFailure("the response cannot be decompressed: it is cut short", sent=True)
            self._complete(response)

    # Internal

    @property
    def _is_inflated(self) -> bool:
        """Whether the body may end here; the rest of one that is drained does not matter."""
        return self._inflater is None or self._draining is not None or self._inflater.is_complete

    def _complete(self, response: Response) -> None:
        response.end()
        self._resolve(response)
        self._response = None
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
        if self._paused:
            self.resume_reading()
        if self._parser.should_keep_alive():
            self._on_idle(self)
        elif self._transport is not None:
            self._transport.close()

    def _end_head(self) -> None:
        response = self._response
        if response is not None and response.status:
            # The parser waits for a body, so the connection cannot be used again.
            self._response = None
            response.end()
            self._resolve(response)
            self.abort()

    def _resolve(self, response: Response) -> None:
        received, self._received = self._received, None
        if received is not None and not received.done():
            received.set_result(response)

    def _fail(self, reason: str) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        failure = HttpFailure(reason, sent=True)
        response.end(failure)
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
        received, self._received = self._received, None
        if received is not None and not received.done():
            received.set_exception(failure)

    def _check_overhead(self, size: int) -> None:
        if self._response is not None:
            made_up = FRAME_RATIO * self._body_size
            self._overhead = max(0, self._overhead + size - self._body_size - made_up)
            self._part_count = self._body_size = 0
            if self._overhead > MAX_HEAD:
                part = "rest" if self._response.status else "head"
                self._fail(f"the {part} of the response is larger than {MAX_HEAD // 1024} KiB")
                self.abort()

    @staticmethod
    def _fileno(transport: asyncio.BaseTransport) -> int:
        return transport.get_extra_info("socket").fileno()


Callback = Callable[[ClientConnection], None]
