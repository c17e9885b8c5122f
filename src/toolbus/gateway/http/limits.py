"""Limits for a client of the HTTP front, and reports about clients that exceed them."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolbus.core.operation.quota import Quota
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.metrics import Metrics
from toolbus.gateway.protocol.principal import Principal

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
    """The time that a client may leave messages unread; the connection is then closed."""
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
    """The delay of a refusal when there are too many requests.

    A client that retries at once cannot keep the gateway busy with refusals.
    """
    keepalive_seconds: float = 15.0
    """Seconds between two heartbeats on a stream; also the time a request may take before its stream begins.
    """
    backlog_bytes: int = 8 * 1024 * 1024
    """The bytes that may wait to be written to one stream; a client that reads slower is disconnected."""
    replay_bytes: int = 1024 * 1024
    """The bytes of its streams that a legacy session keeps, for a client that lost its connection."""
    streams_bytes: int = 256 * 1024 * 1024
    """The bytes that all legacy sessions keep of their streams; one principal gets at most half."""
    replay_seconds: float = 120.0
    """The time that it keeps a stream that has ended."""
    drain_seconds: float = 30.0
    """The time that running requests get to end when the gateway stops."""


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


LARGE_BODIES = 16
"""The bodies of the largest size for which there is room at a time."""


class InFlight:
    """Counts requests from when they are admitted until they are answered."""

    def __init__(self, limits: HttpLimits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._requests = Quota(limits.requests, limits.requests_per_principal)
        self._bytes = Quota(LARGE_BODIES * limits.body_bytes)
        self._ended = asyncio.Event()

    def take(self, principal: Principal) -> int:
        """Count one more; the HTTP status to refuse it with if that is too many, or 0."""
        if self._requests.free <= 0:
            return 503
        if not self._requests.take(principal.holder):
            return 429
        self._metrics.in_flight += 1
        return 0

    def reserve(self, http: HttpRequest) -> bool:
        """Reserve the most that the large body of a request may have; False if there is no room for it."""
        declared = http.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else self._limits.body_bytes
        if not self._bytes.take(http.principal.holder, size):
            return False
        http.reserved = size
        return True

    def note_size(self, http: HttpRequest) -> None:
        """The body of a request was read: it takes no more room than it has bytes."""
        if (more := http.reserved - http.size) > 0:
            self._bytes.release(http.principal.holder, more)
            http.reserved = http.size

    def release(self, http: HttpRequest) -> None:
        self._release(http.principal, http.reserved)
        http.reserved = 0

    def keep(self, http: HttpRequest, call: asyncio.Task[Any]) -> None:
        """Count a call that goes on after its HTTP request has ended."""
        principal, reserved = http.principal, http.reserved
        self._requests.add(principal.holder)
        self._metrics.in_flight += 1
        http.reserved = 0
        call.add_done_callback(lambda _: self._release(principal, reserved))

    def _release(self, principal: Principal, reserved: int) -> None:
        self._ended.set()
        self._metrics.in_flight -= 1
        self._requests.release(principal.holder)
        if reserved:
            self._bytes.release(principal.holder, reserved)

    async def wait_for_none(self) -> None:
        while self._metrics.in_flight:
            self._ended.clear()
            await self._ended.wait()
