"""A command in a real terminal, as a person sees it: a pty with a size, and keys that are typed into it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import warm
from tests.cli.running import environment
from tests.patience import PATIENCE

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])[;m]")
# A terminal of its own, so that Ctrl-C becomes a signal there.
IN_ITS_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """The output of a command so far, and a way to type."""

    def __init__(self, process: warm.Running | subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self._end = end
        self._seen = 0
        self.raw = ""
        """All that was written, with the escape codes."""

    @property
    def plain(self) -> str:
        """All that was written, without escape codes."""
        return ESCAPE.sub("", self.raw)

    @property
    def shows_cursor(self) -> bool:
        """Whether the cursor is visible now."""
        return self.raw.rfind("\x1b[?25h") >= self.raw.rfind("\x1b[?25l")

    def until(self, *texts: str) -> str:
        """Wait until the texts have come, in any order, after the last ones; gives all since then."""
        deadline = time.monotonic() + PATIENCE
        while not all(text in self.plain[self._seen :] for text in texts):
            assert time.monotonic() < deadline, f"{texts} did not come; instead: {self.plain[-2000:]}"
            assert self._read(), f"it ended before {texts}: {self.plain[-2000:]}"
        since = self.plain[self._seen :]
        self._seen = len(self.plain)
        return since

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._end, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C, once the program waits: readline does not hear one between its prompt and its wait."""
        deadline = time.monotonic() + PATIENCE
        stat = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/stat")
        while stat.read_text().rpartition(") ")[2][0] != "S":
            assert time.monotonic() < deadline, "it does not wait"
            time.sleep(0.005)
        self.press("\x03")

    def ended(self) -> int:
        """Wait for the end; gives the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline, "it does not end"
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._end], [], [], PATIENCE)
        assert ready, f"nothing more came after: {self.plain[-2000:]}"
        try:
            data = os.read(self._end, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


@contextmanager
def terminal(
    *words: str,
    folder: Path,
    width: int = 120,
    env: Mapping[str, str] | None = None,
    program: str | None = None,
) -> Generator[Terminal]:
    """Run a command, or another program, in a terminal that wide; killed if it is still there afterwards."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    seen = environment(folder.parent, **{"TERM": "xterm-256color", **(env or {})})
    if program is None:
        process = warm.Running("toolbus", words, folder, seen, (its, its, its), in_terminal=True)
    else:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", IN_ITS_TERMINAL, program, *words],
            cwd=folder,
            env=seen,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
    os.close(its)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)
