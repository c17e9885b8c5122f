"""The writer of a trail: every line is in the file before `append` returns, whole and chained, or not at all.

A process has a file for itself, locked as long as it runs; if the file is taken, it uses the next one. A
partial last line of a killed process stays in the file, and the next process records it. Several threads may
write. A forked process takes a file of its own.
"""

import json
import logging
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EACCES, ENOTDIR, errorcode
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from toolbus.audit.lines import (
    MOST_SLOTS,
    Damaged,
    Position,
    Tail,
    full_files,
    full_path,
    last_position,
    read_tail,
    slot_path,
)
from toolbus.config.settings.audit import Audit
from toolbus.core.values.errors import AuditFailed
from toolbus.state.file_lock import let_go_after_fork, try_lock

logger = logging.getLogger("toolbus")
_DAY = 86_400
_SECOND = 1_000_000_000
"""One second in nanoseconds."""
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_STEPS = {
    "ENOSPC": "free some space, or move full files away",
    "EDQUOT": "free some space, or move full files away",
    "EFBIG": "raise the limit for the size of files (ulimit -f), or set a smaller rotate",
    "ELOOP": "name the file itself in audit.file, not a link to it",
}
_STEP = "make it writable, or name another one in audit.file"


Line: TypeAlias = tuple[int, str, str]
"""The time of an event in nanoseconds, or 0 for now, its name, and its fields."""


@dataclass(slots=True)
class _File:
    """An open, locked file of the trail, and the number and digest of its last line."""

    path: Path
    fd: int
    size: int
    full_at: int
    """The size from which on a new file is begun."""
    seq: int
    hash: str


