"""Read pasted lines from stdin without blocking the event loop.

A terminal's own line editing cuts off long lines: at 1,024 characters on macOS, at 4,096 on Linux. The URL at
the end of a sign-in may be longer. So the keys are read one by one, with the editing that a paste needs.
"""

import asyncio
import codecs
import os
import signal
import sys
from collections import deque
from contextlib import ExitStack, suppress
from threading import Thread
from typing import NoReturn

from toolbus.cli.input.ask import Interrupted
from toolbus.cli.input.keys import is_in_foreground, single_keys
from toolbus.cli.terminal import TERMINAL
from toolbus.core.text.text import visible

MAX_LINE = 64 * 2**10
POLL_SECONDS = 0.05
"""The time between checks for keys on a Windows console."""
ERASE, ERASE_LINE, END, INTERRUPT = "\x7f\b", "\x15", "\x04", "\x03"


class PastedLines:
    """The lines that the user pastes or types while it is entered; from a terminal or a pipe."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        self._lines: deque[str] = deque()
        self._has_ended = False
        self._was_interrupted = False
        self._changed = asyncio.Event()
        self._stack = ExitStack()

    def __enter__(self) -> "PastedLines":
        with ExitStack() as stack:
            if sys.platform != "win32":
                stack.enter_context(TERMINAL.get().signal_calls(signal.SIGINT, self._interrupt))
            if sys.stdin is None or not is_in_foreground():
                self._end()
            elif sys.platform == "win32":
                self._read_windows(stack)
            else:
                self._read_posix(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    async def next(self) -> str:
        """The next line; EOFError at the end of the input, `Interrupted` on Ctrl-C."""
        while not self._lines:
            if self._was_interrupted:
                raise Interrupted
            if self._has_ended:
                raise EOFError
            self._changed.clear()
            await self._changed.wait()
        return self._lines.popleft()

    async def interrupted(self) -> NoReturn:
        """Wait for Ctrl-C, and discard pasted lines; then raise `Interrupted`."""
        while not self._was_interrupted:
            self._lines.clear()
            self._changed.clear()
            await self._changed.wait()
        raise Interrupted

    def _read_posix(self, stack: ExitStack) -> None:
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        if self.is_terminal:
            stack.enter_context(single_keys(stdin))
        try:
            loop.add_reader(stdin, self._read_available, stdin)
        except OSError:  # a file, or /dev/null, which never has to be waited for
            while not self._has_ended:
                self._read_available(stdin)
        else:
            stack.callback(loop.remove_reader, stdin)

    def _read_available(self, stdin: int) -> None:
        try:
            data = os.read(stdin, 4096)
        except OSError:  # the terminal is gone
            data = b""
        if data:
            self._feed(self._decoder.decode(data))
        else:
            asyncio.get_running_loop().remove_reader(stdin)
            self._end()

    def _read_windows(self, stack: ExitStack) -> None:
        loop = asyncio.get_running_loop()
        if self.is_terminal:
            task = loop.create_task(self._poll_console())
            stack.callback(task.cancel)
            return

        def read() -> None:
            with suppress(RuntimeError):  # the loop is closed
                for line in sys.stdin:
                    loop.call_soon_threadsafe(self._feed, line)
                loop.call_soon_threadsafe(self._end)

        Thread(target=read, name="toolbus-stdin", daemon=True).start()

    async def _poll_console(self) -> None:
        if sys.platform == "win32":
            import msvcrt

            while True:
                while msvcrt.kbhit():
                    self._feed(msvcrt.getwch())
                await asyncio.sleep(POLL_SECONDS)

    def _feed(self, text: str) -> None:
        for letter in text:
            if letter in "\r\n":
                self._finish_line()
            elif not self.is_terminal:
                self._typed = (self._typed + letter)[:MAX_LINE]
            elif letter in ERASE:
                self._erase(1)
            elif letter == ERASE_LINE:
                self._erase(len(self._typed))
            elif letter == END:
                if not self._typed:
                    self._end()
            elif letter == INTERRUPT:
                self._interrupt()
            elif letter.isprintable() and len(self._typed) < MAX_LINE:
                self._typed += letter
                _echo(visible(letter))
        self._changed.set()

    def _finish_line(self) -> None:
        if self.is_terminal:
            _echo("\n")
        self._lines.append(self._typed)
        self._typed = ""

    def _erase(self, count: int) -> None:
        if count and self._typed:
            self._typed = self._typed[:-count]
            _echo("\b \b" * count)

    def _end(self) -> None:
        if self._typed:
            self._finish_line()
        self._has_ended = True
        self._changed.set()

    def _interrupt(self) -> None:
        self._was_interrupted = True
        self._changed.set()


def _echo(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
