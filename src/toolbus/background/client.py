"""Run a command in the background bus: pass it our streams and signals, and end with its exit code."""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from toolbus.background.place import BusPlace, config_file, places
from toolbus.background.protocol import Messages, ProtocolViolation, check_peer, process_of, send
from toolbus.core import version

VARIABLES = (
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "TOOLBUS_CONFIG",
    "TOOLBUS_MODEL",
)
"""The variables of our environment that a command needs; everything else comes from `toolbus up`."""
FAILED = 1
STREAMS = (0, 1, 2)
ACCEPTED_WITHIN = 5.0
"""Seconds until we say that the bus does not answer."""
SUSPENDED_WITHIN = 5.0
"""Seconds after which Ctrl-Z stops us even if the bus does not answer."""


def run_in_background(config: str | None, words: Sequence[str], profile: str | None = None) -> int | None:
    """The exit code of the command with this config and profile; None if it has to run by itself."""
    _fill_closed_streams()
    try:
        folder = os.getcwd()
        file = config_file(config)
    except OSError:  # the folder is gone, which the command itself reports
        return None
    try:
        found = None if file is None else running_bus(file, profile)
        if found is None:
            return None
        place, connection = found
        with connection:
            return _Client(place, connection).run(words, folder)
    except ProtocolViolation as error:
        _say(f"{error}; this command runs without the background bus")
        return None


def running_bus(file: Path, profile: str | None = None) -> tuple[BusPlace, socket.socket] | None:
    """A connection to the background bus of a config, if one runs; reports one that has crashed."""
    try:
        known = places(file, profile)
    except OSError:  # nowhere to keep it
        return None
    for place in known:
        if not place.socket.exists():
            continue
        try:
            connection = place.connect()
            check_peer(connection)
        except (ConnectionRefusedError, FileNotFoundError):
            if _remove_stale(place):
                _say(
                    "the background bus has ended unexpectedly; start it again with 'toolbus up' "
                    f"(its log is {place.log})"
                )
        except OSError as error:
            _say(f"the background bus cannot be reached ({error.strerror}); this command runs without it")
        else:
            return place, connection
    return None


def _remove_stale(place: BusPlace) -> bool:
    """Remove the socket of a bus that has crashed; False if it is gone, or one is just starting."""
    from toolbus.state.file_lock import try_lock

    try:
        with open(place.lock, "ab") as lock:
            if not try_lock(lock.fileno()):
                return False
            place.socket.unlink()
    except OSError:
        return False
    return True


class _Client:
    """One command in the background bus."""

    def __init__(self, place: BusPlace, connection: socket.socket) -> None:
        self._place = place
        self._connection = connection
        self._messages = Messages()
        self._signals = ClientSignals()
        self._was_interrupted = False
        self._is_suspending = False
        """Whether Ctrl-Z was pressed, and the bus may still read from the terminal."""
        self._is_accepted = False
        """Whether the bus runs the command: from then on it must not be run again."""

    def run(self, words: Sequence[str], folder: str) -> int | None:
        request = {
            "run": list(words),
            "version": version(),
            "cwd": folder,
            "environ": {name: os.environ[name] for name in VARIABLES if name in os.environ},
            "encodings": [_encoding(sys.stdin), _encoding(sys.stdout), _encoding(sys.stderr)],
        }
        try:
            with self._signals:
                send(self._connection, request, STREAMS)
                return self._follow()
        except (BrokenPipeError, ConnectionResetError):
            return self._lost()
        except ProtocolViolation:
            if not self._is_accepted:
                raise
            return self._lost()

    def _follow(self) -> int | None:
        patience: float | None = ACCEPTED_WITHIN
        while True:
            ready, _, _ = select.select([self._connection, self._signals], [], [], patience)
            if not ready:
                self._is_not_answered()
            if self._signals in ready:
                self._pass_on(self._signals.received())
            patience = SUSPENDED_WITHIN if self._is_suspending else None
            if self._connection not in ready:
                continue
            data = self._connection.recv(65536)
            if not data:
                return self._lost()
            for message in self._messages.feed(data):
                match message:
                    case {"exit": int(code)}:
                        return code
                    case {"accepted": _}:
                        self._is_accepted = True
                    case {"refused": str(reason)}:
                        _say(f"{reason}; this command runs without it")
                        return None
                    case _:
                        self._answer(message)

    def _is_not_answered(self) -> None:
        if self._is_suspending:
            self._suspend()
        else:
            _say(
                f"the background bus{process_of(self._connection)} does not answer yet; Ctrl-C ends this "
                "command, --no-up runs it without the bus"
            )

    def _answer(self, message: dict[str, Any]) -> None:
        self._was_interrupted = False  # it was heard
        match message:
            case {"suspended": _}:
                self._suspend()
                return
            case {"read": str(prompt)}:
                with self._signals.raising():
                    answer = _read_line(prompt)
            case {"claim": _}:
                _wait_for_terminal()
                answer = {"foreground": True}
            case _:
                raise ProtocolViolation("the background bus sent something unknown")
        send(self._connection, answer)

    def _pass_on(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGINT and (self._was_interrupted or not self._is_accepted):
                os._exit(128 + number)  # the bus sees the connection go
            self._was_interrupted = number == signal.SIGINT
            with suppress(OSError):  # it is gone, which we are about to read
                send(self._connection, {"signal": number})
            self._is_suspending = self._is_suspending or number == signal.SIGTSTP

    def _suspend(self) -> None:
        """Stop, as Ctrl-Z asked us to, now that the bus no longer reads input meant for the shell."""
        if self._is_suspending:
            self._is_suspending = False
            os.kill(os.getpid(), signal.SIGSTOP)

    def _lost(self) -> int | None:
        if not self._is_accepted:  # it was about to stop
            return None
        _say(
            "the background bus ended while the command ran; what it did is not known; "
            f"start it again with 'toolbus up' (its log is {self._place.log})"
        )
        return FAILED


def _read_line(prompt: str) -> dict[str, Any]:
    """Read a line of a dialog, with editing and history."""
    from toolbus.cli.input.line_editor import read_line

    try:
        return {"line": read_line(prompt)}
    except EOFError:
        return {"line": None}
    except SignalCame as ended:
        return {"interrupted": ended.number}
    except UnicodeDecodeError:
        return {"undecodable": True}


def _wait_for_terminal() -> None:
    """Be stopped, as any program in the background that reads from its terminal, until it is in front."""
    while not _is_in_foreground():
        os.killpg(0, signal.SIGTTIN)
        time.sleep(0.2)  # a process group without a shell is not stopped


def _is_in_foreground() -> bool:
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # it is not our terminal
        return True


def _fill_closed_streams() -> None:
    """Open nothing in place of a closed stream; otherwise the connection would take its number."""
    for number in STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number, which is this one


def _encoding(stream: Any) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _say(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        print(f"toolbus: {text}", file=sys.stderr, flush=True)


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
        """The descriptor for `select`."""
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
