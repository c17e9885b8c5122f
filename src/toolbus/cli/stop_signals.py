"""The signals that end a command which runs until it is told to stop."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Stop:
    """The wish to stop: the first signal lets calls end, the second one does not."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.number = 0
        """The last signal."""
        self.is_forced = False
        self._task = asyncio.current_task()

    def take(self, number: int) -> None:
        """Take a signal."""
        self.is_forced, self.number = self.event.is_set(), number
        self.event.set()
        if self.is_forced and self._task is not None:
            self._task.cancel()


@contextmanager
def stop_signals() -> Generator[Stop]:
    """Take Ctrl-C and the signals that end a program until the block ends."""
    loop, stop = asyncio.get_running_loop(), Stop()
    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in known}
    for number in known:
        try:
            loop.add_signal_handler(number, stop.take, int(number))
        except NotImplementedError:  # Windows
            signal.signal(number, lambda given, _: loop.call_soon_threadsafe(stop.take, given))
    try:
        yield stop
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)
