"""What is done with several links at once: open, close, probe."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolbus.core.values.errors import ServerDown, ToolbusError
from toolbus.core.values.records import Health, ServerStatus

if TYPE_CHECKING:  # a bus can show its servers without links
    from toolbus.connect.link import Link

INACTIVE_AFTER = 1.0
"""Seconds without activity after which a start no longer waits for a server."""
POLL_INTERVAL = 0.1


def is_down(link: "Link | None") -> bool:
    """Whether a link is not ready; False if there is none."""
    return link is not None and link.state != "ready"


def status_of(link: "Link", tools: int) -> ServerStatus:
    """The state of a link; `tools` is the number of its tools in the catalog."""
    return ServerStatus(
        state=link.state,
        era=link.era,
        protocol=link.protocol,
        tools=tools,
        restarts=link.restarts,
        error=str(link.error) if link.error else None,
        since=link.since,
    )


async def open_links(links: "Iterable[Link]") -> None:
    """Connect all that are not lazy, concurrently; raises the error of a required one that fails.

    Does not wait for an inactive server once others can be used.
    """
    eager = [link for link in links if not link.config.lazy]
    opening = {asyncio.create_task(link.open()) for link in eager}
    try:
        while opening and not _can_return(eager):
            _, opening = await asyncio.wait(opening, timeout=POLL_INTERVAL)
    finally:
        for waiting in opening:
            waiting.cancel()
    for link in eager:
        if link.config.required and link.state != "ready":
            raise link.error or ServerDown(link.config.alias, link.state, None)


async def close_links(links: "Iterable[Link]") -> None:
    """Disconnect all, concurrently."""
    await asyncio.gather(*(link.close() for link in links))


def _can_return(links: "Sequence[Link]") -> bool:
    """Whether a start may return: some are ready and the others inactive."""
    waiting = [link for link in links if link.state in ("idle", "connecting")]
    return any(link.state == "ready" for link in links) and all(
        link.inactive > INACTIVE_AFTER and not link.config.required for link in waiting
    )


async def probe(link: "Link") -> Health:
    """Whether the server of a link answers; no connection is made."""
    if link.state == "idle":
        return Health(ok=True)  # it is not needed, and nothing is wrong
    began = time.perf_counter()
    try:
        await link.session.probe()
    except ToolbusError as error:
        return Health(ok=False, error=str(error))
    return Health(ok=True, latency_ms=(time.perf_counter() - began) * 1000)
