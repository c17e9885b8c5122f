"""The text of chosen resources, for the context of an agent."""

import asyncio
import logging
from collections.abc import Sequence

from toolbus.bus import Toolbus
from toolbus.errors import ToolbusError
from toolbus.extension.manifest import Chosen
from toolbus.records import Embedded
from toolbus.visible import cleaned

SECONDS = 10.0
"""How long a resource may take: an agent waits for all of them."""
logger = logging.getLogger("toolbus")


async def texts(bus: Toolbus, chosen: Sequence[Chosen]) -> list[str]:
    """The resources that can be read, in their order, each under a line that says whose it is."""
    found = await asyncio.gather(*(_text(bus, one) for one in chosen))
    return [text for text in found if text is not None]


async def _text(bus: Toolbus, chosen: Chosen) -> str | None:
    try:
        async with asyncio.timeout(SECONDS):
            parts = await bus.read_resource(chosen.server, chosen.uri)
    except (ToolbusError, TimeoutError) as error:
        problem = str(error) or f"server {chosen.server!r}: gave no answer in {SECONDS:g} s"
        logger.warning("resource %r is not in the context: %s", chosen.uri, problem)
        return None
    return "\n".join([f"[MCP: {chosen.server}] {chosen.uri}", *map(_shown, parts)])


def _shown(part: Embedded) -> str:
    if part.text is not None:
        return cleaned(part.text)
    return f"({len(part.data or b'')} bytes of {part.mime_type or 'unknown kind'})"
