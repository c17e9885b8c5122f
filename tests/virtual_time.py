"""A loop whose clock jumps: while all tasks only wait for a time, that time comes at once.

It is for tests of durations within one loop. While it waits for a time, it ignores input of other processes
and threads, so a test must not depend on such input.
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
"""The value of the fixture `anyio_backend` in a module whose tests run in such a loop."""
