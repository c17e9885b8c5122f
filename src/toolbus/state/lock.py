"""Locks that hold across tasks, threads and processes, and end with the process that holds them.

A lock is a lock of the system on a file in a private folder. The file stays: if it were deleted, two
processes could hold locks on two files of the same name. Waiting never blocks the loop and is bounded.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Event, Lock
from weakref import WeakValueDictionary

from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import TokenProblem
from toolbus.state.file_lock import let_go_after_fork, try_lock, unlock
from toolbus.state.thread import in_thread

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
_GRACE = 10.0
"""The additional time for a disk to respond."""
_MAX_HOLDER = 64
"""The number of bytes of a lock's file to read for the process that holds it."""


class LockBusy(Exception):
    """A lock is not free in time; `problem` is about what it protects, such as `they were in use`."""

    def __init__(self, problem: str, step: str, reason: TokenProblem = "busy") -> None:
        super().__init__(problem)
        self.problem = problem
        self.step = step
        self.reason: TokenProblem = reason

    @classmethod
    def after(cls, seconds: float, holder: str = "", path: Path | None = None) -> "LockBusy":
        """`holder` says who holds the lock, as the end of a sentence."""
        where = "" if path is None else f" ({path})"
        problem = f"they were in use{holder} for more than {in_seconds(seconds)}{where}"
        return cls(problem, "wait for it, or end it")


@dataclass(frozen=True, slots=True)
class Patience:
    """The interval and the time limit of retries."""

    seconds: float
    until: float
    given_up: Event

    @classmethod
    def of(cls, seconds: float) -> "Patience":
        return cls(seconds, time.monotonic() + seconds, Event())

    def attempts(self) -> Iterator[None]:
        pause = _FIRST_PAUSE
        while True:
            yield
            left = self.until - time.monotonic()
            if left <= 0 or self.given_up.wait(min(pause, left)):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)


class HeldFile:
    """A lock on an open file."""

    def __init__(self, file: FileIO) -> None:
        self.file = file
        let_go_after_fork(self)

    def let_go(self) -> None:
        """In a forked process: close this copy; the lock stays with the parent."""
        self.file.close()

    def release(self) -> None:
        if not self.file.closed:
            with suppress(OSError):  # closing it releases it, too
                unlock(self.file.fileno())
            self.file.close()


def hold_file(path_of: Callable[[], Path], seconds: float) -> AbstractAsyncContextManager[None]:
    """Hold the lock of a file; `LockBusy` if it is not free in time, OSError if it cannot be locked."""
    return _held(lambda patience: take_file(path_of(), patience), seconds)


def hold_in_process(name: str, seconds: float) -> AbstractAsyncContextManager[None]:
    """Hold the lock of that name in this process only; `LockBusy` if it is not free in time."""
    return _held(lambda patience: _take_in_process(name, patience), seconds)


@asynccontextmanager
async def _held(take: "Callable[[Patience], HeldFile | Lock]", seconds: float) -> AsyncGenerator[None]:
    patience = Patience.of(seconds)
    try:
        async with asyncio.timeout(seconds + _GRACE):
            held = await in_thread(lambda: take(patience), lambda late: late.release())
    except TimeoutError:
        problem = f"their lock did not respond within {in_seconds(seconds + _GRACE)}"
        raise LockBusy(problem, "check the disk", "unavailable") from None
    finally:
        patience.given_up.set()
    try:
        yield
    finally:
        held.release()


def take_file(path: Path, patience: Patience, *, names_holder: bool = True) -> HeldFile:
    """Lock a file, which is created; `names_holder` writes this process into it, for messages."""
    # Not through a link: this writes to the file.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = FileIO(os.open(path, flags, 0o600), "r+")
    try:
        for _ in patience.attempts():
            if try_lock(file.fileno()):
                with suppress(OSError):  # a full disk; it is only for messages
                    if names_holder:
                        file.truncate(0)
                        file.write(str(os.getpid()).encode())
                return HeldFile(file)
        raise LockBusy.after(patience.seconds, _holder(file), path)
    except BaseException:
        file.close()
        raise


def _holder(file: FileIO) -> str:
    """The process that says it holds the lock."""
    with suppress(OSError, ValueError):
        file.seek(0)
        holder = int(file.read(_MAX_HOLDER) or b"")
        return " by this process" if holder == os.getpid() else f" by process {holder}"
    return ""


_process_locks: "WeakValueDictionary[str, Lock]" = WeakValueDictionary()
_guard = Lock()


def _take_in_process(name: str, patience: Patience) -> Lock:
    with _guard:
        lock = _process_locks.setdefault(name, Lock())
    for _ in patience.attempts():
        if lock.acquire(blocking=False):
            return lock
    raise LockBusy.after(patience.seconds, " by this process")
