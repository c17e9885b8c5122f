"""The retry schedule of a connection: exponential backoff with jitter, and a circuit breaker.

A lost link is retried at once, then after growing pauses. After several failures in a row, the breaker
opens. A process is then started rarely, and on demand. An HTTP server, which is cheap to try, is still
tried every few seconds. Failures are forgotten only after a link was up for a while. Otherwise a server
that crashes on its first call would be restarted forever.
"""

import random
from dataclasses import dataclass

INITIAL_PAUSE = 0.25
MAX_PAUSE = 5.0
BREAKER_THRESHOLD = 6
"""Failures in a row that open the breaker."""
OPEN_PAUSE = 30.0
MAX_OPEN_PAUSE = 300.0
STABLE_AFTER = 10.0
"""Seconds a link has to be up before its failures are forgotten."""


@dataclass(slots=True)
class Backoff:
    """Counts the failures in a row, and computes the pause before the next attempt."""

    failures: int = 0

    @property
    def open(self) -> bool:
        return self.failures >= BREAKER_THRESHOLD

    def record_failure(self, *, open_breaker: bool = False) -> None:
        """Count an attempt that failed, or a link that was lost."""
        self.failures = max(self.failures + 1, BREAKER_THRESHOLD if open_breaker else 0)

    def record_uptime(self, seconds: float) -> None:
        """Forget the failures if a link was up long enough."""
        if seconds >= STABLE_AFTER:
            self.failures = 0

    def pause(self, *, spawns: bool = True) -> float:
        """Seconds to wait before the next attempt; fewer if it does not spawn a process."""
        if self.failures == 0:
            return 0.0
        if self.open and spawns:
            longest = min(OPEN_PAUSE * 2 ** min(self.failures - BREAKER_THRESHOLD, 10), MAX_OPEN_PAUSE)
        else:
            longest = min(INITIAL_PAUSE * 2 ** min(self.failures - 1, 10), MAX_PAUSE)
        # Jitter, so that many links lost at the same time do not reconnect at the same time.
        return longest * random.uniform(0.5, 1.0)
