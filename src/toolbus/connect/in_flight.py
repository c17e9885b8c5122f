"""The calls in flight on one connection, and which of them a message of the server belongs to."""

from collections.abc import Callable
from contextvars import ContextVar, Token

from toolbus.core.operation import CallInFlight

CURRENT: ContextVar[CallInFlight | None] = ContextVar("toolbus_call_in_flight", default=None)
"""The call whose task this is; what comes over a pipe comes to another task (see `CallsInFlight`)."""


class CallsInFlight:
    """The calls under way on one connection."""

    def __init__(self) -> None:
        self._under_way: set[CallInFlight] = set()

    def under_way(self, in_flight: CallInFlight) -> "_UnderWay":
        """What the server says until the end of the block may be about this call."""
        return _UnderWay(self._under_way, in_flight)

    @property
    def current(self) -> CallInFlight | None:
        """The call that what the server says now is about: its own task says so, or it is the only one."""
        current = CURRENT.get()
        if current in self._under_way:
            return current
        return next(iter(self._under_way)) if len(self._under_way) == 1 else None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._under_way)

    def count_question(self) -> float:
        """Count what the server asks; gives how often it has asked for one call by now, at least."""
        concerned = self._concerned
        for one in concerned:
            one.asked += 1 / len(concerned)
        return min((one.asked for one in concerned), default=0)

    def when_over(self, end: Callable[[], None]) -> None:
        """Call `end` when what the server speaks of now is over: the call, or all that it may be."""
        left = set(self._concerned)

        def over(in_flight: CallInFlight) -> None:
            left.discard(in_flight)
            if not left:
                end()

        for one in tuple(left):
            one.on_end += (over,)

    @property
    def _concerned(self) -> set[CallInFlight]:
        in_flight = self.current
        return set(self._under_way) if in_flight is None else {in_flight}


class _UnderWay:
    """The block of one call; no generator, because every call goes through it."""

    __slots__ = ("_all", "_in_flight", "_token")

    def __init__(self, all_of_them: set[CallInFlight], in_flight: CallInFlight) -> None:
        self._all = all_of_them
        self._in_flight = in_flight

    def __enter__(self) -> None:
        self._all.add(self._in_flight)
        self._token: Token[CallInFlight | None] = CURRENT.set(self._in_flight)

    def __exit__(self, *raised: object) -> None:
        CURRENT.reset(self._token)
        self._all.discard(self._in_flight)
        for over in self._in_flight.on_end:
            over(self._in_flight)
