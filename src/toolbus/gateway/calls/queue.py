"""The call queue: limits per user and per server, and fair turns for the others.

A call that finds room is made at once. Otherwise it waits. The queue is fair: if a user has many waiting
calls, another user's next call still comes before the second of them. Waiting is bounded, in number and in
time. A call beyond the limits is refused with a time to retry (`Busy`), and the user with the most waiting
calls is refused first.
"""

import asyncio
import logging
import random
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, TypeAlias

from toolbus.core.ask.interactions import ClientError
from toolbus.core.operation.phases import QUEUED, QueueTime
from toolbus.core.operation.quota import Quota
from toolbus.core.text.display import counted
from toolbus.core.values.errors import INTERNAL_ERROR
from toolbus.gateway.protocol.words import BUSY, ProtocolError

logger = logging.getLogger("toolbus")

Why: TypeAlias = Literal["full", "late"]
"""The reason why a call is refused: too many wait, or it waited for too long."""
Limit: TypeAlias = Literal["max_per_user", "max_per_server", "max_concurrency"]
"""The setting because of which a call has to wait."""
REPORT_EVERY = 10.0
"""Seconds between two reports of refused calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The maximum numbers of concurrent and waiting calls."""

    per_user: int = 256
    per_server: int = 128
    """Less than `per_user`: a server that hangs leaves room for calls of the same user to others."""
    waiting: int = 512
    """Calls that wait; nobody has more of them than there is room left."""
    wait_seconds: float = 10.0
    """The maximum waiting time of a call."""


