"""Ask a question on the terminal; input typed before the question is discarded."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from toolbus.core.visible import visible

try:
    import termios
except ImportError:  # Windows
    termios = None

POLL_SECONDS = 0.5
"""How often to check for signals."""
MAX_ANSWER_BYTES = 4096
"""The size of a terminal's line buffer."""


class Interrupted(Exception):
    """The user pressed Ctrl-C instead of answering."""


def can_ask() -> bool:
    """Whether stdin and stderr are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(prompt: str) -> str:
    """Print the prompt and read a line; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
    if termios is None:
        return _ask_with_input(prompt)
    _print_prompt(prompt)
    # Not input(): readline misses a Ctrl-C between its prompt and its wait.
    while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        pass
    return _read_line()


async def ask_async(prompt: str) -> str:
    """Like `ask`, without blocking the main thread's event loop; `Interrupted` on Ctrl-C."""
    if termios is None:
        try:
            return _ask_with_input(prompt)  # blocks the loop: Windows can only watch a console from a thread
        except KeyboardInterrupt:
            raise Interrupted from None
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    with ctrl_c_calls(lambda: ready.done() or ready.set_exception(Interrupted())):
        _print_prompt(prompt)
        loop.add_reader(sys.stdin, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(sys.stdin)
    return _read_line()


def _print_prompt(prompt: str) -> None:
    if termios is not None:
        # Input typed ahead must not answer the question.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(visible(prompt), end="", file=sys.stderr, flush=True)


def _read_line() -> str:
    typed = os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)
    if not typed:
        raise EOFError
    return typed.decode(errors="replace")


def _ask_with_input(prompt: str) -> str:
    # input() would print the prompt to stdout, among the results.
    _print_prompt(prompt)
    return input()


@contextmanager
def ctrl_c_calls(interrupt: Callable[[], object]) -> Generator[None]:
    """Make Ctrl-C call the function in the main thread's event loop until the block ends."""
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
