"""The event streams of legacy sessions: sent events can be read again after a lost connection."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Final

from toolbus.core.operation.quota import Quota
from toolbus.core.values.records import JSONObject
from toolbus.gateway.http.limits import HttpLimits
from toolbus.gateway.http.request import Headers, HttpRequest, encoded, event

KEEPALIVE: Final = b": keepalive\r\n\r\n"
RETRY_MS: Final = 1000
"""The time that a client should wait before it connects again."""
MOST_ENDED: Final = 100
"""The ended streams that a session keeps."""
_STANDALONE = 0


class SessionStream:
    """The messages for a request, or of the session itself; one connection at a time reads it."""

    def __init__(self, streams: "SessionStreams", key: int) -> None:
        self._streams = streams
        self.key = key
        self.events: deque[tuple[int, bytes]] = deque()
        """The events that can be read, by number."""
        self.last = 0
        """The number of the last event."""
        self.read = 0
        """The number up to which events were written to a connection."""
        self.dropped = 0
        """The number up to which events cannot be read any more."""
        self.has_ended = False
        self.response = 0
        """The number of the event with the response; 0 before it."""
        self.reader: StreamReader | None = None
        self.began = asyncio.Event()

    def send(self, message: JSONObject) -> None:
        """Append a message; dropped if the stream has ended."""
        if self.has_ended:
            return
        self.last += 1
        data = event(encoded(message), self.id_of(self.last))
        self.events.append((self.last, data))
        self._streams.grow(len(data))
        self.wake()

    def end(self, message: JSONObject | None = None) -> None:
        """End it, with the response to its request."""
        if message is not None:
            self.response = self.last + 1
            self.send(message)
        self.has_ended = True
        self.wake()

    def wake(self) -> None:
        self.began.set()
        if self.reader is not None:
            self.reader.wake.set()

    def id_of(self, number: int) -> str:
        return f"{self._streams.prefix}{self.key}-{number}"

    def after(self, number: int) -> bytes:
        return b"".join([data for one, data in self.events if one > number])


class StreamReader:
    """A connection that gets the events of a stream; another one may replace it."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.is_replaced = False


class KeptStreams:
    """The streams that all sessions keep; beyond its share, an owner loses its oldest ended streams."""

    def __init__(self, most: int) -> None:
        """`most` bytes of all owners."""
        self._bytes = Quota(most)
        self._ended: defaultdict[Hashable, deque[tuple[SessionStreams, SessionStream]]] = defaultdict(deque)

    @property
    def bytes(self) -> int:
        return self._bytes.taken

    def count(self, owner: Hashable, more: int) -> None:
        """Count bytes of an owner, or bytes that it does not keep any more."""
        self._bytes.add(owner, more)

    def is_over(self, owner: Hashable) -> bool:
        """Whether an owner keeps more than its share, although nothing that ended is left."""
        ended = self._ended[owner]
        while ended and (self._bytes.held(owner) > self._bytes.free or not ended[0][1].events):
            streams, oldest = ended.popleft()
            streams.discard(oldest)
        if not ended:
            del self._ended[owner]
        return self._bytes.held(owner) > self._bytes.free

    def add(self, owner: Hashable, streams: "SessionStreams", stream: SessionStream) -> None:
        self._ended[owner].append((streams, stream))


