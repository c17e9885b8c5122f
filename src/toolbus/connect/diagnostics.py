"""What a transport saw of its server, kept for the error message.

The SDK reports most failures as "connection closed". The diagnostics keeps what it does not: how far
things came, the exit code, the last lines on stderr, why the connection is over, and when there was
the last sign of life.
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from toolbus.core.errors import Phase
from toolbus.core.stderr import telling_line

STDERR_LINES = 100
STDERR_WIDTH = 500
STDERR_RECENT = 40
"""How many of the last lines may hold the reason of an end; older ones are about something else."""
STDERR_SHOWN = 10


@dataclass(slots=True)
class Line:
    """Where a web server listens, and whether anything is under way there."""

    host: str
    port: int
    every: float | None
    """Seconds of silence after which it is looked for; None if that would only reach a proxy."""
    busy: int = 0
    """How many requests and streams are open."""
    used: float = field(default_factory=time.monotonic)
    """When the last one ended."""


@dataclass(slots=True)
class Diagnostics:
    """One per incarnation of a connection, filled by the transport."""

    phase: Phase = "connect"
    pid: int | None = None
    exit_code: int | None = None
    stderr: deque[str] = field(default_factory=lambda: deque[str](maxlen=STDERR_LINES))
    heard: int = 0
    """How many lines there were on stderr, those that are forgotten included."""
    withheld: Collection[str] = ()
    """The variables of our environment that the process did not get."""
    garbage: int = 0
    """How many lines of its standard output were not messages."""
    lost: str | None = None
    """Why the connection is over."""
    lost_by_server: bool = False
    """Whether the server has already forgotten us, so that there is nobody to say goodbye to."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the connection is over, however that came."""
    line: Line | None = None
    """Set for a web server."""
    _stirred: float = field(default_factory=time.monotonic)
    _worked: float = 0.0

    @property
    def ended(self) -> str:
        """How the process ended, in words."""
        assert self.exit_code is not None
        return f"exit code {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"

    @property
    def quiet(self) -> float:
        """Seconds without a sign of life. A process that works is alive, though it says nothing yet."""
        if self.pid is not None and (worked := _worked(self.pid)) != self._worked:
            self._worked = worked
            self.stir()
        return time.monotonic() - self._stirred

    def stir(self) -> None:
        """There was a sign of life."""
        self._stirred = time.monotonic()

    def lose(self, reason: str) -> None:
        """The connection is over; the first reason counts."""
        if self.lost is None:
            self.lost = reason
        self.gone.set()

    def hear(self, line: str) -> None:
        """A line on stderr."""
        self.stderr.append(line)
        self.heard += 1

    def tail(self, since: int = 0) -> tuple[str, ...]:
        """The last lines on stderr after the first `since`, headed by the telling one if that is older."""
        lines = list(self.stderr)[-(self.heard - since) :] if self.heard > since else []
        lines = [line for line in lines if line.strip()][-STDERR_RECENT:]
        last, told = lines[-STDERR_SHOWN:], telling_line(lines)
        return (*((told,) if told and telling_line(last) != told else ()), *last)


def _worked(pid: int) -> float:
    """The processor time of a process and all below it; where that cannot be known, ever more."""
    process = Path(f"/proc/{pid}")
    try:
        # After the command, which stands in brackets: user and system time, own and of waited-for children.
        ticks = sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
        below = (process / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return time.monotonic()
    return ticks + sum(_worked(int(child)) for child in below)
