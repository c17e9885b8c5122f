"""What a server suggests for an argument while the shell waits: within seconds or not at all, in silence."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from toolbus.config import BusConfig, find_config, load_config

PATIENCE = 5.0
"""Seconds that a server has to start and to answer."""
LEAVING = 0.5
"""Seconds that it has to end, by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The argument that is being typed: of a prompt, or of a template."""

    server: str
    name: str
    argument: str
    begun: str
    known: Mapping[str, str]
    """The arguments that are given already."""


def suggested(file: str | None, wanted: Wanted) -> tuple[str, ...]:
    """What the argument may be; nothing where the server does not say so in time."""
    logging.disable()
    try:
        return asyncio.run(_asked(load_config(file or find_config()), wanted))
    except Exception:  # the edge of a Tab: whatever went wrong, the person is in the middle of a line
        return ()


async def _asked(config: BusConfig, wanted: Wanted) -> tuple[str, ...]:
    from toolbus.bus import Toolbus

    server = config.servers[wanted.server]
    timeouts = server.timeouts.model_copy(update={"close": min(LEAVING, server.timeouts.close)})
    alone = server.model_copy(update={"timeouts": timeouts, "lazy": False, "required": True})
    bus = Toolbus(config.model_copy(update={"servers": {wanted.server: alone}}))
    try:
        async with asyncio.timeout(PATIENCE):
            await bus.start()
            found = await bus.complete(
                wanted.server, wanted.name, wanted.argument, wanted.begun, known=wanted.known
            )
    finally:
        await bus.stop()
    return found.values
