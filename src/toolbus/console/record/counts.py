"""Counts for charts: how many calls ended, how many failed, and how long their servers took."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import NamedTuple

from toolbus.audit.history.read import StepCount
from toolbus.audit.history.record import seconds_of

MOST_SERVERS = 500
"""Servers that are counted by themselves."""


class TimeRange(NamedTuple):
    """A span of time that a chart can show."""

    label: str
    seconds: int
    step: int
    """The seconds that one of its points stands for."""

    @property
    def steps(self) -> int:
        return self.seconds // self.step


RANGES: Mapping[str, TimeRange] = {
    "15m": TimeRange("15 min", 900, 10),
    "1h": TimeRange("1 h", 3_600, 60),
    "24h": TimeRange("24 h", 86_400, 900),
    "7d": TimeRange("7 d", 604_800, 7_200),
}
IN_MEMORY = ("15m", "1h", "24h")
"""The ranges that need no history."""
DEFAULT_RANGE = "15m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The calls that ended within some time."""

    calls: int = 0
    errors: int = 0
    p50: float | None = None
    """Seconds within which the servers of half of the calls answered; None if none was sent."""
    p95: float | None = None


class _Step:
    __slots__ = ("calls", "durations", "errors", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = self.errors = 0
        self.durations: dict[int, int] = {}
        """The number of calls in each bucket of durations (`bucket_of`)."""


class _Series:
    """The steps of one server in each range."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges = [(RANGES[key].step, deque[_Step](maxlen=RANGES[key].steps)) for key in IN_MEMORY]

    def add(self, now: int, is_error: bool, bucket: int | None) -> None:
        for seconds, steps in self._ranges:
            number = now // seconds
            step = steps[-1] if steps else None
            if step is None or step.number < number:
                step = _Step(number)
                steps.append(step)
            step.calls += 1
            step.errors += is_error
            if bucket is not None:
                step.durations[bucket] = step.durations.get(bucket, 0) + 1

    def of(self, range_: TimeRange) -> list[_Step]:
        return next(list(steps) for seconds, steps in self._ranges if seconds == range_.step)


class CallCounts:
    """The counts of all servers together, and of each; for any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._series: dict[str, _Series] = {"": _Series()}
        self._lock = Lock()

    def add(self, server: str, *, is_error: bool, bucket: int | None) -> None:
        """Count a call that ended; the bucket of its server's time is None if nothing was sent."""
        now = int(self._clock())
        with self._lock:
            self._series[""].add(now, is_error, bucket)
            if not server:
                return
            series = self._series.get(server)
            if series is None:
                if len(self._series) > MOST_SERVERS:
                    return
                series = self._series[server] = _Series()
            series.add(now, is_error, bucket)

    def last(self, seconds: int, server: str = "") -> Counts:
        """The calls of about the last seconds, in steps of ten."""
        range_ = RANGES["15m"] if seconds <= RANGES["15m"].seconds else RANGES["1h"]
        first = int(self._clock()) // range_.step - seconds // range_.step
        return _counts(step for step in self._steps(server, range_) if step.number > first)

    def steps(self, key: str = DEFAULT_RANGE, server: str = "") -> list[Counts]:
        """The calls of each step of a range, the oldest first; the last step goes on."""
        range_ = RANGES[key]
        return _aligned(self._steps(server, range_), int(self._clock()) // range_.step, range_)

    def _steps(self, server: str, range_: TimeRange) -> list[_Step]:
        with self._lock:
            series = self._series.get(server)
            return [] if series is None else series.of(range_)


def counts_of(recorded: Iterable[StepCount], now: float, key: str) -> list[Counts]:
    """The same from a history."""
    range_, steps = RANGES[key], dict[int, _Step]()
    for number, bucket, calls, errors in recorded:
        step = steps.setdefault(number, _Step(number))
        step.calls += calls
        step.errors += errors
        if bucket is not None:
            step.durations[bucket] = step.durations.get(bucket, 0) + calls
    return _aligned(steps.values(), int(now) // range_.step, range_)


def whole(steps: Iterable[Counts]) -> tuple[int, int]:
    """The calls and the errors of all steps."""
    found = list(steps)
    return sum(step.calls for step in found), sum(step.errors for step in found)


def _aligned(steps: Iterable[_Step], last: int, range_: TimeRange) -> list[Counts]:
    known = {step.number: step for step in steps}
    return [
        _counts([known[number]] if number in known else ())
        for number in range(last - range_.steps + 1, last + 1)
    ]


def _counts(steps: Iterable[_Step]) -> Counts:
    calls = errors = 0
    durations: dict[int, int] = {}
    for step in steps:
        calls += step.calls
        errors += step.errors
        for bucket, count in tuple(step.durations.items()):
            durations[bucket] = durations.get(bucket, 0) + count
    if not calls:
        return _NONE
    buckets = sorted(durations)
    reached = list(accumulate(durations[bucket] for bucket in buckets))
    return Counts(
        calls=calls,
        errors=errors,
        p50=_percentile(buckets, reached, 0.5),
        p95=_percentile(buckets, reached, 0.95),
    )


_NONE = Counts()


def _percentile(buckets: list[int], reached: list[int], share: float) -> float | None:
    """The middle of the bucket in which that share of the calls is reached."""
    wanted = reached[-1] * share if reached else 0
    return next(
        (seconds_of(bucket) for bucket, count in zip(buckets, reached, strict=True) if count >= wanted), None
    )