class Chain:
    """Appends lines to a trail. The file is opened with the first line."""

    def __init__(self, audit: Audit) -> None:
        self.path = Path(audit.file)
        self._audit = audit
        self._second, self._shown = 0, ""
        """The second of the last line, in nanoseconds, and as it stands in a line."""
        self._check_at = 0
        self._last: tuple[Path, Position] | None = None
        """The end of the chain that was written last; if its file is removed, the chain is continued there.
        """
        self._is_closed = False
        self._begin_process()
        let_go_after_fork(self)

    def _begin_process(self) -> None:
        self.id = os.urandom(6).hex()
        """The prefix of call numbers, which restart with each process."""
        self._lock = Lock()
        self._file: _File | None = None

    def append(self, event: str, fields: str) -> None:
        """Write a line with these fields, such as `,"id":"1"`; `AuditFailed` if that is not possible."""
        self.extend([(0, event, fields)])

    def extend(self, lines: Sequence[Line]) -> None:
        """Write several lines, in one step; `AuditFailed` if that is not possible."""
        with self._lock:
            try:
                file = self._file
                if file is None or file.size >= file.full_at or time.time_ns() >= self._check_at:
                    file = self._ready()
                self._write_all(file, lines)
            except OSError as error:
                raise _failed(self.path, error) from error
            finally:
                if self._is_closed:
                    self._release()

    def check(self) -> None:
        """`AuditFailed` if a line could not be written now; nothing is created or changed."""
        path = self.path
        with self._lock:
            try:
                for slot in range(1, MOST_SLOTS + 1):
                    path = slot_path(self.path, slot)
                    if not os.path.lexists(path):
                        _check_folder(path.parent)
                        self._end_before(path)
                        break
                    fd = _open_locked(path, _FLAGS & ~os.O_CREAT | getattr(os, "O_NONBLOCK", 0))
                    if fd is not None:
                        try:
                            self._tail(path, fd)
                        finally:
                            os.close(fd)
                        break
            except Damaged:
                raise _damaged(path) from None
            except OSError as error:
                raise _failed(self.path, error) from error

    def close(self) -> None:
        """Release the file; a line that still comes opens one for itself."""
        with self._lock:
            self._is_closed = True
            self._release()

    def __del__(self) -> None:
        if self._file is not None:
            self._release()

    def let_go(self) -> None:
        """In a forked process: leave the file to the parent, whose lock stays: only a copy is closed here."""
        file = self._file
        self._begin_process()
        self._last = None
        if file is not None:
            os.close(file.fd)

    # All below under the lock

    def _ready(self) -> _File:
        """The file to write to: opened, where it should be, and not full."""
        self._check_at = time.time_ns() + _SECOND
        file = self._file
        if file is not None and not _is_at(file.fd, file.path):
            self._release()  # somebody moved or removed it: what is written to it would be lost
            file = None
        if file is None:
            file = self._open()
        return self._rotate(file) if file.size >= file.full_at else file

    def _write(self, file: _File, event: str, fields: str, before: bytes = b"") -> None:
        self._write_all(file, ((0, event, fields),), before)

    def _write_all(self, file: _File, lines: Sequence[Line], before: bytes = b"") -> None:
        """Append lines: all of them, or none."""
        seq, digest, data = file.seq, file.hash, before
        for now, event, fields in lines:
            seq += 1
            now = now or time.time_ns()
            if not self._second <= now < self._second + _SECOND:
                self._second = now - now % _SECOND
                self._shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // _SECOND))
            line = (
                f'{{"seq":{seq},"time":"{self._shown}.{(now - self._second) // 1000:06d}Z",'
                f'"event":"{event}"{fields},"prev":"{digest}"'
            ).encode("ascii")
            digest = sha256(line).hexdigest()
            data += b'%b,"hash":"%b"}\n' % (line, digest.encode("ascii"))
        try:
            written = os.write(file.fd, data)
            while written < len(data):  # a full disk: the next one raises
                written += os.write(file.fd, data[written:])
            file.seq, file.hash = seq, digest
            file.size += written
        except OSError:
            self._undo(file)
            raise
        except BaseException:  # such as KeyboardInterrupt: it may be written or not
            self._release()
            raise

    def _undo(self, file: _File) -> None:
        try:
            os.ftruncate(file.fd, file.size)
        except OSError:
            self._release()  # whoever opens it again records what is left of the line

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._last = file.path, Position(file.seq, file.hash)
            os.close(file.fd)

    def _open(self) -> _File:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for slot in range(1, MOST_SLOTS + 1):
            path = slot_path(self.path, slot)
            fd = _open_locked(path)
            if fd is not None:
                return self._begin(path, fd)
        step = "end some of them, or give them configs with different files"
        raise AuditFailed(self.path, f"{MOST_SLOTS} processes write it already", step)

    def _begin(self, path: Path, fd: int) -> _File:
        """Continue the chain of a file: record an incomplete line at its end, and who writes now."""
        try:
            tail = self._tail(path, fd)
        except BaseException:
            os.close(fd)
            raise
        self._file = file = _File(path, fd, tail.size, self._audit.rotate, tail.end.seq, tail.end.hash)
        # The first line of a file says that it is: if somebody removes it, the next one does not.
        first = f',"file":{json.dumps(path.name)}' if len(tail.rest) == tail.size else ""
        closing = b"\n" if tail.is_open else b""
        try:
            if tail.rest:
                closing = b"" if tail.rest.endswith(b"\n") else b"\n"
                rest = tail.rest + closing
                facts = f',"bytes":{len(rest)},"incomplete":"sha256:{sha256(rest).hexdigest()}"'
                self._write(file, "recovered", facts + first, closing)
                first, closing = "", b""
            facts = f',"id":"{self.id}","by":"process {os.getpid()}"'
            self._write(file, "started", facts + first, closing)
            self._remove_old(file)
        except BaseException:
            self._release()
            raise
        return file

    def _tail(self, path: Path, fd: int) -> Tail:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise AuditFailed(path, "is not a file", "name another one in audit.file")
        try:
            return read_tail(fd, lambda: self._end_before(path))
        except Damaged:
            raise _damaged(path) from None

    def _end_before(self, path: Path) -> Position:
        """The end of the chain before an empty file."""
        known = self._last[1] if self._last is not None and self._last[0] == path else Position()
        full = full_files(path)
        last = last_position(full[-1]) if full else known
        return max(known, last, key=lambda position: position.seq)

    def _rotate(self, file: _File) -> _File:
        target = full_path(file.path, file.seq)
        if os.name == "nt":  # there, an open file cannot be renamed
            self._release()
        try:
            os.rename(file.path, target)
        except OSError as error:
            logger.warning("%s could not be renamed to %s: %s", file.path, target.name, error.strerror)
            file.full_at = file.size + self._audit.rotate
            return self._file or self._open()
        self._release()
        return self._open()

    def _remove_old(self, file: _File) -> None:
        """Remove the oldest full files, as far as the settings say so, and record it before."""
        full, now = full_files(file.path), time.time()
        for number, path in enumerate(full):
            reason = self._why_removed(len(full) - number, now - path.stat().st_mtime)
            if reason is None:
                break
            self._write(file, "removed", f',"file":{json.dumps(path.name)},"reason":"{reason}"')
            path.unlink()

    def _why_removed(self, count: int, age: float) -> str | None:
        """The setting by which the oldest of so many files goes."""
        keep, days = self._audit.keep, self._audit.days
        if keep is not None and count > keep:
            return f"keep: {keep}"
        return f"days: {days}" if days is not None and age > days * _DAY else None


def _check_folder(folder: Path) -> None:
    """OSError if no file can be created there, or the folder cannot be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(EACCES, os.strerror(EACCES), str(folder))


def _open_locked(path: Path, flags: int = _FLAGS) -> int | None:
    """Open the file for this process alone; None if another one has it."""
    while True:
        fd = os.open(path, flags, 0o600)
        try:
            is_ours = try_lock(fd)
            if is_ours and _is_at(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if not is_ours:
            return None
        # It was full, and renamed in between.


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _damaged(path: Path) -> AuditFailed:
    step = f"run 'toolbus audit --verify', move {path.name} away as it is, and start again"
    return AuditFailed(path, "it is damaged at its end", step)


def _failed(path: Path, error: OSError) -> AuditFailed:
    where = error.filename if isinstance(error.filename, str) else path
    problem = f"cannot be written: {error.strerror or type(error).__name__}"
    return AuditFailed(where, problem, _STEPS.get(errorcode.get(error.errno or 0, ""), _STEP))
