"""Ask a question on the terminal; input typed before the question is discarded."""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from toolbus.cli.terminal import TERMINAL
from toolbus.core.text.text import visible

try:
    import termios
except ImportError:  # Windows
    termios = None

T = TypeVar("T")
POLL_SECONDS = 0.5
"""The time between checks for signals."""
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
    terminal, suspended = TERMINAL.get(), threading.Event()
    # Before the prompt: a terminal whose Ctrl-Z nobody handles stops at once, and we would read what its
    # shell gets.
    with terminal.suspending(suspended.set):
        terminal.claim().result()
        _print_prompt(prompt)
        while True:
            # Not input(): readline misses a Ctrl-C between its prompt and its wait.
            is_readable = bool(select.select([sys.stdin], [], [], POLL_SECONDS)[0])
            terminal.check_signals()
            if suspended.is_set():
                suspended.clear()
                terminal.suspended()
                terminal.claim().result()  # it is answered when the terminal has been continued
            elif is_readable:
                return _read_line()


async def ask_async(prompt: str) -> str:
    """Like `ask`, without blocking the main thread's event loop; `Interrupted` on Ctrl-C."""
    if termios is None:
        try:
            return _ask_with_input(prompt)  # blocks the loop: Windows can only watch a console from a thread
        except KeyboardInterrupt:
            raise Interrupted from None
    terminal, loop = TERMINAL.get(), asyncio.get_running_loop()
    interrupted, suspended = asyncio.Event(), asyncio.Event()

    def suspend() -> None:
        loop.call_soon_threadsafe(suspended.set)

    with terminal.signal_calls(signal.SIGINT, interrupted.set), terminal.suspending(suspend):
        await _unless(interrupted, asyncio.wrap_future(terminal.claim()))
        _print_prompt(prompt)
        while not await _unless(interrupted, _first(suspended, _is_readable())):
            suspended.clear()
            terminal.suspended()
            # It is answered when the terminal has been continued.
            await _unless(interrupted, asyncio.wrap_future(terminal.claim()))
    return _read_line()


async def _first(suspended: asyncio.Event, readable: Coroutine[Any, Any, None]) -> bool:
    """Wait for either; whether it was the keyboard, from which nobody may read while it is suspended."""
    reading, stopping = asyncio.ensure_future(readable), asyncio.ensure_future(suspended.wait())
    try:
        await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
        return not suspended.is_set()
    finally:
        reading.cancel()
        stopping.cancel()


async def _is_readable() -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    stdin = sys.stdin.fileno()
    loop.add_reader(stdin, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(stdin)


async def _unless(interrupted: asyncio.Event, work: Awaitable[T]) -> T:
    """Wait for the work; `Interrupted` if Ctrl-C comes first."""
    waiting = asyncio.ensure_future(work)
    interrupt = asyncio.ensure_future(interrupted.wait())
    try:
        await asyncio.wait((waiting, interrupt), return_when=asyncio.FIRST_COMPLETED)
        if interrupted.is_set():
            raise Interrupted
        return await waiting
    finally:
        interrupt.cancel()
        waiting.cancel()


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
