"""Run until told to stop: the signals that end a command, and the work beside it."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

logger = logging.getLogger("toolbus")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
MARGIN = 10.0
"""Seconds to end the rest, once the time for calls in flight is over; a database may not respond."""
_AT_ONCE = 1.0
"""Seconds for an orderly end after a second signal. The guard of our servers ends the remaining ones."""


class Stop:
    """The wish to stop: the first signal lets calls end, the second one does not.

    The process then ends even if something hangs: see `limit`.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.number = 0
        """The last signal."""
        self.is_forced = False
        self.limit = 0.0
        """Seconds that the command gives calls in flight; the process ends at most `MARGIN` seconds later."""
        self._task = asyncio.current_task()

    def take(self, number: int) -> None:
        """Take a signal."""
        if self.event.is_set():
            self.end_at_once(number)
        else:
            self.begin(number)

    def begin(self, number: int) -> None:
        """Let calls end; nothing new if that was begun before."""
        if not self.number:
            threading.Thread(target=self._end_in_time, name="toolbus end", daemon=True).start()
        self.number = number
        self.event.set()

    def end_at_once(self, number: int) -> None:
        """Let nothing end."""
        self.is_forced, self.number = True, number
        self.event.set()
        _end_process_after(_AT_ONCE, number)
        if self._task is not None:
            self._task.cancel()

    def _end_in_time(self) -> None:
        began = time.monotonic()
        while (
            left := began + self.limit + MARGIN - time.monotonic()
        ) > 0:  # the limit may become known later
            time.sleep(min(left, 1.0))
        logger.warning("not everything ended within %g s; the process ends now", self.limit + MARGIN)
        os._exit(128 + self.number)


def _end_process_after(seconds: float, number: int) -> None:
    """End this process, if it is still there then; not by way of the loop, which may be stuck."""

    def end() -> None:
        time.sleep(seconds)
        os._exit(128 + number)

    threading.Thread(target=end, name="toolbus end", daemon=True).start()


_calls: dict[int, Callable[[], object]] = {}
"""The innermost function for each signal."""


@contextmanager
def signal_calls(number: int, call: Callable[[], object]) -> Generator[None]:
    """Call the function in the running loop when the signal comes, until the block ends; blocks nest."""
    loop, before, outer = asyncio.get_running_loop(), signal.getsignal(number), _calls.get(number)
    _call_on_signal(loop, number, call)
    try:
        yield
    finally:
        if outer is not None:
            _call_on_signal(loop, number, outer)
        else:
            del _calls[number]
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, before)


def _call_on_signal(loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], object]) -> None:
    def call_soon(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(call)

    _calls[number] = call
    try:
        loop.add_signal_handler(number, call)
    except NotImplementedError:  # Windows
        signal.signal(number, call_soon)


async def until_stopped(work: Callable[[Stop], Awaitable[int]], *, only_begin: bool = False) -> int:
    """Run work that ends when Ctrl-C or another signal tells it to stop; returns its exit code.

    A second signal ends it at once. With `only_begin`, it changes nothing: our parent may have received it,
    and decides when to stop at once.
    """
    stop = Stop()
    take = stop.begin if only_begin else stop.take
    with ExitStack() as stack:
        for name in SIGNALS:
            if (number := getattr(signal, name, None)) is not None:
                stack.enter_context(signal_calls(number, partial(take, int(number))))
        try:
            return await work(stop)
        except asyncio.CancelledError:
            if not stop.is_forced:
                raise
            return 128 + stop.number


async def run_until(ends: Sequence[Coroutine[Any, Any, Any]], *beside: Coroutine[Any, Any, None]) -> None:
    """Run all of it until one of `ends` does; an error of any ends all."""
    ending = [asyncio.ensure_future(work) for work in ends]
    tasks = {*ending, *map(asyncio.ensure_future, beside)}
    waiting = set(tasks)
    try:
        while not any(task.done() for task in ending):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
