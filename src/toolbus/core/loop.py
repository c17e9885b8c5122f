"""The loop a bus lives on, and the way there from any other loop or thread."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolbus.core.errors import BusClosed

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that a loop may take to give a sign of life to a thread that wants to wait for it."""


class OwnerLoop:
    """The running loop at the moment it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """Whether the caller runs on this loop."""
        return asyncio.get_running_loop() is self._loop

    @property
    def alive(self) -> bool:
        """Whether the loop still runs; on one that does not, nothing would ever come back."""
        return self._loop.is_running() and self._process == os.getpid()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the home loop, wherever the caller is; cancelling the caller cancels it there."""
        if self.here:
            return await work
        there = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return await asyncio.wrap_future(there)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled us: the home loop ended under the call.
            raise BusClosed() from None

    def soon(self, work: Callable[[], None]) -> None:
        """Call it on the home loop: now if the caller is there, else as soon as the loop comes to it."""
        if threading.get_ident() == self._thread:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the home loop and wait, in a thread without a loop; an interrupt cancels it there."""
        if not self._turns():
            work.close()
            raise RuntimeError(
                "the loop of the bus is blocked, so that a call from another thread would never end: "
                "await the call (ainvoke, arun), run the agent in a thread (asyncio.to_thread), "
                "or use SyncToolbus"
            )
        there = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return there.result()
        except BaseException:
            there.cancel()
            raise

    def _turns(self) -> bool:
        """Whether the loop runs callbacks; one that waits for this very thread does not."""
        if threading.get_ident() == self._thread:
            return False
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(PATIENCE)
