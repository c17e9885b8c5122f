"""What a transport saw of its server, kept for the error message.

The SDK reports most failures as "connection closed" or "error response". The witness keeps what it
does not: how far things came, the exit code, the last lines on stderr, the HTTP status.
"""

import asyncio
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field

from toolbus.errors import Phase

STDERR_LINES = 100
STDERR_WIDTH = 500


@dataclass(slots=True)
class Witness:
    """One per incarnation of a connection, filled by the transport."""

    phase: Phase = "connect"
    exit_code: int | None = None
    stderr: deque[str] = field(default_factory=lambda: deque[str](maxlen=STDERR_LINES))
    lost: str | None = None
    """Why the connection is over."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the connection is over, however that came."""

    @property
    def ended(self) -> str:
        """How the process ended, in words."""
        assert self.exit_code is not None
        return f"exit code {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"

    def lose(self, reason: str) -> None:
        """The connection is over; the first reason counts."""
        if self.lost is None:
            self.lost = reason
        self.gone.set()

    def tail(self) -> tuple[str, ...]:
        """The last lines on stderr that say anything."""
        return tuple(line for line in self.stderr if line.strip())[-10:]


@dataclass(slots=True)
class Exchange:
    """What HTTP answered to one request; filled below the SDK, which keeps only "error response"."""

    status: int | None = None
    fault: str | None = None


# The SDK carries the context of whoever sends a message down to the HTTP client: so each caller
# finds the status of its own request, however many are under way.
EXCHANGE: ContextVar[Exchange | None] = ContextVar("toolbus_exchange", default=None)
