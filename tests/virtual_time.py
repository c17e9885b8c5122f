"""A loop whose clock jumps: whoever waits for a time waits for nothing else, so that it is there at once.

For tests of durations that happen in one loop. Input of other processes and threads is not waited for while a
time is, so it must not be what a test depends on.
"""

import asyncio
import selectors
from typing import Any


class _Jumping(selectors.DefaultSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None and timeout > 0:
            self.skipped += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that never sleeps."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.skipped


VIRTUAL_TIME: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": VirtualTimeLoop})
"""What the fixture `anyio_backend` is in a module whose tests run in such a loop."""
