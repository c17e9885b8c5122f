"""The terminal of a command: this process's own, or one that a client passed to the background bus.

In the background bus, commands of several clients run side by side, each in a thread of its own. Everything
that belongs to one of them (streams, working folder, variables, signals) is requested here.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TextIO, TypeAlias, TypeVar

from toolbus.core.files import named_file, nearest_file

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
StreamName: TypeAlias = Literal["stdin", "stdout", "stderr"]
STREAMS: tuple[StreamName, ...] = ("stdin", "stdout", "stderr")


class Terminal(Protocol):
    """The facts that a command needs about its terminal."""

    ending: tuple[int, ...]
    """The signals that cancel a command, besides the Ctrl-C that Python handles."""
    has_process: bool
    """Whether the process has the same streams as the terminal, and may redirect them."""

    @property
    def cwd(self) -> Path:
        """The folder that the command was given in."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables, as far as a command has to know them."""
        ...

    def stream(self, name: StreamName) -> TextIO:
        """One of the streams."""
        ...

    def opened(self, path: Path) -> Path:
        """A path that was given on the command line, to open it."""
        ...

    def finds_config(self) -> bool:
        """Whether there is a config for a command that names none."""
        ...

    def handling(self, number: int, call: Callable[[], object] | None) -> AbstractContextManager[None]:
        """Call the function, maybe in another thread, when the signal comes, until the block ends.

        With None, KeyboardInterrupt or SystemExit is raised, at the latest by `check_signals`.
        """
        ...

    def signal_calls(self, number: int, call: Callable[[], object]) -> AbstractContextManager[None]:
        """Call the function in the running event loop when the signal comes, until the block ends."""
        ...

    def check_signals(self) -> None:
        """Raise for a signal that nobody handled: KeyboardInterrupt, or SystemExit with its exit code."""
        ...

    def suspending(self, call: Callable[[], object]) -> AbstractContextManager[None]:
        """Call the function on Ctrl-Z, until the block ends, if the process itself is not stopped then.

        Reading must stop then, and `suspended` be called.
        """
        ...

    def suspended(self) -> None:
        """Let the terminal stop, now that nobody reads from it."""
        ...

    def claim(self) -> "Future[None]":
        """Come to the front: a program in the background is stopped before it may read."""
        ...

    def is_in_foreground(self) -> bool:
        """Whether the terminal may be used; one in the background would be stopped for it."""
        ...

    def read_line(self, prompt: str) -> str:
        """Read a line, with editing and history; EOFError, KeyboardInterrupt."""
        ...

    def show_log(self, level: int, loggers: Iterable[str], formatter: logging.Formatter) -> None:
        """Show what is logged on stderr until the command ends."""
        ...


class OwnTerminal:
    """The terminal of this process."""

    ending: tuple[int, ...] = tuple(
        getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
    )
    has_process = True

    def __init__(self) -> None:
        self._streams: dict[StreamName, TextIO] = {}

    def keep_streams(self) -> None:
        """Stay with the streams of the process as they are now."""
        self._streams = self._streams or {name: getattr(sys, name) for name in STREAMS}

    @property
    def cwd(self) -> Path:
        return Path.cwd()

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def stream(self, name: StreamName) -> TextIO:
        return self._streams[name] if self._streams else getattr(sys, name)

    def opened(self, path: Path) -> Path:
        return path

    def finds_config(self) -> bool:
        return named_file() is not None or nearest_file(self.cwd) is not None

    @contextmanager
    def handling(self, number: int, call: Callable[[], object] | None) -> Generator[None]:
        def handle(*_: object) -> None:
            if call is not None:
                call()
            elif number == signal.SIGINT:
                raise KeyboardInterrupt
            else:
                raise SystemExit(128 + number)

        before = signal.signal(number, handle)
        try:
            yield
        finally:
            signal.signal(number, before)

    def signal_calls(self, number: int, call: Callable[[], object]) -> AbstractContextManager[None]:
        from toolbus.gateway.serve.signals import signal_calls

        return signal_calls(number, call)

    def check_signals(self) -> None:
        """Python has raised already."""

    def suspending(self, call: Callable[[], object]) -> AbstractContextManager[None]:
        return nullcontext()

    def suspended(self) -> None:
        raise AssertionError("the system stops this process")

    def claim(self) -> "Future[None]":
        from concurrent.futures import Future

        claimed: Future[None] = Future()
        claimed.set_result(None)  # the system stops this process when it reads
        return claimed

    def is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self.stream("stdin").fileno()) == os.getpgrp()
        except OSError:
            return False

    def read_line(self, prompt: str) -> str:
        from toolbus.cli.input.line_editor import read_line

        return read_line(prompt)

    def show_log(self, level: int, loggers: Iterable[str], formatter: logging.Formatter) -> None:
        handler = logging.StreamHandler(self.stream("stderr"))
        handler.setFormatter(formatter)
        for name in loggers:
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).addHandler(handler)


class CommandValue(Generic[T]):
    """A value of this process, or of the client whose command runs in this thread."""

    def __init__(self, name: str, own: T) -> None:
        self._own = own
        self._value: ContextVar[T] = ContextVar(name, default=own)

    def get(self) -> T:
        """The value for this thread."""
        # Tasks of the bus that a command caused have its context. The bus itself is in the main thread, which
        # must never wait for a terminal.
        is_main = threading.current_thread() is threading.main_thread()
        return self._own if is_main else self._value.get()

    @contextmanager
    def using(self, value: T) -> Generator[None]:
        """Make it the value for the command that runs in this block."""
        token = self._value.set(value)
        try:
            yield
        finally:
            self._value.reset(token)


OWN = OwnTerminal()
TERMINAL: CommandValue[Terminal] = CommandValue("toolbus_terminal", OWN)


def variables() -> Mapping[str, str]:
    """The variables of the terminal."""
    return TERMINAL.get().environ


def working_folder() -> Path:
    """The folder that the command was given in."""
    return TERMINAL.get().cwd


def here(path: Path) -> Path:
    """A path that was given on the command line, to open it; a message shows it as it was given."""
    return TERMINAL.get().opened(path)


def terminal_size(terminal: Terminal) -> tuple[int, int]:
    """The columns and lines of a terminal."""
    for name in ("stdout", "stderr", "stdin"):
        with suppress(OSError, ValueError, AttributeError):  # not a terminal, or closed
            columns, lines = os.get_terminal_size(terminal.stream(name).fileno())
            return columns or 80, lines or 25
    return 80, 25


def run_until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Run a command in an event loop of its own; a signal cancels it, so that it can clean up."""
    import asyncio  # here and below: it takes long, and no mistake in a command line needs it

    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, int]) -> int:
    import asyncio

    terminal, task = TERMINAL.get(), asyncio.ensure_future(work)
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    try:
        with ExitStack() as stack:
            for number in terminal.ending:
                stack.enter_context(terminal.signal_calls(number, partial(end, number)))
            return await task
    except asyncio.CancelledError:
        if signal.SIGINT in received:
            raise KeyboardInterrupt from None
        if received:
            return 128 + received[0]
        raise
