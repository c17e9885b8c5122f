"""The terminal that a client passed to the background bus: its streams, folder, variables and signals."""

import asyncio
import errno
import logging
import os
import select
import signal
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BufferedReader, BufferedWriter, RawIOBase, TextIOWrapper
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TextIO

from toolbus.cli.terminal import StreamName

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

POLL_SECONDS = 0.5
"""The time between checks for signals, in a thread that waits for its client."""


class PassedTerminal:
    """A `Terminal`: used by the thread of the command, and fed by the loop of the bus."""

    ending: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    has_process = False

    def __init__(
        self,
        request: Mapping[str, Any],
        streams: tuple[int, int, int],
        send: Callable[[dict[str, Any]], None],
    ) -> None:
        self.cwd = Path(str(request.get("cwd", "/")))
        self.environ: Mapping[str, str] = dict(request.get("environ") or {})
        encodings: list[str] = request.get("encodings") or ["utf-8"] * 3
        reader = BufferedReader(_Input(streams[0], self.check_signals))
        self._streams: dict[StreamName, TextIO] = {
            "stdin": TextIOWrapper(reader, encodings[0]),
            "stdout": self._writer(streams[1], encodings[1], is_line_buffered=os.isatty(streams[1])),
            "stderr": self._writer(streams[2], encodings[2], is_line_buffered=True),
        }
        self._send = send
        self._lock = Lock()
        self._handlers: dict[int, list[Callable[[], object] | None]] = {}
        self._unhandled: list[int] = []
        self._is_gone = False
        self._awaited: set[Future[Any]] = set()
        self._log: ClientLog | None = None

    def _writer(self, stream: int, encoding: str, *, is_line_buffered: bool) -> TextIOWrapper:
        # A character that the terminal cannot show is escaped instead of raising an error.
        buffer = BufferedWriter(_Output(stream, self.check_reader))
        return TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=is_line_buffered)

    def stream(self, name: StreamName) -> TextIO:
        return self._streams[name]

    def opened(self, path: Path) -> Path:
        return self.cwd / path

    def finds_config(self) -> bool:
        """The client has found one."""
        return True

    # Signals

    @contextmanager
    def handling(self, number: int, call: Callable[[], object] | None) -> Generator[None]:
        """Call the function when the client gets the signal; one that came before counts."""
        with self._lock:
            handlers = self._handlers.setdefault(number, [])
            handlers.append(call)
            came = call is not None and number in self._unhandled
            if came:
                self._unhandled.remove(number)
        if came and call is not None:
            call()
        try:
            yield
        finally:
            with self._lock:
                handlers.pop()

    @contextmanager
    def signal_calls(self, number: int, call: Callable[[], object]) -> Generator[None]:
        loop = asyncio.get_running_loop()

        def call_in_loop() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call)

        with self.handling(number, call_in_loop):
            yield

    def suspending(self, call: Callable[[], object]) -> AbstractContextManager[None]:
        return self.handling(signal.SIGTSTP, call)

    def check_signals(self) -> None:
        with self._lock:
            number = self._unhandled.pop(0) if self._unhandled else None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number is not None:
            raise SystemExit(128 + number)

    def check_reader(self) -> None:
        """Raise for a signal that nobody handled, or if the client is gone."""
        if self._is_gone:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self.check_signals()

    def take(self, message: Mapping[str, Any]) -> None:
        """A message of the client, in the loop of the bus; an unknown one is ignored."""
        match message:
            case {"signal": int(number)} if number in tuple(signal.Signals):
                self.take_signal(number)
            case {"interrupted": int(number)}:
                self._settle(lambda answer: answer.set_exception(KeyboardInterrupt()))
                if number != signal.SIGINT:
                    self.take_signal(number)
            case {"line": str(line)}:
                self._settle(lambda answer: answer.set_result(line))
            case {"line": None}:
                self._settle(lambda answer: answer.set_exception(EOFError()))
            case {"undecodable": _}:
                error = UnicodeDecodeError("utf-8", b"", 0, 1, "not text")
                self._settle(lambda answer: answer.set_exception(error))
            case {"foreground": True}:
                self._settle(lambda answer: answer.set_result(""))
            case _:
                pass

    def take_signal(self, number: int) -> None:
        """A signal of the client, in the loop of the bus."""
        with self._lock:
            handlers = self._handlers.get(number)
            call = handlers[-1] if handlers else None
            if call is None and number != signal.SIGTSTP:
                self._unhandled.append(number)
        if call is not None:
            call()
        elif number == signal.SIGTSTP:
            self.suspended()  # nobody reads

    def lose_client(self) -> None:
        """The client is gone."""
        self._is_gone = True
        self._settle(lambda answer: answer.set_exception(EOFError()))
        self.take_signal(signal.SIGHUP)

    # What the client does for us

    def read_line(self, prompt: str) -> str:
        self._streams["stdout"].flush()
        answer = self._ask({"read": prompt})
        while True:
            with suppress(TimeoutError):
                return answer.result(POLL_SECONDS)
            self.check_signals()

    def suspended(self) -> None:
        self._send({"suspended": True})

    def claim(self) -> "Future[Any]":
        return self._ask({"claim": True})

    def is_in_foreground(self) -> bool:
        """Have the client come to the front, which stops it until it may."""
        self.claim().result()
        return True

    def _ask(self, message: dict[str, Any]) -> "Future[Any]":
        answer: Future[Any] = Future()
        with self._lock:
            self._awaited.add(answer)
        if self._is_gone:
            self._settle(lambda answer: answer.set_exception(EOFError()))
        else:
            self._send(message)
        return answer

    def _settle(self, settle: Callable[["Future[Any]"], None]) -> None:
        with self._lock:
            awaited, self._awaited = self._awaited, set()
        for answer in awaited:
            with suppress(InvalidStateError):  # nobody waits any more
                settle(answer)

    # The end

    def show_log(self, level: int, loggers: Iterable[str], formatter: logging.Formatter) -> None:
        self._log = self._log or ClientLog(self._streams["stderr"], level, tuple(loggers), formatter)

    def close(self) -> None:
        """Write the rest, and let go of the streams, so that their readers see the end."""
        if self._log is not None:
            self._log.close()
        for stream in reversed(self._streams.values()):
            # Nobody reads it any more, or waits for it.
            with suppress(OSError, ValueError, KeyboardInterrupt, SystemExit):
                stream.close()


