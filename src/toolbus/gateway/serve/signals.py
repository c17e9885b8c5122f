"""The signals that end a command which runs until it is told to stop."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

logger = logging.getLogger("toolbus")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
MARGIN = 10.0
"""Seconds to end what remains, once the time for calls in flight is over; a database may not respond."""
_AT_ONCE = 1.0
"""Seconds to end what ends by itself, after a second signal. The guard of our servers ends those left."""


class Stop:
    """The wish to stop: the first signal lets calls end, the second one does not.

    Whatever hangs then, the process ends: see `limit`.
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


@contextmanager
def stop_signals(*, only_begin: bool = False) -> Generator[Stop]:
    """Take Ctrl-C and the signals that end a program until the block ends.

    With `only_begin`, a second one changes nothing: who sends them may send them to our parent, too, which
    decides when it is enough.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    take = stop.begin if only_begin else stop.take
    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in known}
    for number in known:
        try:
            loop.add_signal_handler(number, take, int(number))
        except NotImplementedError:  # Windows
            signal.signal(number, lambda given, _: loop.call_soon_threadsafe(take, given))
    try:
        yield stop
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)
