"""The signals of a client of the background bus, which it passes on."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ClientSignals:
    """The signals that we get, as bytes to wait for: one must not be sent in the middle of a message."""

    def __enter__(self) -> None:
        self._reader, self._writer = _pipe()
        self._before = {number: signal.signal(number, _ignore) for number in (*ENDING, signal.SIGTSTP)}
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        """For `select`."""
        return self._reader

    def received(self) -> bytes:
        """The numbers of those that came."""
        return os.read(self._reader, 64)

    @contextmanager
    def raising(self) -> Generator[None]:
        """Let them interrupt a person who types a line."""
        signal.set_wakeup_fd(-1)
        before = {number: signal.signal(number, _raise) for number in ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)


class SignalCame(BaseException):
    """A signal came while a line was typed."""

    def __init__(self, number: int) -> None:
        self.number = number


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer


def _ignore(number: int, frame: FrameType | None) -> None:
    """Its number is in the pipe."""


def _raise(number: int, frame: FrameType | None) -> None:
    raise SignalCame(number)
