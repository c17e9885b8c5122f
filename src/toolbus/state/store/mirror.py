"""A copy in memory of all values of a kind, for those who cannot wait for a database at each request."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from toolbus.core.values.errors import StoreError
from toolbus.state.store.store import Store

logger = logging.getLogger("toolbus")

LOOK_SECONDS = 1.0
"""The interval between two questions to the store about changes."""


class Mirror:
    """Follows one kind, from `start` to `close`: a change elsewhere is here within two seconds."""

    def __init__(self, store: Store, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.kind = kind
        self.values: Mapping[str, bytes] = {}
        self.version = 0
        """Grows whenever the values change."""
        self._clock = clock
        self._looked = float("-inf")
        self._state: object = None
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the values, and follow them; StoreError if they cannot be read."""
        if self._following is None:
            await self.look()
            self._following = asyncio.create_task(self._follow(), name=f"toolbus mirror {self.kind}")

    async def close(self) -> None:
        """Follow them no longer."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None

    @property
    def age(self) -> float:
        """The seconds since the values were known to be current."""
        return self._clock() - self._looked

    async def look(self) -> None:
        """Read the values if something changed."""
        asked = self._clock()
        state = await self.store.state(self.kind)
        if state != self._state:
            # The state first: what changes in between is read twice, and nothing is missed.
            self.values = await self.store.items(self.kind)
            self.version += 1
            self._state = state
        self._looked = asked

    async def _follow(self) -> None:
        is_lost = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except StoreError as error:
                if not is_lost:
                    logger.warning("%s (what was read before is used meanwhile)", error)
                is_lost = True
            else:
                is_lost = False
