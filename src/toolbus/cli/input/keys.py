"""Single keys from the terminal, as they are pressed, instead of whole lines."""

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from toolbus.cli.input.ask import can_ask, termios
from toolbus.cli.terminal import TERMINAL


def is_in_foreground() -> bool:
    """Whether this process may use its terminal; one in the background would be stopped for it."""
    if termios is None or not sys.stdin.isatty():
        return True
    return TERMINAL.get().is_in_foreground()


@contextmanager
def single_keys(terminal: int) -> Generator[None]:
    """Get every key at once and unechoed; earlier input is discarded."""
    assert termios is not None, "there is a terminal"
    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSAFLUSH, mode)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def keys_call(press: Callable[[str], None]) -> Generator[bool]:
    """Call the function for every key until the block ends; yields whether there are keys to press."""
    if termios is None or not can_ask() or not is_in_foreground():
        yield False
        return
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        try:
            keys = os.read(terminal, 64).decode(errors="replace")
        except OSError:  # the terminal is gone
            keys = ""
        if not keys:
            loop.remove_reader(terminal)
        for key in keys:
            press(key)

    with single_keys(terminal):
        loop.add_reader(terminal, read)
        try:
            yield True
        finally:
            loop.remove_reader(terminal)
