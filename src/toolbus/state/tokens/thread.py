"""Wait for a disk, or for a keyring that waits for its user, without blocking the loop."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
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