class _Passed(RawIOBase):
    """A stream of a client: nobody waits for it whose client has pressed Ctrl-C, or is gone."""

    def __init__(self, stream: int, check: Callable[[], None]) -> None:
        self._stream = stream
        self._check = check

    def fileno(self) -> int:
        return self._stream

    def isatty(self) -> bool:
        return os.isatty(self._stream)

    def wait(self, event: int) -> None:
        """Wait until it is ready; raises what the check raises."""
        ready = select.poll()
        ready.register(self._stream, event)
        while not ready.poll(POLL_SECONDS * 1000):
            self._check()

    def close(self) -> None:
        if not self.closed:
            os.close(self._stream)
        super().close()


class _Input(_Passed):
    """Its stdin."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        self.wait(select.POLLIN)
        view = memoryview(buffer).cast("B")
        data = os.read(self._stream, len(view))
        view[: len(data)] = data
        return len(data)


class _Output(_Passed):
    """Its stdout or stderr."""

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        self.wait(select.POLLOUT)
        return os.write(self._stream, memoryview(data).cast("B")[: select.PIPE_BUF])  # more could block


MAX_WAITING = 10_000
"""Lines that wait for the terminal; more are left out."""
_shown: list["ClientLog"] = []
_levels: dict[str, int] = {}
"""The levels of the loggers without us."""
_lock = Lock()


class ClientLog:
    """Writes what the bus logs to a stream until it is closed, in a thread of its own."""

    def __init__(
        self, stream: TextIO, level: int, names: tuple[str, ...], formatter: logging.Formatter
    ) -> None:
        self._stream = stream
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self.level = level
        self._names = names
        self._handler = _QueueHandler(self._lines, level)
        self._handler.setFormatter(formatter)
        self._thread = Thread(target=self._write, name="toolbus-log", daemon=True)
        self._thread.start()
        with _lock:
            _shown.append(self)
            for name in self._names:
                logging.getLogger(name).addHandler(self._handler)
            _set_levels(self._names)

    def close(self) -> None:
        """Write the remaining lines, and stop."""
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
