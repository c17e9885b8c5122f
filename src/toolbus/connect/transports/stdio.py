"""A server as a child process, connected by its pipes: a JSON-RPC message in each line."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.transports.process.process import NORMAL_GRACE, SHORT_GRACE, ServerProcess
from toolbus.connect.transports.wire.jsonrpc import JsonRpcPeer, ResponseFuture
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.text.display import over_limit

WARN_DELAY = 0.5
STALL_MARGIN = 2.0
"""Seconds beyond `timeouts.call` until a server that does not read is given up; the call times out first."""
KEPT_OF_LONG = 200
"""The number of bytes kept from each end of a line that is too long, to find the request that it answers."""


@asynccontextmanager
async def stdio_peer(attempt: Attempt) -> AsyncGenerator[JsonRpcPeer]:
    """Connect to the server's process, and start it if necessary; on exit, end its whole group."""
    attempt.diagnostics.phase = "spawn"
    process = attempt.process or ServerProcess(attempt.config, attempt.values, attempt.diagnostics)
    grace = SHORT_GRACE
    try:
        await process.start()
        attempt.diagnostics.phase = "handshake"
        lines = _Lines(attempt, process)
        try:
            yield lines.peer
            grace = NORMAL_GRACE
        finally:
            lines.close()
    finally:
        await process.end(grace)


class _Lines:
    """Messages as lines, from and to the pipes of one process."""

    def __init__(self, attempt: Attempt, process: ServerProcess) -> None:
        self._redacted = attempt.values.redacted
        self._diagnostics = attempt.diagnostics
        self._warn = attempt.warn
        self._process = process
        self._writable = process.writable
        assert process.stdin is not None
        self._stdin = process.stdin
        self._limit = attempt.config.limits.message
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._warn_timer: asyncio.TimerHandle | None = None
        self._first_skipped = ""
        self._flush_scheduled = False
        self._buffered: list[bytes] = []
        self._is_ignored = False
        self.peer = JsonRpcPeer(
            "stdio",
            self._write,
            redacted=self._redacted,
            on_invalid=self._skip,
            on_flood=self._end_flood,
            config=attempt.config,
        )
        patience = attempt.config.timeouts.call + STALL_MARGIN
        self._watch = InputWatch(patience, process.unread, lambda: self.peer.in_flight, self._report_stall)
        process.attach(self._read, self.peer.close, self._watch.start)

    def _end_flood(self, reason: str) -> None:
        self._is_ignored = True  # until its process has ended
        self._diagnostics.flood = reason
        self._process.disconnect(reason)

    def _read(self, data: bytes) -> None:
        if self._is_ignored:
            return
        *lines, last = data.split(b"\n")
        for line in lines:
            if self._partial_size or len(line) > self._limit:
                self._add(line)
                self._end_line()
            elif line and not line.isspace():
                self.peer.feed(line)
        if last:
            self._add(last)

    def _add(self, part: bytes) -> None:
        """Add a part to the current line; of a line that is too long, only its beginning and end are kept."""
        self._partial.append(part)
        self._partial_size += len(part)
        if self._partial_size > self._limit:
            whole = b"".join(self._partial)
            self._partial = [whole[:KEPT_OF_LONG], whole[-KEPT_OF_LONG:]]

    def _end_line(self) -> None:
        line, size = b"".join(self._partial), self._partial_size
        self._partial, self._partial_size = [], 0
        if size > self._limit:
            self.peer.refuse(line, f"the response {over_limit(self._limit)}")
        elif line.strip():
            self.peer.feed(line)

    def _skip(self, nth: int, data: bytes) -> None:
        self._diagnostics.skipped = nth
        if nth == 1:
            self._first_skipped = self._redacted.head(data.decode(errors="replace").strip(), 80)
            # Delayed, so that one warning can count the lines.
            self._warn_timer = asyncio.get_running_loop().call_later(WARN_DELAY, self._warn_skipped)

    def close(self) -> None:
        self.peer.close("the connection is closed")
        self._watch.stop()
        self._warn_skipped()

    def _report_stall(self) -> None:
        self._process.disconnect("the server does not read its input")

    def _warn_skipped(self) -> None:
        if self._warn_timer is not None:
            self._warn_timer.cancel()
            self._warn_timer = None
            count = self._diagnostics.skipped
            lines, are = (
                ("a line", "is not a message") if count == 1 else (f"{count} lines", "are not messages")
            )
            self._warn(f"skipped {lines} on its standard output that {are}; first: {self._first_skipped!r}")

    # A plain function: a coroutine less on the way of every call.
    def _write(
        self, data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
    ) -> Awaitable[None] | None:
        return (
            self._write_now(data, response) if self._writable.is_set() else self._write_later(data, response)
        )

    async def _write_later(self, data: bytes, response: ResponseFuture | None) -> None:
        await self._writable.wait()  # instead of queueing more than the server reads
        if self._process.lost is not None:
            self._fail(self._process.lost, response)
        else:
            self._write_now(data, response)

    def _write_now(self, data: bytes, response: ResponseFuture | None) -> None:
        if response is None:
            self._watch.start()
        if self._flush_scheduled:
            # Not the first message of this loop iteration: the others are sent in one write at its end.
            self._buffered += (data, b"\n")
        else:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)
            self._stdin.write(data + b"\n")
            if self._stdin.is_closing():  # the pipe is broken: nothing was written
                self._fail("the server closed its input", response)

    def _fail(self, reason: str, response: ResponseFuture | None) -> None:
        """Report that a request was not sent; a message without a response is dropped."""
        if response is not None:
            raise WireError(reason, sent=False)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._buffered:
            self._stdin.write(b"".join(self._buffered))
            self._buffered.clear()


INTERVAL = 5.0
"""Seconds between two looks, at most."""


class InputWatch:
    """Looks at the input of one server, from `start` until all of it is read."""

    def __init__(
        self,
        patience: float,
        unread: Callable[[], int],
        in_flight: Callable[[], Collection[object]],
        on_stalled: Callable[[], None],
    ) -> None:
        """`unread` counts the bytes that the server has not read, `in_flight` the requests."""
        self._patience = patience
        self._unread = unread
        self._in_flight = in_flight
        self._on_stalled = on_stalled
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0
        self._since = 0.0
        self._waiting: set[object] = set()

    def start(self) -> None:
        """Begin to look, if that has not begun yet."""
        if self._timer is None:
            self._begin(self._unread())
            self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, left: int) -> None:
        self._left, self._since = left, asyncio.get_running_loop().time()
        self._waiting = set(self._in_flight())

    def _schedule(self) -> None:
        pause = min(INTERVAL, self._patience / 4)
        self._timer = asyncio.get_running_loop().call_later(pause, self._look)

    def _look(self) -> None:
        self._timer, left = None, self._unread()
        if left == 0:
            return
        if left < self._left:
            self._begin(left)
        self._left = left
        self._waiting &= set(self._in_flight())
        waited = asyncio.get_running_loop().time() - self._since
        if waited >= self._patience and not self._waiting:
            self._on_stalled()
        else:
            self._schedule()
