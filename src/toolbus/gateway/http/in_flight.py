"""The requests in flight, in all and of each principal."""

import asyncio
from typing import Any

from toolbus.core.operation.quota import Quota
from toolbus.gateway.http.limits import Limits
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.metrics import Metrics
from toolbus.gateway.protocol.principal import Principal

LARGE_BODIES = 16
"""The bodies of the largest size for which there is room at a time."""


class InFlight:
    """Counts requests from when they are admitted until they are answered."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._requests = Quota(limits.requests, limits.requests_per_principal)
        self._bytes = Quota(LARGE_BODIES * limits.body_bytes)
        self._ended = asyncio.Event()

    def take(self, principal: Principal) -> int:
        """Count one more; the HTTP status to refuse it with if that is too many, or 0."""
        if self._requests.free <= 0:
            return 503
        if not self._requests.take(principal.owner):
            return 429
        self._metrics.in_flight += 1
        return 0

    def reserve(self, http: HttpRequest) -> bool:
        """Reserve the most that the large body of a request may have; False if there is no room for it."""
        declared = http.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else self._limits.body_bytes
        if not self._bytes.take(http.principal.owner, size):
            return False
        http.reserved = size
        return True

    def note_size(self, http: HttpRequest) -> None:
        """The body of a request was read: it takes no more room than it has bytes."""
        if (more := http.reserved - http.size) > 0:
            self._bytes.release(http.principal.owner, more)
            http.reserved = http.size

    def release(self, http: HttpRequest) -> None:
        """A request was answered."""
        self._release(http.principal, http.reserved)
        http.reserved = 0

    def keep(self, http: HttpRequest, call: asyncio.Task[Any]) -> None:
        """Count a call that goes on after its HTTP request has ended."""
        principal, reserved = http.principal, http.reserved
        self._requests.add(principal.owner)
        self._metrics.in_flight += 1
        http.reserved = 0
        call.add_done_callback(lambda _: self._release(principal, reserved))

    def _release(self, principal: Principal, reserved: int) -> None:
        self._ended.set()
        self._metrics.in_flight -= 1
        self._requests.release(principal.owner)
        if reserved:
            self._bytes.release(principal.owner, reserved)

    async def wait_for_none(self) -> None:
        """Wait until no request is in flight."""
        while self._metrics.in_flight:
            self._ended.clear()
            await self._ended.wait()
