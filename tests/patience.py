"""Time limits of tests for events, and ways to wait where no event reports something."""

import asyncio
import time
from collections.abc import Callable

PATIENCE = 300.0
"""A limit that only a hanging test exceeds, even on a busy machine: no test fails for being slow."""
PAUSE = 0.005


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so, for what no event tells, such as the end of a process."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)


def wait_until(is_so: Callable[[], bool], what: str = "it did not come to that") -> None:
    """The same for a thread of its own, or where there is no event loop."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(PAUSE)
