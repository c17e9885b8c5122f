"""The callers of the soak: each calls again and again, with an id of its own every time."""

import asyncio
from collections.abc import Iterable
from itertools import count
from random import Random

from bench.audit import Book, Check, Told, told
from toolbus import Toolbus, ToolbusError

PATIENCE = 2.0
"""Seconds a call may take, the coming back of its server included."""
HASTE = 0.002
"""Seconds that the few calls in a hurry give the server."""
SHARE_IN_HASTE = 0.01
SHARE_OF_READS = 0.3
AFTER_FAILURE = 0.05
"""Seconds a caller waits after a call that failed."""
RECOVERY = 15.0
"""Seconds in which every server answers again once nobody kills it."""


class Crowd:
    """Calls on a bus, and notes what every call came to."""

    def __init__(self, bus: Toolbus, book: Book) -> None:
        self._bus = bus
        self._book = book
        self._ids = count(1)

    async def call(self, server: str, tool: str, timeout: float = PATIENCE) -> Told:
        """One call; gives what its caller was told."""
        number = next(self._ids)
        try:
            result = await self._bus.call(f"{server}_{tool}", {"id": number}, timeout=timeout)
        except ToolbusError as error:
            outcome, fact = told(error), repr(error)
        else:
            answered = result.text == str(number) and not result.is_error
            outcome, fact = "ok" if answered else "wrong answer", result.text
        self._book.enter(number, server, tool, outcome, fact)
        return outcome

    async def keep_calling(self, server: str, random: Random, until: float) -> None:
        """One call after another, until that time of the loop."""
        clock = asyncio.get_running_loop().time
        while clock() < until:
            tool = "read" if random.random() < SHARE_OF_READS else "count"
            timeout = HASTE if random.random() < SHARE_IN_HASTE else PATIENCE
            if await self.call(server, tool, timeout) != "ok":
                await asyncio.sleep(AFTER_FAILURE)

    async def recovery(self, servers: Iterable[str]) -> Check:
        """That every server answers once it is left alone."""

        async def answers(server: str) -> str | None:
            try:
                async with asyncio.timeout(RECOVERY):
                    # A link that is down is a state to ask for again, not an event to wait for.
                    while await self.call(server, "read") != "ok":  # noqa: ASYNC110
                        await asyncio.sleep(AFTER_FAILURE)
            except TimeoutError:
                return f"{server}: {self._bus.servers[server]}"
            return None

        found = await asyncio.gather(*map(answers, servers))
        silent = tuple(fact for fact in found if fact)
        return Check(
            f"every server answers within {RECOVERY:g} s of the end of the kills", len(found), silent
        )
