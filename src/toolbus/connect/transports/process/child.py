"""The interface of a server's process, however it was started, and the helpers of its start."""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from toolbus.connect.forks import detach_after_fork

if sys.platform != "win32":
    import fcntl
    import termios


FILTER_FD = 3
"""The descriptor at which a process finds its filter of system calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The program to start, with its environment."""

    command: Sequence[str]
    """The path of the program, and its arguments."""
    env: dict[str, str]
    folder: str | None = None
    """Its working directory; by default ours."""
    syscall_filter: bytes = b""
    """The bytes that the program can read at `FILTER_FD`."""
    wrappers: int = 0
    """The number of wrapper processes around the server, one inside the other; they end when it does."""


class ChildEvents(Protocol):
    """Receives what happens to a process, as `asyncio.SubprocessProtocol` does."""

    def pipe_data_received(self, fd: int, data: bytes) -> None: ...

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None: ...

    def process_exited(self, code: int | None) -> None:
        """It ended, with its exit code, or with the negative signal that killed it."""
        ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Child(Protocol):
    """A process that was started, and its descendants."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> asyncio.WriteTransport: ...

    @property
    def unread(self) -> int:
        """The number of unread bytes of its input, as far as the system reports it."""
        ...

    def terminate(self) -> bool:
        """Ask it and its descendants to end; returns whether any may be left."""
        ...

    def kill(self) -> bool:
        """Kill it and its descendants; returns whether any may be left."""
        ...

    async def wait_gone(self) -> None:
        """Wait until none is left; the caller sets a timeout."""
        ...

    def close(self) -> None:
        """Close its pipes; remaining processes are no longer observed."""
        ...


class HelperProcess:
    """A process that starts or ends servers for this one, and ends when our end of its input is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd = -1  # a number: a socket that is open at the end of the program would be warned of
        self._pid = 0
        self._owner = 0
        """The process that started it: a fork of that has to start its own."""
        self._watched = 0
        """The number of process groups that it currently watches."""

    def end(self) -> int:
        """Let it end if it has nothing to watch; returns the number of its process, 0 if none ends."""
        with self._lock:
            if self._fd < 0 or self._owner != os.getpid() or self._watched:
                return 0
            self._close()
            return self._pid

    def forget_ended(self, pid: int) -> None:
        """Forget the ended process: its number may soon belong to another child of this program."""
        with self._lock:
            if self._pid == pid:
                self._pid = 0

    def fds(self) -> list[int]:
        self._lock = threading.Lock()  # another thread may have held it in the parent
        self._watched = 0
        return [] if self._fd < 0 else [self._fd]

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _spawn(self, command: list[str], env: dict[str, str], stdin: int) -> None:
        """Start it, without our environment, which may contain secrets."""
        with open(os.devnull, "wb") as devnull:
            self._pid = os.posix_spawn(
                command[0],
                command,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin, 0),
                    (os.POSIX_SPAWN_DUP2, devnull.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, devnull.fileno(), 2),
                ],
                setsid=True,  # so that Ctrl+C in our terminal does not reach it
            )
        self._owner = os.getpid()
        detach_after_fork(self)


def unread_bytes(pipe: int) -> int:
    """The number of bytes in a pipe; 0 where the system does not report it."""
    count = bytearray(4)
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)
