"""The event loop that owns a bus, how other loops and threads run code on it, and a flag to wait for."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolbus.core.values.errors import BusClosed

T = TypeVar("T")
RESPONSE_TIMEOUT = 10.0
"""Seconds within which the loop must run a callback before a thread waits for it."""


class OwnerLoop:
    """The event loop that was running when this object was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._process = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop."""
        return asyncio.get_running_loop() is self._loop

    @property
    def is_running(self) -> bool:
        """Whether the loop is still running, in this process; otherwise a call would never return."""
        return self._loop.is_running() and self._process == os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is the loop of another process, of which this one is a fork."""
        return self._process != os.getpid()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the owner loop, from any loop; cancelling the caller cancels it there."""
        if self.is_current:
            return await work
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The caller was not cancelled: the owner loop ended during the call.
            raise BusClosed() from None

    def call_soon(self, work: Callable[[], None]) -> None:
        """Call a function on the owner loop: now if the caller runs on it, else soon."""
        if threading.get_ident() == self._thread:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the owner loop and block until it is done; an interrupt cancels it there."""
        if not self._is_responsive():
            work.close()
            raise RuntimeError(
                "the bus's event loop is blocked, so this call would never return; "
                "await the call (ainvoke, arun), use a thread (asyncio.to_thread), or use SyncToolbus"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _is_responsive(self) -> bool:
        """Whether the loop runs callbacks; it does not if it is waiting for this thread."""
        if threading.get_ident() == self._thread:
            return False
        ran = threading.Event()
        self._loop.call_soon_threadsafe(ran.set)
        return ran.wait(RESPONSE_TIMEOUT)


class Flag:
    """As `asyncio.Event`, in a tenth of its memory: every link has several, and hardly ever a waiter."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        if self._is_set:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)
