"""When to try again: soon at first, then ever later, and never in step with others.

A link that was up and is lost comes back at once, then after growing pauses. When that fails too
often in a row the breaker opens. From then on a process is started now and then, and when somebody
needs it; a web server, which costs nothing to try, is looked for every few seconds. A link counts as
up again only after a while, or a server that dies of its first call would be started without end.
"""

import random
from dataclasses import dataclass

FIRST = 0.25
SOON_AT_MOST = 5.0
TRIES = 6
"""Failures in a row that open the breaker."""
LATER = 30.0
LATER_AT_MOST = 300.0
STABLE = 10.0
"""Seconds a link has to be up for its failures to be forgotten."""


@dataclass(slots=True)
class Backoff:
    """Counts the failures in a row and gives the pause before the next attempt."""

    failures: int = 0

    @property
    def open(self) -> bool:
        """Whether the breaker is open."""
        return self.failures >= TRIES

    def failed(self, *, for_good: bool = False) -> None:
        """An attempt failed, or a link was lost soon; `for_good` opens the breaker at once."""
        self.failures = max(self.failures + 1, TRIES if for_good else 0)

    def held(self, seconds: float) -> None:
        """A link was up for that long."""
        if seconds >= STABLE:
            self.failures = 0

    def pause(self, *, spawns: bool = True) -> float:
        """Seconds to wait before the next attempt; shorter ones if that spawns no process."""
        if self.failures == 0:
            return 0.0
        if self.open and spawns:
            longest = min(LATER * 2 ** min(self.failures - TRIES, 10), LATER_AT_MOST)
        else:
            longest = min(FIRST * 2 ** min(self.failures - 1, 10), SOON_AT_MOST)
        # Between half and whole, so that many links lost together do not come back together.
        return longest * random.uniform(0.5, 1.0)
