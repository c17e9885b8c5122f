"""The calls in flight on one connection, and which of them a message from the server belongs to."""

from collections.abc import Callable, Collection
from contextvars import ContextVar, Token

from toolbus.core.ask.interactions import McpClient
from toolbus.core.operation.events import OnLog
from toolbus.core.operation.operation import CallInFlight

CURRENT: ContextVar[CallInFlight | None] = ContextVar("toolbus_call_in_flight", default=None)
"""The call of this task; messages over a pipe arrive in another task (see `CallsInFlight`)."""


class CallsInFlight:
    """The calls in flight on one connection."""

    def __init__(self) -> None:
        self._calls: set[CallInFlight] = set()

    def track(self, in_flight: CallInFlight) -> "_CallBlock":
        """A context manager: messages from the server within it may belong to this call."""
        return _CallBlock(self._calls, in_flight)

    @property
    def current(self) -> CallInFlight | None:
        """The call that a message belongs to: this task's, or the only one; None if unknown."""
        current = CURRENT.get()
        if current in self._calls:
            return current
        return next(iter(self._calls)) if len(self._calls) == 1 else None

    def client(self, asked: Collection[McpClient]) -> McpClient | None:
        """The MCP client that a request of the server is for; None if unknown.

        If one caller has several calls in flight, it is the client of the latest call that waits for no
        answer. The server does not care which of these calls carries the question. `asked` are the clients
        that are waiting.
        """
        if (current := self.current) is not None:
            return None if current.forwarding is None else current.forwarding.client
        if len({call.caller for call in self._calls}) != 1:
            return None
        latest = sorted(self._calls, key=lambda call: call.operation_id or 0, reverse=True)
        clients = [call.forwarding.client for call in latest if call.forwarding is not None]
        if len(clients) < len(latest):  # our own
            return None
        return next((client for client in clients if client not in asked), clients[0])

    @property
    def on_log(self) -> OnLog | None:
        """The receiver of a log message: the call it belongs to, or any of several calls of one client."""
        if (current := self.current) is not None:
            return current.on_log
        if len({call.caller for call in self._calls}) != 1 or any(c.forwarding is None for c in self._calls):
            return None
        return next((call.on_log for call in self._calls if call.on_log is not None), None)

    @property
    def are_own(self) -> bool:
        """Whether a request of the server belongs to a call that is made for no MCP client."""
        if (current := self.current) is not None:
            return current.forwarding is None
        return bool(self._calls) and all(call.forwarding is None for call in self._calls)

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    def count_question(self) -> float:
        """Count a question of the server; returns how often it has asked in one call, at least."""
        candidates = self._candidates
        for one in candidates:
            one.asked += 1 / len(candidates)
        return min((one.asked for one in candidates), default=0)

    def when_over(self, end: Callable[[], None]) -> None:
        """Call `end` when the call that a message belongs to is over, or all that it may belong to."""
        left = set(self._candidates)

        def over(in_flight: CallInFlight) -> None:
            left.discard(in_flight)
            if not left:
                end()

        for one in tuple(left):
            one.on_end += (over,)

    @property
    def _candidates(self) -> set[CallInFlight]:
        in_flight = self.current
        return set(self._calls) if in_flight is None else {in_flight}


class _CallBlock:
    """The block of one call; a class, because a generator would slow down every call."""

    __slots__ = ("_calls", "_in_flight", "_token")

    def __init__(self, calls: set[CallInFlight], in_flight: CallInFlight) -> None:
        self._calls = calls
        self._in_flight = in_flight

    def __enter__(self) -> None:
        self._calls.add(self._in_flight)
        if self._in_flight.clock is not None:
            self._in_flight.clock.enter("server")
        self._token: Token[CallInFlight | None] = CURRENT.set(self._in_flight)

    def __exit__(self, *raised: object) -> None:
        CURRENT.reset(self._token)
        self._calls.discard(self._in_flight)
        if self._in_flight.clock is not None:
            self._in_flight.clock.enter("result")
        for over in self._in_flight.on_end:
            over(self._in_flight)
