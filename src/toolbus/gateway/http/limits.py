"""What a client may take of the HTTP front, and what is reported when it wants more."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from toolbus.gateway.metrics import Metrics

logger = logging.getLogger("toolbus")

REPORT_EVERY = 60.0
MOST_REPORTED = 1000
"""The reports of a minute; further refusals are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of the HTTP front; seconds and bytes."""

    head_bytes: int = 32 * 1024
    """The request line and the headers of a request (431)."""
    headers: int = 100
    """The headers of a request (431)."""
    body_bytes: int = 4 * 1024 * 1024
    """The body of a request, declared or not (413)."""
    values: int = 100_000
    """The JSON values in a body (400)."""
    head_seconds: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its headers (408)."""
    body_seconds: float = 30.0
    """From there to the end of its body (408)."""
    idle_seconds: float = 75.0
    """Between two requests on a connection, which is then closed."""
    unread_seconds: float = 30.0
    """How long a client may leave unread what was sent to it; the connection is then closed."""
    handshake_seconds: float = 10.0
    """From an accepted connection to the end of its TLS handshake; it is then closed."""
    handshakes: int = 512
    """TLS handshakes under way; one address has at most as many as are left."""
    connections: int = 4096
    """Connections, from the moment they are accepted (503; over TLS, closed without a handshake)."""
    connections_per_address: int = 2048
    """Open connections of one address; a trusted proxy may have all of them (503)."""
    requests: int = 2048
    """Requests in flight (503); one principal has at most as many as are left (429)."""
    requests_per_principal: int = 1024
    """Requests in flight of one principal (429)."""
    refusal_seconds: float = 1.0
    """How long the answer to a request takes that is one too many: a client that tries again at once cannot
    keep the gateway busy with refusals."""
    keepalive_seconds: float = 15.0
    """Between two signs of life on a stream; also how long a request may take before its stream begins."""
    backlog_bytes: int = 8 * 1024 * 1024
    """What waits to be written to one stream; the connection of a client that reads slower is closed."""
    replay_bytes: int = 1024 * 1024
    """What a legacy session keeps of its streams, for a client that lost its connection."""
    streams_bytes: int = 256 * 1024 * 1024
    """What all legacy sessions keep of their streams, of which one principal has at most half."""
    replay_seconds: float = 120.0
    """How long it keeps a stream that has ended."""
    drain_seconds: float = 30.0
    """How long running requests may take to end when the gateway stops."""


class Refusals:
    """Counts refused requests, and reports each kind once a minute for each address."""

    def __init__(self, metrics: Metrics, now: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._now = now
        self._since = now()
        self._reported: set[tuple[str, str]] = set()

    def note(self, kind: str, address: str, reason: str) -> None:
        """Take note of a refusal; `reason` quotes nothing that the client sent."""
        self._metrics.refused[kind] += 1
        now = self._now()
        if now - self._since >= REPORT_EVERY:
            self._since = now
            self._reported.clear()
        if (kind, address) in self._reported or len(self._reported) >= MOST_REPORTED:
            return
        self._reported.add((kind, address))
        logger.warning("the gateway refused a request of %s: %s", address or "a local client", reason)
