"""The events of an event stream, as its bytes arrive."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from toolbus.connect.http.response import Response, TooLarge

_LINE_ENDS = b"\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_DIGITS = 9
_MAX_ID = 1_000
"""Bytes of an id: it is sent back in a header."""
_PIECE = 64 * 1024
"""The number of bytes to read before other tasks can run."""


@dataclass(slots=True)
class ServerSentEvent:
    """One event."""

    kind: str = "message"
    data: bytes = b""
    id: str | None = None
    retry: int | None = None
    """Milliseconds to wait before the stream is resumed."""


class EventParser:
    """Finds the events in the chunks of a stream."""

    def __init__(self, limit: int) -> None:
        """`limit` is for the bytes of one event."""
        self._limit = limit
        self._event: ServerSentEvent | None = None
        """The event whose lines are being read."""
        self._data: list[bytes] = []
        self._partial: list[bytes] = []
        """The chunks of a line that has not ended."""
        self._size = 0
        self._after_cr = False
        self._is_first = True

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that end in this chunk; `HttpFailure` if one is too large."""
        if self._is_first:
            chunk, self._is_first = chunk.removeprefix(_BYTE_ORDER_MARK), False
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # the second half of a line end
        self._after_cr = chunk.endswith(b"\r")
        events: list[ServerSentEvent] = []
        for line in chunk.splitlines(keepends=True):
            self._size += len(line)
            if self._size > self._limit:
                raise TooLarge("an event", self._limit)
            if line[-1] not in _LINE_ENDS:
                self._partial.append(line)
                continue
            if self._partial:
                line = b"".join((*self._partial, line))
                self._partial.clear()
            if field := line.rstrip(_LINE_ENDS):
                self._read(field)
            elif self._event is not None:
                self._event.data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(self._event)
                self._event, self._data, self._size = None, [], 0
            else:
                self._size = 0  # only comments so far
        return events

    def _read(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        event = self._event or ServerSentEvent()
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                event.kind = value.decode(errors="replace")
            case b"id" if b"\0" not in value and len(value) <= _MAX_ID:
                event.id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) <= _MAX_DIGITS:
                event.retry = int(value)
            case _:
                return  # a comment, or a field of the future
        self._event = event


async def events(response: Response) -> AsyncIterator[ServerSentEvent]:
    """The events of a response; raises `HttpFailure` if it breaks off."""
    parser = EventParser(response.limit)
    read = 0
    async for chunk in response.chunks():
        # Many short lines take longer than a few long ones.
        size = _PIECE if chunk.count(b"\n") * 64 < len(chunk) else _PIECE // 8
        for start in range(0, len(chunk), size):
            piece = chunk if len(chunk) <= size else chunk[start : start + size]
            for event in parser.feed(piece):
                yield event
            read += len(piece)
            if read >= size:  # a fast server must not keep the loop for itself
                read = 0
                await asyncio.sleep(0)
