"""A response: complete when its caller gets it, or an event stream that is read as it arrives.

A body is decompressed piece by piece, so that a limit holds before memory is used.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from typing import Protocol

from toolbus.core.text.display import over_limit

PIECE = 1024 * 1024
ENCODINGS = ("gzip", "x-gzip", "deflate")
ACCEPT_ENCODING = "gzip, deflate"
MAX_MEMBERS = 1_000
"""The most members of gzip in one piece of data: more of them only keep the loop busy."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""The zlib codes of the formats."""


class Inflater:
    """Decompresses one body: gzip with any number of members, or deflate with or without its header."""

    def __init__(self) -> None:
        self._format = 0
        self._member = zlib.decompressobj()
        """The decompressor of the current member."""
        self._has_begun = False
        """Whether a member has begun, and not ended."""
        self._held = b""
        """The first byte of a member, which does not tell its format yet."""

    @property
    def is_complete(self) -> bool:
        """Whether the body may end here."""
        return not self._has_begun and not self._held

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data, at most a MiB at a time; raises `zlib.error` if it is invalid."""
        data, self._held = self._held + data, b""
        for _ in range(MAX_MEMBERS):
            if not self._has_begun:
                data = self._begin(data)
            if not self._has_begun:
                return
            piece = self._member.decompress(data, PIECE)
            while piece:
                yield piece
                piece = self._member.decompress(self._member.unconsumed_tail, PIECE)
            if not self._member.eof:
                return
            data, self._has_begun = self._member.unused_data, False
        raise zlib.error("it consists of too many small parts")

    def _begin(self, data: bytes) -> bytes:
        """Begin a member, if the data has one; returns the data that it begins with."""
        if self._format:
            data = data.lstrip(b"\0")  # gzip may be padded
        if len(data) < 2:
            self._held = data
            return b""
        if not self._format:
            self._format = _format(data)
        elif self._format != _GZIP:
            raise zlib.error("data follows its end")
        self._member, self._has_begun = zlib.decompressobj(self._format), True
        return data


def _format(data: bytes) -> int:
    if data[:2] == b"\x1f\x8b":
        return _GZIP
    # Some servers send `deflate` without the header of zlib.
    return _ZLIB if data[0] & 15 == 8 and int.from_bytes(data[:2]) % 31 == 0 else _RAW


PAUSE_AT = 1024 * 1024
"""The number of unread bytes in a stream at which the server has to wait."""
SMALL = 4096
"""Parts below this size are joined as they arrive."""


class HttpFailure(Exception):
    """There is no valid response; `sent` says whether the request may have reached the server."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class TooLarge(HttpFailure):
    """A response exceeds `limits.message`."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} {over_limit(limit)}", sent=True)


class Source(Protocol):
    """The connection that a response arrives on."""

    def abort(self) -> None: ...
    def drain(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Response:
    """The head and the body of a response."""

    __slots__ = (
        "_chunks",
        "_failure",
        "_released",
        "_source",
        "_unread",
        "_waiter",
        "cookies",
        "ended",
        "headers",
        "is_stream",
        "limit",
        "media_type",
        "status",
    )

    def __init__(self, source: Source, limit: int) -> None:
        """`limit` is for the bytes of the body, or the unread part of a stream, once decompressed."""
        self._source = source
        self.limit = limit
        self.status = 0
        """0 until the whole head has arrived."""
        self.media_type = ""
        """The content type, without its parameters."""
        self.is_stream = False
        """Whether the body is an event stream."""
        self.headers: dict[str, str] = {}
        """The headers, by lowercase name."""
        self.cookies: list[str] = []
        """The `set-cookie` headers."""
        self.ended = False
        """Whether the whole body has arrived."""
        self._released = False
        self._chunks: list[bytes | bytearray] = []
        self._unread = 0
        self._failure: HttpFailure | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def body(self) -> bytes:
        """The body so far: all of it, unless it is an event stream."""
        return bytes(self._chunks[0]) if len(self._chunks) == 1 else b"".join(self._chunks)

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it arrives; raises `HttpFailure` if it breaks off."""
        while True:
            while self._chunks:
                chunk = self._chunks.pop(0)
                self._unread -= len(chunk)
                if self._unread <= PAUSE_AT:
                    self._source.resume_reading()
                yield bytes(chunk)
            if self._failure is not None:
                raise self._failure
            if self.ended:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def close(self) -> None:
        """Close the connection, unless the body has ended; a modern server treats that as a cancellation."""
        if not self.ended and not self._released:
            self._source.abort()

    def release(self) -> None:
        """Stop reading; the connection can be reused if the rest of the body is short."""
        if not self.ended:
            self._released = True
            self._source.drain()

    # For the connection

    def begin(self, status: int) -> None:
        self.status = status
        self.media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.is_stream = self.media_type == "text/event-stream"

    def add(self, chunk: bytes) -> None:
        chunks = self._chunks
        if chunks and len(chunk) < SMALL and len(chunks[-1]) < 16 * SMALL:
            # Many small objects would take far more memory than their bytes.
            if not isinstance(chunks[-1], bytearray):
                chunks[-1] = bytearray(chunks[-1])
            chunks[-1] += chunk
        else:
            chunks.append(chunk)
        self._unread += len(chunk)
        if self._unread > self.limit:
            raise TooLarge("the response", self.limit)
        if self._waiter is not None:
            self._wake()
        if self._unread > PAUSE_AT and self.is_stream:
            self._source.pause_reading()

    def end(self, failure: HttpFailure | None = None) -> None:
        self.ended, self._failure = True, failure
        if self._waiter is not None:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