class Busy(ProtocolError):
    """A call that cannot be made now; nothing was sent to its server."""

    def __init__(self, server: str, why: Why, limit: Limit, most: int) -> None:
        """Not made because `most` calls of the user, or to the server, were already in flight."""
        self.server = server
        self.why = why
        self.limit = limit
        # Not the same for all, or they would all be back at the same moment.
        self.retry_after = random.randint(1, 3)
        who = "you have" if limit == "max_per_user" else f"server {server!r} has"
        waited = "too many wait (max_waiting)" if why == "full" else "this one waited too long (max_wait)"
        reason = f"{who} {counted(most, 'call')} in flight, the most at a time ({limit}), and {waited}"
        message = f"{reason}; the call was not made, try again in {self.retry_after} s"
        super().__init__(BUSY, message, {"retryAfter": self.retry_after, "limit": limit})


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A call that waits."""

    number: int
    """Grows from call to call."""
    came: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class ServerCalls:
    """The calls to one server."""

    running: int = 0
    waiting: int = 0
    queued: int = 0
    """The number of calls that had to wait so far, including refused ones."""
    seconds: float = 0.0
    """The total time that they waited."""
    refused: Counter[Why] = field(default_factory=Counter[Why])
    limit: int = 0
    """The maximum number of concurrent calls."""
    questions: Quota = field(default_factory=lambda: Quota(sys.maxsize))
    """The open questions of the server to clients."""
    setting: Limit = "max_per_server"
    """The setting that defines the limit."""
    users: "OrderedDict[str, deque[_Turn]]" = field(default_factory=lambda: OrderedDict[str, deque[_Turn]]())
    """The waiting users in the order of their turns, each with its calls in the order of arrival."""


class CallQueue:
    """The calls of all users to all servers."""

    def __init__(self, limits: CallLimits | None = CallLimits()) -> None:
        """Without limits, no call waits."""
        most = sys.maxsize
        self._is_unlimited = limits is None
        self._limits = limits or CallLimits(per_user=most, per_server=most, waiting=most, wait_seconds=most)
        self._users: dict[str, int] = {}
        """The number of active calls of each user."""
        self._servers: dict[str, ServerCalls] = {}
        self._waiting = Quota(self._limits.waiting)
        self._numbers = count(1)
        self._unreported = 0
        """Refusals since the last report."""
        self._next_report = 0.0

    def __len__(self) -> int:
        return self._waiting.taken

    def __iter__(self) -> Iterator[tuple[str, ServerCalls]]:
        return iter(self._servers.items())

    def take(self, user: str, server: str, most: int | None = None) -> "Slot | None":
        """Room for a call, at once; None if there is none. The server takes at most `most` calls."""
        calls = self._servers.get(server)
        if calls is None:
            calls = self._servers[server] = ServerCalls()
        limit = self._limits.per_server
        if most is None or most > limit:
            calls.limit, calls.setting = limit, "max_per_server"
        else:
            calls.limit, calls.setting = most, "max_concurrency"
        running = self._users.get(user, 0)
        # Nobody waits who could go, so whoever could go need not look who waits.
        if calls.running >= calls.limit or running >= self._limits.per_user:
            return None
        calls.running += 1
        self._users[user] = running + 1
        return Slot(self, user, server)

    async def wait(self, user: str, server: str) -> "Slot":
        """Wait for room; raises `Busy` if too many wait, or if it takes too long."""
        calls = self._servers[server]
        own = calls.users.get(user)
        if not self._waiting.take(user):
            raise self._refused(calls, user, server, "full")
        if own is None:
            own = calls.users[user] = deque()
        turn = _Turn(next(self._numbers), asyncio.get_running_loop().create_future())
        own.append(turn)
        calls.waiting += 1
        calls.queued += 1
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await turn.came
        except TimeoutError:
            if turn.came.cancelled():  # else it came at the last moment
                raise self._refused(calls, user, server, "late") from None
        except asyncio.CancelledError:
            if not turn.came.cancelled():  # its turn has come, and its client is gone
                self.leave(user, server)
            raise
        finally:
            waited = time.monotonic() - began
            calls.seconds += waited
            QUEUED.set(QueueTime(waited))
            if turn in own:
                self._forget(calls, user, turn)
        return Slot(self, user, server)

    def leave(self, user: str, server: str) -> None:
        """A call has ended: the next one that finds room goes."""
        calls = self._servers[server]
        calls.running -= 1
        running = self._users[user] - 1
        if running:
            self._users[user] = running
        else:
            del self._users[user]
        if not self._waiting.taken:
            return
        if self._next_of_server(calls) != user:
            self._next_of_user(user)

    def ask(self, user: str, server: str, most: int) -> bool:
        """Count a question of a server in a call of a user; False if too many wait for the user's answers.

        The server may wait for `most` answers at a time, and further questions are ignored.
        """
        questions = self._servers[server].questions
        questions.most = sys.maxsize if self._is_unlimited else most
        return questions.take(user)

    def answered(self, user: str, server: str) -> None:
        """A question of a server was answered, or is not asked any more."""
        self._servers[server].questions.release(user)

    def join(self, user: str, server: str) -> None:
        """Count a call that goes on, room or not."""
        self._count(self._servers[server], user)

    # Turns

    def _next_of_server(self, calls: ServerCalls) -> str | None:
        """Let the next call to a server go; returns whose it is."""
        if calls.running >= calls.limit:
            return None
        for user in tuple(calls.users):
            if self._users.get(user, 0) < self._limits.per_user and self._go(calls, user):
                return user
        return None

    def _next_of_user(self, user: str) -> None:
        """Let a call of a user go who was held back by the calls to another server."""
        if self._users.get(user, 0) >= self._limits.per_user:
            return
        found = [one for one in self._servers.values() if user in one.users and one.running < one.limit]
        # The call that has waited longest.
        for calls in sorted(found, key=lambda one: one.users[user][0].number):
            if self._go(calls, user):
                return

    def _go(self, calls: ServerCalls, user: str) -> bool:
        """Let the next call of a user to a server go; False if all were given up."""
        while (own := calls.users.get(user)) is not None:
            turn = own[0]
            self._forget(calls, user, turn)
            if turn.came.done():  # given up, and its task has not noticed yet
                continue
            if user in calls.users:
                calls.users.move_to_end(user)
            self._count(calls, user)
            turn.came.set_result(None)
            return True
        return False

    def _count(self, calls: ServerCalls, user: str) -> None:
        calls.running += 1
        self._users[user] = self._users.get(user, 0) + 1

    def _forget(self, calls: ServerCalls, user: str, turn: _Turn) -> None:
        own = calls.users[user]
        own.remove(turn)
        if not own:
            del calls.users[user]
        calls.waiting -= 1
        self._waiting.release(user)

    def _refused(self, calls: ServerCalls, user: str, server: str, why: Why) -> Busy:
        calls.refused[why] += 1
        is_own = self._users.get(user, 0) >= self._limits.per_user
        busy = (
            Busy(server, why, "max_per_user", self._limits.per_user)
            if is_own
            else Busy(server, why, calls.setting, calls.limit)
        )
        self._report(user, server, busy)
        return busy

    def _report(self, user: str, server: str, busy: Busy) -> None:
        """Log a refusal, and how many there were since the last report."""
        self._unreported += 1
        now = time.monotonic()
        if now < self._next_report:
            return
        more = f", and {self._unreported - 1} before it" if self._unreported > 1 else ""
        what = "max_waiting" if busy.why == "full" else "max_wait"
        logger.warning(
            "a call of %r to server %r was refused%s: %s and %s are reached",
            user,
            server,
            more,
            busy.limit,
            what,
        )
        self._unreported, self._next_report = 0, now + REPORT_EVERY


class Slot:
    """The room of one call, until it is released."""

    __slots__ = ("_has_ended", "_lent", "_queue", "_server", "_user")

    def __init__(self, queue: CallQueue, user: str, server: str) -> None:
        self._queue = queue
        self._user = user
        self._server = server
        self._lent = 0
        self._has_ended = False

    def release(self) -> None:
        self._has_ended = True
        if not self._lent:
            self._queue.leave(self._user, self._server)

    def __enter__(self) -> None:
        """The call goes on within the block."""

    def __exit__(self, *raised: object) -> None:
        self.release()

    @contextmanager
    def asking(self, most: int) -> Generator[None]:
        """A question of the server, which may ask `most` at a time; `ClientError` if it is one too many."""
        if not self._queue.ask(self._user, self._server, most):
            problem = "too many questions wait for the answers of this user (limits.requests)"
            raise ClientError(INTERNAL_ERROR, problem)
        try:
            with self.lent():
                yield
        finally:
            self._queue.answered(self._user, self._server)

    @contextmanager
    def lent(self) -> Generator[None]:
        """While a person is asked, others have the room; the call then goes on at once."""
        if not self._lent and not self._has_ended:
            self._queue.leave(self._user, self._server)
        self._lent += 1
        try:
            yield
        finally:
            self._lent -= 1
            if not self._lent and not self._has_ended:
                self._queue.join(self._user, self._server)
