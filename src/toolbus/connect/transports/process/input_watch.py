"""Notice that a server does not read its input.

A server that is busy may read late, so this takes patience: nothing was read for as long as a call may take,
and every request that was in flight has ended, so nobody waits for it any more. The pipe is looked at only
while there is a reason to: it is full, or a message was sent that no response confirms, as after a timeout.
"""

import asyncio
from collections.abc import Callable, Collection

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
        """Stop looking."""
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