class SessionStreams:
    """The streams of one session, within bounds: delivered events are dropped first, the oldest first."""

    def __init__(
        self, limits: HttpLimits, kept: KeptStreams, owner: Hashable, *, primes: bool, prefix: str = ""
    ) -> None:
        """`kept` is what all sessions keep, of which the owner of this one gets a share.

        `primes`: the client understands the empty event that opens a stream. `prefix` is what the ids of
        events begin with.
        """
        self._kept = kept
        self._owner = owner
        self.prefix = prefix
        self._limits = limits
        self._primes = primes
        self._streams: dict[int, SessionStream] = {}
        self._last_key = _STANDALONE
        self._bytes = 0
        self._is_closed = False
        self.standalone = SessionStream(self, _STANDALONE)
        self._streams[_STANDALONE] = self.standalone

    def open(self) -> SessionStream:
        self._last_key += 1
        stream = self._streams[self._last_key] = SessionStream(self, self._last_key)
        return stream

    def discard(self, stream: SessionStream) -> None:
        if self._streams.pop(stream.key, None) is not None:
            self._count(-sum(len(data) for _, data in stream.events))
            stream.events.clear()

    def keep_for_replay(self, stream: SessionStream) -> None:
        ended = [one for one in self._streams.values() if one.has_ended]
        for one in ended[:-MOST_ENDED]:
            self.discard(one)
        self._kept.add(self._owner, self, stream)
        asyncio.get_running_loop().call_later(self._limits.replay_seconds, self.discard, stream)

    def find(self, event_id: str) -> tuple[SessionStream, int] | None:
        """The stream with that event, and its number; None if it cannot be resumed there."""
        if not event_id.startswith(self.prefix):
            return None
        key, _, number = event_id.removeprefix(self.prefix).partition("-")
        if not (key.isdecimal() and number.isdecimal() and len(event_id) < 40):
            return None
        stream = self._streams.get(int(key))
        if stream is None or not stream.dropped <= int(number) <= stream.last:
            return None
        return stream, int(number)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.end()
        self._count(-self._bytes)
        self._is_closed = True

    def grow(self, size: int) -> None:
        """Count bytes appended to a stream, and drop old events beyond the limits."""
        self._count(size)
        if self._bytes > self._limits.replay_bytes:
            self._drop(self._limits.replay_bytes, only_read=True)
        if self._bytes > self._limits.backlog_bytes:
            # A response may be larger: the limits of results bound it.
            self._drop(self._limits.backlog_bytes + self._unread_responses(), only_read=False)
        if self._kept.is_over(self._owner):
            self._drop(0, only_read=True)
        if self._kept.is_over(self._owner):
            self._drop(0, only_read=False)

    def _unread_responses(self) -> int:
        return sum(
            len(data)
            for stream in self._streams.values()
            for number, data in stream.events
            if stream.read < number == stream.response
        )

    def _count(self, more: int) -> None:
        if not self._is_closed:
            self._bytes += more
            self._kept.count(self._owner, more)

    def _drop(self, most: int, *, only_read: bool) -> None:
        for stream in self._streams.values():
            events = stream.events
            while self._bytes > most and events and (not only_read or events[0][0] <= stream.read):
                stream.dropped, data = events.popleft()
                self._count(-len(data))

    async def read(
        self, http: HttpRequest, stream: SessionStream, after: int | None, headers: Headers
    ) -> None:
        """Write the events of a stream to the client, from after `after` or from its opening, until it ends.

        Returns earlier if another connection reads it now.
        """
        if stream.reader is not None:
            stream.reader.is_replaced = True
            stream.reader.wake.set()
        reader = stream.reader = StreamReader()
        http.is_endless = stream.key == _STANDALONE
        number = stream.read if after is None else after
        try:
            await http.start_stream(headers)
            if after is None and self._primes:
                await http.write(
                    f"id: {stream.id_of(number)}\r\nretry: {RETRY_MS}\r\ndata: \r\n\r\n".encode()
                )
            await self._copy(http, stream, reader, number)
        finally:
            if stream.reader is reader:
                stream.reader = None

    async def _copy(
        self, http: HttpRequest, stream: SessionStream, reader: StreamReader, number: int
    ) -> None:
        while not reader.is_replaced:
            reader.wake.clear()
            if number < stream.dropped:  # it reads too slowly, or began too early
                return http.connection.abort()
            if number < stream.last:
                data, number = stream.after(number), stream.last
                stream.read = max(stream.read, number)
                await http.write(data)
            elif stream.has_ended:
                break
            elif not await woken(reader.wake, self._limits.keepalive_seconds):
                await http.write(KEEPALIVE)
        return await http.end_stream()


async def woken(wake: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, at most that long; whether it came."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return False
    return True
