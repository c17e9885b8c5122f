"""Answers that a person types: after the question and not before it, on a terminal only."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

try:
    import termios
except ImportError:  # Windows
    termios = None

HEARING = 0.5
"""Seconds between two looks for a signal."""
LONGEST = 4096
"""Bytes of an answer: all that a terminal holds."""


class Interrupted(Exception):
    """The person pressed Ctrl-C instead of answering."""


def can_ask() -> bool:
    """Whether there is a terminal to put a question on, and to read the answer from."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def answer(prompt: str) -> str:
    """A line that was typed after the prompt was there; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
    if termios is None:
        return _typed(prompt)
    _put(prompt)
    # Not by input(): readline does not hear a Ctrl-C that comes between its prompt and its wait.
    while not select.select([sys.stdin], [], [], HEARING)[0]:
        pass
    return _read()


async def answered(prompt: str) -> str:
    """As `answer`, on a loop of the main thread that goes on meanwhile; `Interrupted` on Ctrl-C."""
    if termios is None:
        try:
            return _typed(prompt)  # the loop waits: Windows can watch a console from a thread only
        except KeyboardInterrupt:
            raise Interrupted from None
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()
    with _ctrl_c_ends(came):
        _put(prompt)
        loop.add_reader(sys.stdin, lambda: came.done() or came.set_result(None))
        try:
            await came
        finally:
            loop.remove_reader(sys.stdin)
    return _read()


def _put(prompt: str) -> None:
    if termios is not None:
        # No word typed ahead may answer a question.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(prompt, end="", file=sys.stderr, flush=True)


def _read() -> str:
    typed = os.read(sys.stdin.fileno(), LONGEST)
    if not typed:
        raise EOFError
    return typed.decode(errors="replace")


def _typed(prompt: str) -> str:
    # input() would write the prompt where the results go.
    _put(prompt)
    return input()


@contextmanager
def _ctrl_c_ends(came: "asyncio.Future[None]") -> Generator[None]:
    """Ctrl-C is an answer while somebody is asked; then again what it was before."""
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, lambda: came.done() or came.set_exception(Interrupted()))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
