"""The loop a bus lives on, and the way there from any other loop or thread."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolbus.errors import BusClosed

T = TypeVar("T")


class Home:
    """The running loop at the moment it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """Whether the caller runs on this loop."""
        return asyncio.get_running_loop() is self._loop

    @property
    def alive(self) -> bool:
        """Whether the loop still runs; on one that does not, nothing would ever come back."""
        return self._loop.is_running() and self._process == os.getpid()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the home loop, wherever the caller is; cancelling the caller cancels it there."""
        if self.here:
            return await work
        there = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return await asyncio.wrap_future(there)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled us: the home loop ended under the call.
            raise BusClosed() from None
