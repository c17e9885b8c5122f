"""What the process of a server is to its owner, however it was started."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

if sys.platform != "win32":
    import fcntl
    import termios


FILTER_FD = 3
"""The descriptor at which a process finds its filter of system calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start."""

    command: Sequence[str]
    """The path of the program, and its arguments."""
    env: dict[str, str]
    folder: str | None = None
    """Its working directory; by default ours."""
    syscall_filter: bytes = b""
    """What the program can read at `FILTER_FD`."""
    wrappers: int = 0
    """How many generations of processes stand around the server itself; they end when it does."""


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
        """How many bytes of its input it has not read, as far as the system reports it."""
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
        """Close its pipes; what is left of it is no longer observed."""
        ...


def unread_bytes(pipe: int) -> int:
    """How many bytes are in a pipe; 0 where the system does not report it."""
    count = bytearray(4)
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)
