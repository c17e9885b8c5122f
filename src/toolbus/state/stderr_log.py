"""The stderr of servers, kept in the user's state folder: a bounded file per server of a config.

A connection logs each line at DEBUG to a logger below `toolbus.stderr`, without secrets. `kept_stderr` keeps
these lines; a thread writes them, so that no call waits for the disk.
"""

import logging
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, unquote

from toolbus.core.text.text import cleaned
from toolbus.state.files import PrivateFolder, config_place, state_folder

STDERR_LOGGER = "toolbus.stderr"
MAX_STDERR = 1024 * 1024
"""The size of a file; a full one is kept once more, as the old one."""
PAUSE = 0.1
"""Seconds in which lines are gathered before they are written."""
_MAX_PENDING = 64 * 1024
"""Characters that wait for the disk; more of them are left out."""
_MAX_NAME = 200
_MAX_AGE = 30 * 86400
"""Seconds after which the file of a server that writes nothing is deleted."""
_CLOSE_WITHIN = 2.0


class StderrLine(NamedTuple):
    """A line that a server wrote, and when."""

    at: str
    text: str


@contextmanager
def kept_stderr(config_file: str | None) -> Generator[None]:
    """Keep the stderr of the servers of this config, if there is a state folder."""
    try:
        handler = None if config_file is None else _Writer(state_folder(), _folder(config_file))
    except OSError:
        handler = None
    if handler is None:
        yield
        return
    logger = logging.getLogger(STDERR_LOGGER)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # the handler passes on what others want to have
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        logger.removeHandler(handler)
        handler.finish()


class _Writer(logging.Handler):
    """Writes the lines of all servers of a config to their files."""

    def __init__(self, base: PrivateFolder, folder: str) -> None:
        super().__init__()
        self._base = base
        self._folder = folder
        self._pending: dict[str, list[str]] = {}
        self._waiting = 0
        self._left_out: dict[str, int] = {}
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        above = logging.getLogger(STDERR_LOGGER).parent
        if above is not None and above.isEnabledFor(record.levelno):
            above.callHandlers(record)
        alias, text = record.name.removeprefix(f"{STDERR_LOGGER}."), record.getMessage()
        with self._guard():
            if self._waiting + len(text) > _MAX_PENDING:
                self._left_out[alias] = self._left_out.get(alias, 0) + 1
                return
            self._waiting += len(text) + 1
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._pending.setdefault(alias, []).append(f"{now} {text}")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="toolbus stderr", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Write the remaining lines, unless the disk hangs."""
        self._is_closing.set()
        with self._guard():
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_WITHIN)

    @contextmanager
    def _guard(self) -> Generator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _write(self) -> None:
        """Write batches until there are no more lines."""
        while True:
            self._is_closing.wait(PAUSE)
            with self._guard():
                lines, self._pending, self._waiting = self._pending, {}, 0
                left_out, self._left_out = self._left_out, {}
                if not lines:
                    self._thread = None
                    return
            for alias, texts in lines.items():
                if count := left_out.get(alias):
                    texts.append(f"{texts[-1].partition(' ')[0]} ({count:,} lines were left out)")
                with suppress(OSError):  # a full disk must not stop the servers
                    self._append(alias, "".join(f"{_one_line(text)}\n" for text in texts).encode())

    def _append(self, alias: str, content: bytes) -> None:
        path = self._base.make_folders(f"{self._folder}/{_file_name(alias)}")
        if not path.exists():
            self._remove_old(path.parent.parent)
        with _opened(path) as file:
            is_full = os.fstat(file.fileno()).st_size + len(content) > MAX_STDERR
            # Unless another process has just done it.
            if is_full and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                path.replace(_old(path))
        with _opened(path) as file:
            file.write(content)

    def _remove_old(self, folder: Path) -> None:
        for path in folder.glob("*/*.log*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _MAX_AGE:
                    path.unlink()


def _one_line(text: str) -> str:
    return cleaned(text).replace("\n", " ")


def _opened(path: Path) -> BinaryIO:
    """The file, to be appended to, of its owner only; a link is not followed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return open(os.open(path, flags, 0o600), "ab", buffering=0)


def _folder(config_file: str | Path) -> str:
    return f"stderr/{config_place(config_file)[1][:32]}"


def _file_name(alias: str) -> str:
    name = quote(alias, safe="")
    return f"{name if len(name) <= _MAX_NAME else sha256(alias.encode()).hexdigest()}.log"


def _old(path: Path) -> Path:
    return path.with_name(f"{path.name}+old")  # no name of a server has a plus sign


# Read them


def logged_servers(config_file: str | Path) -> dict[str, Path]:
    """The servers of the config whose stderr is kept, each with its file; OSError without a state folder."""
    folder = state_folder().base / _folder(config_file)
    return {unquote(path.stem): path for path in sorted(folder.glob("*.log"))}


def stderr_path(config_file: str | Path, alias: str) -> Path:
    """The file of a server, which need not exist; OSError without a state folder."""
    return state_folder().base / _folder(config_file) / _file_name(alias)


_TAIL = 128 * 1024
"""Bytes at the end of a file that have the last lines; a search reads all of it."""


def logged_lines(path: Path, *, words: str = "", most: int) -> list[StderrLine]:
    """The last lines of a server that have these words, in any case; empty if nothing is kept."""
    found: list[StderrLine] = []
    for file in (_old(path), path) if words else (path,):
        with suppress(FileNotFoundError), file.open("rb") as opened:
            if not words:
                opened.seek(max(0, os.fstat(opened.fileno()).st_size - _TAIL))
            lines = opened.read().split(b"\n")
            whole = lines if words or opened.tell() <= _TAIL else lines[1:]
            found += (one for one in _parsed(whole) if words.casefold() in one.text.casefold())
    return found[-most:]


class StderrReader:
    """Reads the lines of one server: first the last ones, then those that are added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial = b""

    def last(self, count: int) -> list[StderrLine]:
        """The last lines; `added` continues after them."""
        lines: list[StderrLine] = []
        with suppress(FileNotFoundError):
            lines = list(_parsed(_old(self._path).read_bytes().split(b"\n")))
        lines += self.added()
        return lines[-count:] if count else []

    def added(self) -> list[StderrLine]:
        """The new lines, even after the file was replaced."""
        lines = self._rest()
        with suppress(FileNotFoundError):
            if self._file is None or self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino:
                lines += self._rest()  # written before it was replaced
                self.close()
                self._file = self._path.open("rb")
                lines += self._rest()
        return lines

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file, self._partial = None, b""

    def _rest(self) -> list[StderrLine]:
        if self._file is None:
            return []
        *lines, self._partial = (self._partial + self._file.read()).split(b"\n")
        return list(_parsed(lines))


def _parsed(lines: list[bytes]) -> Iterator[StderrLine]:
    for line in lines:
        at, _, text = line.decode(errors="replace").partition(" ")
        if at:
            yield StderrLine(at, text)
