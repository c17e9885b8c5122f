"""The log of the bus on the stderr of a client, for `-v`; a terminal that stands still holds up nobody."""

import logging
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TextIO

MAX_WAITING = 10_000
"""Lines that wait for the terminal; more are left out."""
_shown: list["ClientLog"] = []
_levels: dict[str, int] = {}
"""The levels of the loggers without us."""
_lock = Lock()


class ClientLog:
    """Writes what the bus logs to a stream until it is closed, in a thread of its own."""

    def __init__(self, stream: TextIO, level: int) -> None:
        from toolbus.cli.output.screen import log_formatter, loggers

        self._stream = stream
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self.level = level
        self._names = loggers(level)
        self._handler = _QueueHandler(self._lines, level)
        self._handler.setFormatter(log_formatter())
        self._thread = Thread(target=self._write, name="toolbus-log", daemon=True)
        self._thread.start()
        with _lock:
            _shown.append(self)
            for name in self._names:
                logging.getLogger(name).addHandler(self._handler)
            _set_levels(self._names)

    def close(self) -> None:
        """Write what is left, and stop."""
        with _lock:
            _shown.remove(self)
            for name in self._names:
                logging.getLogger(name).removeHandler(self._handler)
            _set_levels(self._names)
        self._lines.put(None)
        self._thread.join()

    def shows(self, name: str) -> bool:
        """Whether it shows that logger."""
        return name in self._names

    def _write(self) -> None:
        with suppress(OSError, ValueError):  # the stream is closed
            while (line := self._lines.get()) is not None:
                self._stream.write(f"{line}\n")
                self._stream.flush()


class _QueueHandler(logging.Handler):
    def __init__(self, lines: "SimpleQueue[str | None]", level: int) -> None:
        super().__init__(level)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() < MAX_WAITING:
            self._lines.put(self.format(record))


def _set_levels(names: tuple[str, ...]) -> None:
    """Have each logger pass what one of the clients wants to see."""
    for name in names:
        logger = logging.getLogger(name)
        own = _levels.setdefault(name, logger.level)
        wanted = [log.level for log in _shown if log.shows(name)]
        logger.setLevel(min(wanted) if wanted else own)
