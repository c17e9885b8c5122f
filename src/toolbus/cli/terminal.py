"""The terminal of a command: that of this process, or that of a client of the background bus.

In the background bus, commands of several clients run side by side, each in a thread of its own. Whatever
belongs to one of them (streams, working folder, variables, signals) is asked for here.
"""

import os
import signal
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from concurrent.futures import Future

    from toolbus.background.shared_bus import SharedBus


class ClientTerminal(Protocol):
    """The terminal of a client of the background bus."""

    session: str
    """The name of the session of its calls."""
    bus: "SharedBus"
    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    cwd: Path
    environ: Mapping[str, str]
    """Its variables, as far as a command has to know them."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        ...

    def handling(self, number: int, call: Callable[[], object] | None) -> AbstractContextManager[None]:
        """Call the function, in another thread, when the client gets the signal, until the block ends.

        With None, `check_signals` raises.
        """
        ...

    def check_signals(self) -> None:
        """Raise for a signal that nobody handled: KeyboardInterrupt, or SystemExit with its exit code."""
        ...

    def read_line(self, prompt: str) -> str:
        """Have the client read a line, with editing and history; EOFError, KeyboardInterrupt."""
        ...

    def suspended(self) -> None:
        """Let the client stop, after Ctrl-Z; whoever handles that signal must have stopped reading."""
        ...

    def claim(self) -> "Future[None]":
        """Have the client come to the front: a program in the background is stopped before it may read."""
        ...

    def show_log(self, level: int) -> None:
        """Show the log of the bus on stderr until the command ends."""
        ...


_client: ContextVar[ClientTerminal | None] = ContextVar("toolbus_client", default=None)


def client_terminal() -> ClientTerminal | None:
    """The terminal of the client whose command this is; None if it is a command of this process."""
    client = _client.get()
    # Tasks of the bus that a command caused have its context. The bus itself is in the main thread, which
    # must never wait for a terminal.
    if client is None or threading.current_thread() is threading.main_thread():
        return None
    return client


@contextmanager
def using(client: ClientTerminal) -> Generator[None]:
    """Make it the terminal of the command that runs in this block."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


def variables() -> Mapping[str, str]:
    """The variables of the terminal."""
    client = client_terminal()
    return os.environ if client is None else client.environ


def working_folder() -> Path:
    """The folder that the command was given in."""
    client = client_terminal()
    return Path.cwd() if client is None else client.cwd


def here(path: Path) -> Path:
    """A path that was given on the command line, to open it; a message shows it as it was given."""
    client = client_terminal()
    return path if client is None else client.cwd / path


@contextmanager
def signal_calls(number: int, call: Callable[[], object]) -> Generator[None]:
    """Call the function in the running event loop when the signal comes, until the block ends."""
    import asyncio  # here and below: it takes long, and no mistake in a command line needs it

    loop, client = asyncio.get_running_loop(), client_terminal()
    if client is not None:

        def call_in_loop() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call)

        with client.handling(number, call_in_loop):
            yield
        return
    from toolbus.gateway.serve import signals

    with signals.signal_calls(number, call):
        yield


def run_until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Run a command in an event loop of its own; a signal cancels it, so that it can clean up."""
    import asyncio

    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Cancel the work on SIGTERM and SIGHUP, as asyncio does on Ctrl-C."""
    import asyncio

    loop, client = asyncio.get_running_loop(), client_terminal()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    try:
        if client is None:
            for name in ("SIGTERM", "SIGHUP"):
                with suppress(AttributeError, NotImplementedError):  # Windows has neither
                    loop.add_signal_handler(getattr(signal, name), end, int(getattr(signal, name)))
            return await task
        with ExitStack() as stack:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                stack.enter_context(signal_calls(number, partial(end, number)))
            return await task
    except asyncio.CancelledError:
        if signal.SIGINT in received:
            raise KeyboardInterrupt from None
        if received:
            return 128 + received[0]
        raise
