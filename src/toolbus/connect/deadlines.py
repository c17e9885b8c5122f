"""The deadlines of the requests in flight on one connection; they pause while the user answers the server.

All of them share one timer, set to the earliest: a request that ends in time costs the loop no timer.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from toolbus.core.operation.operation import ReportProgress

ANSWERING: ContextVar[bool] = ContextVar("toolbus_answering", default=False)
"""Set in a handler that answers the server: the requests that it makes itself do not pause."""


class Deadline:
    """A time limit for the current task, in a `with` block; TimeoutError if it is exceeded."""

    __slots__ = ("_cancelling", "_deadlines", "_task", "end", "is_expired", "left", "seconds")

    def __init__(self, deadlines: "Deadlines", seconds: float) -> None:
        self._deadlines = deadlines
        self.seconds = seconds
        self.end = inf
        """The time when it ends, by the clock of the loop; never while it is paused, or once it has expired.
        """
        self.left: float | None = None
        """The seconds that it had left when it was paused."""
        self.is_expired = False

    @property
    def remaining(self) -> float:
        """The seconds that are left; infinite if it has not begun, or has expired."""
        return self.end - _now() if self.left is None else self.left

    def __enter__(self) -> "Deadline":
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if self.stop(error):
            raise TimeoutError from error

    def start(self) -> float:
        """Begin; returns the time, by the clock of the loop."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a request is made in a task"
        self._task, self._cancelling = task, task.cancelling()
        now = loop.time()
        self._deadlines.add(self, now)
        return now

    def stop(self, error: BaseException | None) -> bool:
        """End; returns whether it is the deadline that interrupted the task, with this error."""
        self._deadlines.running.discard(self)
        # As in `asyncio.timeout`: if the caller cancelled the task as well, that counts.
        return (
            self.is_expired
            and self._task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        )

    def expire(self) -> None:
        """Interrupt the task."""
        self.end, self.is_expired = inf, True
        self._task.cancel()


class Deadlines:
    """A deadline for each request."""

    def __init__(self) -> None:
        self.running: set[Deadline] = set()
        """The deadlines of the requests in flight."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_end = inf
        self._pauses = 0
        """The number of answers in progress."""
        self._paused_at = 0.0
        self._paused_before = 0.0
        self._expiring = False

    @property
    def busy(self) -> bool:
        """Whether a request is in flight, or an answer in progress."""
        return bool(self.running or self._pauses)

    @property
    def paused_seconds(self) -> float:
        """The time that the deadlines have been paused so far."""
        return self._paused_before + (_now() - self._paused_at if self._pauses else 0.0)

    def limit(self, seconds: float) -> Deadline:
        """A limit for a request, to be used in a `with` block."""
        return Deadline(self, seconds)

    def add(self, deadline: Deadline, now: float) -> None:
        """Let a deadline begin now, by the clock of the loop."""
        self.running.add(deadline)
        if self._pauses and not ANSWERING.get():
            deadline.left = deadline.seconds
            return
        deadline.end = end = now + deadline.seconds
        if end < self._timer_end:
            self._set_timer(end)

    def extend(self, deadline: Deadline, seconds: float, latest: float) -> None:
        """Give a request that many seconds from now, until `latest` (loop time) at most."""
        if deadline.left is not None:
            deadline.left = min(seconds, max(0.0, latest - _now()))
        elif deadline in self.running and not deadline.is_expired and not self._expiring:
            self._set_end(deadline, min(_now() + seconds, latest))

    def extending(
        self, deadline: Deadline, max_timeout: float, report: ReportProgress | None
    ) -> ReportProgress:
        """A progress callback that extends a deadline, up to `max_timeout` seconds in all, and reports."""
        seconds, last = deadline.seconds, _now() + max(max_timeout, deadline.seconds)
        paused_before = self.paused_seconds

        async def extend_and_report(progress: float, total: float | None, message: str | None) -> None:
            self.extend(deadline, seconds, last + self.paused_seconds - paused_before)
            if report is not None:
                await report(progress, total, message)

        return extend_and_report

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause all deadlines; they resume when the last such block ends."""
        if self._pauses == 0:
            self._paused_at = _now()
        self._pauses += 1
        for deadline in self.running:
            if deadline.end != inf and not self._expiring:
                deadline.left, deadline.end = deadline.end - _now(), inf
        token = ANSWERING.set(True)
        try:
            yield
        finally:
            ANSWERING.reset(token)
            self._pauses -= 1
            if self._pauses == 0:
                self._paused_before += _now() - self._paused_at
                for deadline in self.running:
                    if deadline.left is not None:
                        self._set_end(deadline, _now() + deadline.left)

    def expire(self, seconds: float) -> None:
        """Let every request in flight time out in that many seconds, paused or not."""
        self._expiring = True
        for deadline in self.running:
            if not deadline.is_expired:
                self._set_end(deadline, _now() + seconds)

    def _set_end(self, deadline: Deadline, end: float) -> None:
        deadline.end, deadline.left = end, None
        if end < self._timer_end:
            self._set_timer(end)

    def _set_timer(self, end: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_end = asyncio.get_running_loop().call_at(end, self._check), end

    def _check(self) -> None:
        """Interrupt the requests whose time is over; wait for the next one."""
        now, self._timer, self._timer_end = max(_now(), self._timer_end), None, inf
        for deadline in self.running:
            if deadline.end <= now:
                deadline.expire()
        if (end := min((deadline.end for deadline in self.running), default=inf)) != inf:
            self._set_timer(end)


def _now() -> float:
    return asyncio.get_running_loop().time()
