"""The calls of a bus, as its console remembers them: those in flight, the last ones, and counts for charts.

It observes every operation: what it keeps is bounded, and it costs a call a few microseconds.
"""

import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log2
from operator import add
from threading import Lock
from typing import Literal, TypeAlias

from toolbus.audit.trail import REQUESTS
from toolbus.config.secrets.redact import redacted_by_all
from toolbus.core.operation.events import Reason
from toolbus.core.operation.operation import Caller, Failure, Operation
from toolbus.core.values.records import OWN, ToolResult

MOST_CALLS = 200
"""How many calls are remembered after their end."""
MINUTES = 15
"""How far back the counts go."""
STEP = 10
"""Seconds that one point of a chart stands for."""
LONGEST_TEXT = 500
"""Characters of a name or an error that are kept."""
_WINDOW = MINUTES * 60
_BUCKETS = 128
_PER_DOUBLING = 4
"""A bucket of durations is 19 % wider than the one before; the first ends after a microsecond."""
_UNSENT: frozenset[Reason] = frozenset({"refused", "invalid_arguments", "not_json", "unknown_tool"})
"""Failures that no server took time for."""
Outcome: TypeAlias = Literal["ok", "pending"] | Reason
"""`pending`: a question waits for its answer, or the server goes on with it as a task."""
Clock: TypeAlias = Callable[[], float]


class CallRecord:
    """One call, or another request to a server; also its observation."""

    ignores_progress = True

    def __init__(self, log: "CallLog", operation: Operation, began: float) -> None:
        spec = operation.spec
        server, name = spec.origin.server, spec.name
        self.id = operation.id
        self.route = spec.route
        if server == OWN:
            server = str(operation.server)
        if spec.route != "tools/call" or not server:  # a URI, or a name that nobody knows
            name = redacted_by_all(name)
        self.name: str = name if len(name) <= LONGEST_TEXT else _cut(name)
        self.server = server if len(server) <= LONGEST_TEXT else _cut(server)
        """Empty for an unknown tool."""
        self.caller: Caller = operation.caller
        self.at = time.time()
        self.began = began
        """By the clock of the log."""
        self.elapsed: float | None = None
        """Seconds, without those in which a person was asked; None while it is in flight."""
        self.outcome: Outcome | None = None
        self.error: str | None = None
        """The message of a failure; None if there is none, or if the tool itself reported an error."""
        self._log = log
        self._operation: Operation | None = operation

    @property
    def asked(self) -> float:
        """Seconds in which a person was asked so far; for a call in flight."""
        people = None if self._operation is None else self._operation.people
        return 0.0 if people is None else people.seconds

    @property
    def is_error(self) -> bool:
        return self.outcome not in (None, "ok", "pending")

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Not remembered."""

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self._log.end(self, result, failure)
        self._operation = None  # with its arguments, which are not remembered


class _Second:
    """The calls that ended in one second."""

    __slots__ = ("at", "calls", "durations", "errors")

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0
        self.errors = 0
        self.durations = array("I", bytes(_BUCKETS * array("I").itemsize))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What ended within some seconds."""

    calls: int = 0
    errors: int = 0
    p50: float | None = None
    """Seconds within which half of the calls ended; None if none was sent."""
    p95: float | None = None


class CallLog:
    """Remembers calls; observed operations may come from any thread."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._in_flight: dict[int, CallRecord] = {}
        """By the ids of their operations."""
        self._ended: deque[CallRecord] = deque(maxlen=MOST_CALLS)
        self._seconds: deque[_Second] = deque(maxlen=_WINDOW + 1)
        """Only those in which a call ended, the newest last."""
        self._lock = Lock()

    # As an observer

    def start(self, operation: Operation, /) -> CallRecord | None:
        """Remember an operation; what servers ask meanwhile is on another page."""
        if operation.spec.route in REQUESTS:
            return None
        record = CallRecord(self, operation, self._clock())
        self._in_flight[operation.id] = record
        return record

    def end(self, record: CallRecord, result: ToolResult | None, failure: Failure | None) -> None:
        now = self._clock()
        self._in_flight.pop(record.id, None)
        record.elapsed = elapsed = now - record.began - record.asked
        if failure is not None:
            record.outcome = failure.reason
            if failure.error:
                record.error = _cut(redacted_by_all(failure.error))
        else:
            record.outcome = "ok" if result is None or result.pending is None else "pending"
        at = int(now)
        with self._lock:
            self._ended.append(record)
            second = self._seconds[-1] if self._seconds else None
            if second is None or second.at < at:
                second = _Second(at)
                self._seconds.append(second)
            second.calls += 1
            second.errors += failure is not None
            if failure is None or failure.reason not in _UNSENT:
                second.durations[_bucket(elapsed)] += 1

    # What pages show

    @property
    def in_flight(self) -> list[CallRecord]:
        """The calls that have not ended, the newest first."""
        return list(self._in_flight.values())[::-1]

    @property
    def ended(self) -> list[CallRecord]:
        """The last calls that ended, the newest first."""
        with self._lock:
            return list(self._ended)[::-1]

    def running_for(self, record: CallRecord) -> float:
        """Seconds that a call has taken so far, or took."""
        if record.elapsed is not None:
            return record.elapsed
        return self._clock() - record.began - record.asked

    def last(self, seconds: int) -> Counts:
        """The counts of the last seconds, at most of 15 minutes."""
        now = int(self._clock())
        return _counted(second for second in self._copied() if second.at > now - seconds)

    def steps(self) -> list[Counts]:
        """The counts of the last 15 minutes, for each 10 s, the oldest first; the last step goes on."""
        last, known = int(self._clock()) // STEP, dict[int, list[_Second]]()
        for second in self._copied():
            known.setdefault(second.at // STEP, []).append(second)
        return [_counted(known.get(step, ())) for step in range(last - _WINDOW // STEP + 1, last + 1)]

    def _copied(self) -> list[_Second]:
        with self._lock:
            return list(self._seconds)


def _bucket(elapsed: float) -> int:
    microseconds = elapsed * 1e6
    return min(_BUCKETS - 1, int(_PER_DOUBLING * log2(microseconds)) + 1) if microseconds > 1 else 0


def _counted(seconds: Iterable[_Second]) -> Counts:
    calls = errors = 0
    durations = [0] * _BUCKETS
    for second in seconds:
        calls += second.calls
        errors += second.errors
        durations = list(map(add, durations, second.durations))
    return Counts(
        calls=calls, errors=errors, p50=_percentile(durations, 0.5), p95=_percentile(durations, 0.95)
    )


def _percentile(durations: list[int], share: float) -> float | None:
    """The middle of the bucket in which that share of the calls is reached."""
    wanted, reached = sum(durations) * share, 0
    for bucket, count in enumerate(durations):
        reached += count
        if count and reached >= wanted:
            return 2 ** ((bucket - 0.5) / _PER_DOUBLING) / 1e6
    return None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
