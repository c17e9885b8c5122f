"""The requests in flight, in all and of each principal."""

import asyncio
from typing import Any

from toolbus.gateway.http.limits import Limits
from toolbus.gateway.metrics import Metrics


class InFlight:
    """Counts requests from when they are admitted until they are answered."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._by_principal: dict[str, int] = {}
        self._ended = asyncio.Event()

    def take(self, principal: str) -> int:
        """Count one more; the HTTP status to refuse it with if that is too many, or 0."""
        count = self._by_principal.get(principal, 0)
        free = self._limits.requests - self._metrics.in_flight
        if free <= 0:
            return 503
        # Nobody gets more than is left: one alone half of it, and whoever comes next finds room.
        if count >= min(free, self._limits.requests_per_principal):
            return 429
        self._by_principal[principal] = count + 1
        self._metrics.in_flight += 1
        return 0

    def release(self, principal: str) -> None:
        """Count one less."""
        self._ended.set()
        self._metrics.in_flight -= 1
        count = self._by_principal[principal] - 1
        if count:
            self._by_principal[principal] = count
        else:
            del self._by_principal[principal]

    async def wait_for_none(self) -> None:
        """Wait until no request is in flight."""
        while self._metrics.in_flight:
            self._ended.clear()
            await self._ended.wait()

    def keep(self, principal: str, call: asyncio.Task[Any]) -> None:
        """Count a call that goes on after its HTTP request has ended."""
        self._by_principal[principal] = self._by_principal.get(principal, 0) + 1
        self._metrics.in_flight += 1
        call.add_done_callback(lambda _: self.release(principal))
