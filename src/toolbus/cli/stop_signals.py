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
        if self.event.is_set():
            self.end_at_once(number)
        else:
            self.begin(number)

    def begin(self, number: int) -> None:
        """Let calls end; nothing new if that was begun before."""
        self.number = number
        self.event.set()

    def end_at_once(self, number: int) -> None:
        """Let nothing end."""
        self.is_forced, self.number = True, number
        self.event.set()
        if self._task is not None:
            self._task.cancel()


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
