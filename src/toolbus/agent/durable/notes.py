"""What is noted of a run beside its journal: which of its tools are held, and what was accepted."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from toolbus.agent.durable.store import RunStore

T = TypeVar("T")
HELD, ACCEPTED = "held", "accepted"
_PAUSE = 1.0


class RunNotes:
    """The notes of one run, in its attributes; waits for a store that cannot be reached."""

    def __init__(self, store: RunStore, run: str) -> None:
        self._store = store
        self._run = run

    async def note_held(self, held: Mapping[str, str], /) -> None:
        """Show which tools are held, with the digests of their definitions now."""
        await _patiently(lambda: self._store.note(self._run, {HELD: dict(held)}))

    async def accepted(self) -> Mapping[str, str]:
        """The definitions that somebody accepted."""
        return (await _patiently(lambda: self._store.notes(self._run))).get(ACCEPTED, {})


async def _patiently(work: Callable[[], T]) -> T:
    while True:
        try:
            return await asyncio.to_thread(work)
        except DBAPIError:
            await asyncio.sleep(_PAUSE)
