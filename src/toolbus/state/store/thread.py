"""A loop in a thread of its own: a store is used by coroutines of any loop, and by code without one."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_JOIN_SECONDS = 5.0


class LoopThread:
    """Runs coroutines; the thread is started when it is first needed, and again after `stop`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        """The process that has the thread; a fork of it does not."""
        self._guard = threading.Lock()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, from any loop; cancelling the caller cancels it."""
        loop = self._running()
        if asyncio.get_running_loop() is loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, from a thread that may wait for it."""
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin to run a coroutine, from anywhere."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def stop(self) -> None:
        """End the thread, which runs nothing any more."""
        with self._guard:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_JOIN_SECONDS)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None or self._process != os.getpid():
                started: Future[asyncio.AbstractEventLoop] = Future()
                # Daemon: a store that was not closed must not keep the interpreter running.
                self._thread = threading.Thread(
                    target=_run, args=(started,), name="toolbus store", daemon=True
                )
                self._process = os.getpid()
                self._thread.start()
                self._loop = started.result()
            return self._loop


def _run(started: "Future[asyncio.AbstractEventLoop]") -> None:
    loop = asyncio.new_event_loop()
    loop.call_soon(started.set_result, loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:  # or who waits for one of them would do so forever
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_JOIN_SECONDS))
    finally:
        loop.close()
