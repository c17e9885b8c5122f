"""Start a process: when it is its turn, and below the guard or as a process group.

Only as many servers start at once as the machine can carry. A process has its turn until it is connected, has
failed, or no longer works: it waits for input, or for the network. A turn never takes longer than
`LONGEST_TURN`, so a server that hangs does not block the others.

Either way of starting has a helper process. It starts with the first server and ends with the last bus.
"""

import asyncio
import logging
import os
import weakref
from collections import deque
from contextlib import suppress
from weakref import WeakKeyDictionary

from toolbus.connect.forks import detach_after_fork
from toolbus.connect.opening.diagnostics import Diagnostics
from toolbus.connect.transports.process.child import Child, ChildEvents, Launch
from toolbus.connect.transports.process.grouped import reaper, spawn_grouped
from toolbus.connect.transports.process.guarded import GuardUnavailable, can_guard, guard, spawn_guarded
from toolbus.core.loop import Flag

logger = logging.getLogger("toolbus")
END_TIMEOUT = 1.0
"""Seconds to wait for the end of a helper; one that takes longer still ends."""
END_INTERVAL = 0.005


async def start_child(events: ChildEvents, launch: Launch) -> Child:
    if can_guard():
        try:
            return await spawn_guarded(events, launch)
        except GuardUnavailable as error:
            logger.debug("the guard of the servers cannot be used: %s", error)
    return await spawn_grouped(events, launch)


class Helpers:
    """The guard and the reaper, for as long as somebody in this process uses them."""

    def __init__(self) -> None:
        self._users: weakref.WeakSet[object] = weakref.WeakSet()

    def use(self, user: object) -> None:
        """Keep a helper that runs until `user` releases it; none is started here."""
        self._users.add(user)
        detach_after_fork(self)

    async def release(self, user: object) -> None:
        """End the helpers, and wait for that, if there is no other user."""
        self._users.discard(user)
        if not self._users:
            for helper in (guard, reaper):
                if (pid := helper.end()) and await _has_ended(pid):
                    helper.forget_ended(pid)

    def fds(self) -> list[int]:
        """In a fork, forget the users: they belong to the parent."""
        self._users.clear()
        return []


helpers = Helpers()


async def _has_ended(pid: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(END_TIMEOUT):
            while _is_running(pid):  # noqa: ASYNC110  # not every system reports the end of a process
                await asyncio.sleep(END_INTERVAL)
            return True
    return False


def _is_running(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # the program waits for all of its children itself
        return False


PER_CORE, FEWEST = 2, 4
"""The number of processes that start at once."""
LONGEST_TURN = 10.0
IDLE_AFTER = 0.25
"""Seconds without work after which a process has started, as far as the machine is concerned."""
CHECK_INTERVAL = 0.15


class StartTurn:
    """The turn of one process to start."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._queue: _Queue | None = None
        self._changed = Flag()
        self._ends_at = 0.0

    async def wait(self) -> None:
        """Wait until it begins, or `end` is called."""
        if self._queue is None:
            self._queue = _queue_of(asyncio.get_running_loop())
            self._diagnostics.queued = True
            self._queue.join(self)
        await self._changed.wait()

    def begin(self, now: float) -> None:
        self._ends_at = now + LONGEST_TURN
        self._diagnostics.queued = False
        self._diagnostics.mark_active()
        self._changed.set()

    def end(self) -> None:
        """The process has started, or does not have to; any number of times."""
        self._diagnostics.queued = False
        self._changed.set()
        if self._queue is not None:
            self._queue.leave(self)

    def is_over(self, now: float) -> bool:
        """Whether the next process may start, although this one is not connected yet."""
        is_idle = self._diagnostics.pid is not None and self._diagnostics.inactive >= IDLE_AFTER
        return is_idle or now >= self._ends_at


class _Queue:
    """The turns in one event loop, which it does not keep alive."""

    def __init__(self) -> None:
        self._most = max(FEWEST, PER_CORE * _cores())
        self._running: set[StartTurn] = set()
        self._waiting: deque[StartTurn] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def join(self, turn: StartTurn) -> None:
        self._waiting.append(turn)
        self._advance()

    def leave(self, turn: StartTurn) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        self._running.discard(turn)
        self._advance()

    def _advance(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._most:
            turn = self._waiting.popleft()
            self._running.add(turn)
            turn.begin(loop.time())
        if self._waiting and self._timer is None:
            self._timer = loop.call_later(CHECK_INTERVAL, self._check)

    def _check(self) -> None:
        self._timer, now = None, asyncio.get_running_loop().time()
        self._running = {turn for turn in self._running if not turn.is_over(now)}
        self._advance()


_queues: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]" = WeakKeyDictionary()


def _queue_of(loop: asyncio.AbstractEventLoop) -> _Queue:
    if loop not in _queues:
        _queues[loop] = _Queue()
    return _queues[loop]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
