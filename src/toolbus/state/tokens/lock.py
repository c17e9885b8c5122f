"""Locks that hold across tasks, threads and processes, and end with the process that holds them.

A lock is a lock of the system on an empty file in a private folder. The file stays: if it were deleted, two
processes could hold locks on two files of the same name. Waiting never blocks the loop and is bounded.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from threading import Event, Lock
from typing import Protocol
from weakref import WeakValueDictionary

from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import TokenStoreError
from toolbus.state.file_lock import let_go_after_fork, try_lock, unlock
from toolbus.state.tokens.thread import in_thread

logger = logging.getLogger("toolbus")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
_GRACE = 10.0
"""The additional time for a disk to respond."""
_MAX_HOLDER = 64
"""The number of bytes of a lock's file to read for the process that holds it."""


class _Held(Protocol):
    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Patience:
    """The interval and the time limit of retries."""

    until: float
    given_up: Event

    def attempts(self) -> Iterator[None]:
        pause = _FIRST_PAUSE
        while True:
            yield
            left = self.until - time.monotonic()
            if left <= 0 or self.given_up.wait(min(pause, left)):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)


class _Busy(Exception):
    """Another one holds the lock; `holder` says who, as the end of a sentence."""

    def __init__(self, path: Path | None, holder: str) -> None:
        super().__init__(holder)
        self.path = path
        self.holder = holder


class NamedLocks(Protocol):
    """Exclusive use of names, among those who share tokens."""

    def hold(self, name: str, place: str, seconds: float) -> AbstractAsyncContextManager[None]:
        """Hold the lock of that name; TokenStoreError about `place` if it is not free in time."""
        ...


class Locks:
    """Exclusive use of names.

    `places` return the file for a name, best first. If none can be locked, a lock holds in this process only.
    """

    def __init__(self, places: Sequence[Callable[[str], Path]]) -> None:
        self._places = places
        self._has_warned = False

    @asynccontextmanager
    async def hold(self, name: str, place: str, seconds: float) -> AsyncGenerator[None]:
        """Hold the lock of that name; TokenStoreError about `place` if it is not free in time."""
        patience = _Patience(time.monotonic() + seconds, Event())
        try:
            async with asyncio.timeout(seconds + _GRACE):
                held = await in_thread(partial(self._take, name, patience), _release)
        except TimeoutError:
            problem = f"their lock did not respond within {in_seconds(seconds + _GRACE)}"
            raise TokenStoreError(place, "unavailable", problem, "check the disk") from None
        except _Busy as busy:
            where = "" if busy.path is None else f" ({busy.path})"
            problem = f"they were in use{busy.holder} for more than {in_seconds(seconds)}{where}"
            raise TokenStoreError(place, "busy", problem, "wait for it, or end it") from None
        finally:
            patience.given_up.set()
        try:
            yield
        finally:
            held.release()

    def _take(self, name: str, patience: _Patience) -> _Held:
        problem = ""
        for path_of in self._places:
            try:
                return _take_file(path_of(name), patience)
            except OSError as error:
                problem = error.strerror or type(error).__name__
        if self._places and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "tokens are not locked against other processes (%s); two that renew the same login at once "
                "may have to sign in again",
                problem,
            )
        return _take_in_process(name, patience)


def _release(held: _Held) -> None:
    held.release()


class _HeldFile:
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


def _take_file(path: Path, patience: _Patience) -> _HeldFile:
    # Not through a link: this writes to the file.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = FileIO(os.open(path, flags, 0o600), "r+")
    try:
        for _ in patience.attempts():
            if try_lock(file.fileno()):
                with suppress(OSError):  # a full disk; it is only for messages
                    file.truncate(0)
                    file.write(str(os.getpid()).encode())
                return _HeldFile(file)
        raise _Busy(path, _holder(file))
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


@dataclass(frozen=True, slots=True)
class _HeldInProcess:
    lock: Lock

    def release(self) -> None:
        self.lock.release()


def _take_in_process(name: str, patience: _Patience) -> _HeldInProcess:
    with _guard:
        lock = _process_locks.setdefault(name, Lock())
    for _ in patience.attempts():
        if lock.acquire(blocking=False):
            return _HeldInProcess(lock)
    raise _Busy(None, " by this process")
