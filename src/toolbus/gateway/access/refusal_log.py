"""Refused requests in the log: each with its reason, but not so many that they fill the disk."""

import logging
from collections.abc import Callable

logger = logging.getLogger("toolbus")

MOST = 20
"""Lines in one period."""
PERIOD = 10.0


class RefusalLog:
    """Logs refusals; those beyond the most are counted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = float("-inf")
        self._lines = 0

    def refused(self, address: str, reason: str) -> None:
        """Log a refusal. The reason must not contain a credential."""
        now = self._clock()
        if now - self._since >= PERIOD:
            if self._lines > MOST:
                logger.warning("the gateway refused %d more requests", self._lines - MOST)
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines <= MOST:
            logger.warning("the gateway refused a request of %s: %s", address or "a local socket", reason)
