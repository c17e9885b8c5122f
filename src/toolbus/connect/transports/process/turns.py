"""Turns to start: of many servers, only as many start at once as the machine can carry.

A process has its turn until it is connected, has failed, or no longer works: it waits for input, or for the
network. A turn never takes longer than `LONGEST_TURN`, so a server that hangs does not hold up the others.
"""

import asyncio
import os
from collections import deque
from weakref import WeakKeyDictionary

from toolbus.connect.opening.diagnostics import Diagnostics

PER_CORE, FEWEST = 2, 4
"""How many processes start at once."""
LONGEST_TURN = 10.0
IDLE_AFTER = 0.25
"""Seconds without work after which a process has started, as far as the machine is concerned."""
CHECK_INTERVAL = 0.15


class StartTurn:
    """The turn of one process to start."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._queue: _Queue | None = None
        self._changed = asyncio.Event()
        self._ends_at = 0.0

    async def wait(self) -> None:
        """Wait until it begins, or `end` is called."""
        if self._queue is None:
            self._queue = _queue_of(asyncio.get_running_loop())
            self._diagnostics.queued = True
            self._queue.join(self)
        await self._changed.wait()

    def begin(self, now: float) -> None:
        """Let the process start."""
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
