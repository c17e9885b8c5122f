"""Threads that wait for a disk, a database or a keyring, so that no loop is blocked."""

import asyncio
import contextvars
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """The result of the work, without blocking the loop.

    If the caller is cancelled, the work goes on, and its result is passed to `undo`.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    outcome: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(work))
        except BaseException as error:  # a thread's edge: the caller gets whatever was raised
            outcome.set_exception(error)
        try:
            loop.call_soon_threadsafe(deliver)
        except RuntimeError:  # the loop is closed
            drop()

    def deliver() -> None:
        if ready.done():
            drop()
        else:
            ready.set_result(None)

    def drop() -> None:
        if undo is not None and outcome.exception() is None:
            undo(outcome.result())

    # A daemon thread, so that the program can exit while the work waits for something.
    Thread(target=run, name="toolbus tokens", daemon=True).start()
    try:
        await ready
    except BaseException:
        if ready.done() and not ready.cancelled():  # cancelled after the result was there
            drop()
        raise
    return outcome.result()


async def to_its_end(write: Coroutine[Any, Any, T]) -> T:
    """The result of a write; waits for it also when cancelled, because the caller then releases its lock."""
    task = asyncio.ensure_future(write)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # taken, or it would be logged
        raise


_JOIN_SECONDS = 5.0


class LoopThread:
    """Runs coroutines; the thread is started when it is first needed, and again after `stop`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._process = 0
        """The process that has the thread; a fork of it does not."""
        self._guard = Lock()

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
                self._thread = Thread(target=_run, args=(started,), name="toolbus store", daemon=True)
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
