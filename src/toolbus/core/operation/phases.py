"""The phases of an operation, if somebody times it: `operation.clock` is then a `CallClock`."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T", bound="ClockedOperation")
R = TypeVar("R")
SHORTEST = 0.0001
"""Seconds; a shorter phase is left out, unless it is the server's."""
_WAITS_FOR_SERVER, _SERVER, _AFTER, _TASK = "connection", "server", "result", "task"
_END = ""
_Interval = tuple[float, float]


class CallPhase(NamedTuple):
    """A part of a call's time."""

    name: str
    """A station, such as `policy`, or `queue`, `person`, `connection`, `server`, `task` or `result`."""
    start: float
    """Seconds since the call began."""
    seconds: float


class CallClock:
    """The times at which an operation entered each phase."""

    __slots__ = ("_marks", "began", "queued")

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.queued = 0.0
        """Seconds in the queue before it began."""
        if (waited := QUEUED.get()) is not None:
            self.queued = waited.take()
        self._marks: list[tuple[str, float]] = []

    @property
    def phase(self) -> str:
        """The phase of now; empty before the first."""
        marks = self._marks
        return next((name for name, _ in reversed(marks) if name != _END), "")

    def enter(self, phase: str) -> None:
        """Enter a phase; the requests about a task are part of the task."""
        marks = self._marks
        if not marks or marks[-1][0] != _TASK:
            marks.append((phase, time.perf_counter()))

    def end(self) -> None:
        """The operation has ended."""
        self._marks.append((_END, time.perf_counter()))

    def server_seconds(self, asked: Sequence[_Interval]) -> float | None:
        """The time of the server until now; None if nothing was sent. It is cheaper than all phases."""
        if asked:
            return server_seconds(self.phases(asked))
        took, since, is_sent = 0.0, 0.0, False
        for name, at in self._marks:
            if since:
                took += at - since
            is_server = name in (_SERVER, _TASK)
            since, is_sent = at if is_server else 0.0, is_sent or is_server
        if since:
            took += time.perf_counter() - since
        return took if is_sent else None

    def phases(self, asked: Sequence[_Interval]) -> tuple[CallPhase, ...]:
        """The phases in order; `asked` are the times in which a person was asked."""
        found = [CallPhase("queue", 0.0, self.queued)]
        marks = self._named()
        ends = [at for _, at in marks[1:]] + [time.perf_counter()]
        for (name, start), stop in zip(marks, ends, strict=True):
            if name == _END:
                break
            for is_asked, left, right in _split(start, stop, asked):
                begins = self.queued + left - self.began
                found.append(CallPhase("person" if is_asked else name, begins, right - left))
        return tuple(one for one in _joined(found) if one.seconds > SHORTEST or one.name == _SERVER)

    def _named(self) -> list[tuple[str, float]]:
        """The marks, with what they turned out to be."""
        names = [name for name, _ in self._marks]
        if _SERVER not in names and _TASK not in names:  # a route without a connection
            names = [_SERVER if name == _WAITS_FOR_SERVER else name for name in names]
        for number, name in enumerate(names[1:]):
            if name == _SERVER and names[number] == _AFTER:  # sent again, over another connection
                names[number] = _WAITS_FOR_SERVER
        return [(name, at) for name, (_, at) in zip(names, self._marks, strict=True)]


def server_seconds(phases: Sequence[CallPhase]) -> float | None:
    """The time of the server; None if nothing was sent."""
    took = [one.seconds for one in phases if one.name in (_SERVER, _TASK)]
    return sum(took) if took else None


def _split(start: float, stop: float, asked: Sequence[_Interval]) -> list[tuple[bool, float, float]]:
    """An interval, cut where a person began and ended to be asked."""
    pieces: list[tuple[bool, float, float]] = []
    for since, until in asked:
        left, right = max(start, since), min(stop, until)
        if left < right:
            pieces += [(False, start, left), (True, left, right)]
            start = right
    return [*pieces, (False, start, stop)]


def _joined(phases: Sequence[CallPhase]) -> list[CallPhase]:
    """The phases, with neighbors of the same name as one."""
    joined: list[CallPhase] = []
    for one in phases:
        if joined and joined[-1].name == one.name:
            before = joined.pop()
            one = CallPhase(one.name, before.start, one.start + one.seconds - before.start)
        joined.append(one)
    return joined


class QueueTime:
    """The time of a call in the queue of a gateway, until the operation that it becomes takes it over."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def take(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds


QUEUED: ContextVar[QueueTime | None] = ContextVar("toolbus_queued", default=None)
"""The time for which the call of this task waited for its turn."""


class ClockedOperation(Protocol):
    """An operation that may be timed."""

    @property
    def clock(self) -> CallClock | None: ...


def timed_station(
    phase: str, laid: Callable[[T], Awaitable[R]], onward: Callable[[T], Awaitable[R]] | None
) -> Callable[[T], Awaitable[R]]:
    """A station that tells the clock of an operation when it is entered, unless it lays nothing."""
    if laid is onward:
        return laid

    def run(operation: T) -> Awaitable[R]:
        if operation.clock is not None:
            operation.clock.enter(phase)
        return laid(operation)

    return run
