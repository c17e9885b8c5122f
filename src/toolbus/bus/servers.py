"""The servers of a bus: a link to each, and what each offers."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from toolbus.config import BusConfig, Secrets
from toolbus.connect import Link, requests
from toolbus.core.errors import ServerDown, ServerError, ServerNotFound, ToolbusError
from toolbus.core.events import Emit
from toolbus.core.interactions import Interactions, with_roots
from toolbus.core.records import Health, Inventory, ServerStatus
from toolbus.discover import Discovery, Subscriptions

logger = logging.getLogger("toolbus")

PATIENCE = 1.0
"""Seconds without a sign of life after which a start no longer waits for a server."""
LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Server:
    """One of them."""

    link: Link
    discovery: Discovery


class Servers:
    """All of them, by alias, in the order of the config."""

    def __init__(self, changed: Callable[[], None], emit: Emit, interactions: Interactions) -> None:
        self._changed = changed
        self._emit = emit
        self._own_interactions = interactions
        self._interactions = interactions
        """With the roots of the config that counts now."""
        self._servers: dict[str, Server] = {}
        self.links: dict[str, Link] = {}
        self._opening: set[Link] = set()
        """Links that are not in place yet."""
        self._untold: list[Link] = []
        """Links whose servers do not know of the new roots yet."""

    def __getitem__(self, alias: str) -> Link:
        """The link of that alias; `ServerNotFound` names the near misses."""
        if alias not in self.links:
            raise ServerNotFound(alias, list(self.links))
        return self.links[alias]

    def subscriptions(self, alias: str) -> Subscriptions:
        """The resources of a server that somebody wants to hear of."""
        _ = self[alias]
        return self._servers[alias].discovery.subscriptions

    @property
    def inventories(self) -> dict[str, Inventory]:
        """What each offers now; a server that is away still has what it offered last."""
        return {alias: server.discovery.inventory for alias, server in self._servers.items()}

    @property
    def down(self) -> dict[str, Link]:
        """The links that are not ready."""
        return {alias: link for alias, link in self.links.items() if link.state != "ready"}

    def why_down(self, likely: Sequence[str]) -> str | None:
        """Why the server that is likely meant is not ready; the only one there is always is meant."""
        down = self.down
        for alias in likely or (down if len(self.links) == 1 else ()):
            error = down[alias].error
            # Without the server's name, which stands here already.
            reason = f": {error.problem if isinstance(error, ServerError) else error}" if error else ""
            return f"server {alias!r} is not connected ({down[alias].state}){reason}"
        return None

    def status(self, tools: Mapping[str, int]) -> dict[str, ServerStatus]:
        """The truth about each, now; `tools` counts what each has in the catalog."""
        return {alias: _status(link, tools.get(alias, 0)) for alias, link in self.links.items()}

    def made(self, config: BusConfig, secrets: Secrets) -> dict[str, Server]:
        """Those of a config that are new or changed, not in place and not connected yet."""
        interactions = with_roots(self._own_interactions, config.root_folders)
        # Whether there are any is declared with a connection, so all have to be made anew.
        redeclared = (interactions.roots is None) is not (self._interactions.roots is None)
        servers: dict[str, Server] = {}
        for alias, server in config.servers.items():
            if redeclared or alias not in self.links or self.links[alias].config != server:
                discovery = Discovery(alias, self._changed, self._emit)
                link = Link(server, secrets, discovery, self._emit, interactions)
                servers[alias] = Server(link, discovery)
        return servers

    def put(self, fresh: Mapping[str, Server], config: BusConfig) -> dict[str, Server]:
        """Put servers in place, and keep only those of the config; gives those that had to go."""
        gone = {a: server for a, server in self._servers.items() if a not in config.servers or a in fresh}
        now = self._servers | dict(fresh)
        self._servers = {alias: now[alias] for alias in config.servers}
        self.links.clear()
        self.links.update({alias: server.link for alias, server in self._servers.items()})
        before = self._interactions.roots
        self._interactions = with_roots(self._own_interactions, config.root_folders)
        if self._interactions.roots != before:
            self._untold = [link for alias, link in self.links.items() if alias not in fresh]
            for link in self._untold:
                link.handler.change_roots(self._interactions.roots)
        return gone

    async def tell_roots(self) -> None:
        """Tell those who stayed that the roots changed, if they did."""
        untold, self._untold = self._untold, []
        for told in await asyncio.gather(*map(_tell_roots, untold), return_exceptions=True):
            if isinstance(told, ToolbusError):  # the server asks again when it is back
                logger.debug("%s", told)

    async def opened(self, config: BusConfig, secrets: Secrets) -> dict[str, Server]:
        """As `made`, connected but not in place yet; none is left open if that fails."""
        fresh = self.made(config, secrets)
        links = [server.link for server in fresh.values()]
        self._opening.update(links)
        try:
            await opened(links)
        except BaseException:
            await closed(links)
            raise
        finally:
            self._opening.difference_update(links)
        return fresh

    async def close(self) -> None:
        """Disconnect from all of them, also from those that are being connected."""
        await closed([*self.links.values(), *self._opening])

    async def health(self) -> dict[str, Health]:
        """Ask every live link for a sign of life."""
        links = dict(self.links)  # servers may come and go meanwhile
        answers = await asyncio.gather(*map(_probed, links.values()))
        return dict(zip(links, answers, strict=True))

    async def wait_ready(self, aliases: Collection[str] | None, timeout: float) -> None:
        """Return when these are ready or cannot be, or after that time; by default all that are not idle."""
        links = [
            link
            for alias, link in self.links.items()
            if (link.state != "idle" if aliases is None else alias in aliases)
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(link.wait_ready() for link in links))


def _status(link: Link, tools: int) -> ServerStatus:
    return ServerStatus(
        state=link.state,
        era=link.era,
        protocol=link.protocol,
        tools=tools,
        restarts=link.restarts,
        error=str(link.error) if link.error else None,
        since=link.since,
    )


async def opened(links: Iterable[Link]) -> None:
    """Connect all that are not lazy, at once; raises the error of a required one that fails.

    Does not wait for a server that shows no sign of life once others can be used.
    """
    eager = [link for link in links if not link.config.lazy]
    opening = {asyncio.create_task(link.open()) for link in eager}
    try:
        while opening and not _enough(eager):
            _, opening = await asyncio.wait(opening, timeout=LOOK_EVERY)
    finally:
        for waiting in opening:
            waiting.cancel()
    for link in eager:
        if link.config.required and link.state != "ready":
            raise link.error or ServerDown(link.config.alias, link.state, None)


async def closed(links: Iterable[Link]) -> None:
    """Disconnect all, at once."""
    await asyncio.gather(*(link.close() for link in links))


def _enough(links: Sequence[Link]) -> bool:
    """Whether a start may return: some are ready and the others silent."""
    waiting = [link for link in links if link.state in ("idle", "connecting")]
    return any(link.state == "ready" for link in links) and all(
        link.quiet > PATIENCE and not link.config.required for link in waiting
    )


async def _tell_roots(link: Link) -> None:
    if link.state == "ready":  # others ask once they are connected
        await requests.tell_roots(link.session)


async def _probed(link: Link) -> Health:
    if link.state == "idle":
        return Health(ok=True)  # nothing is wrong with it, nobody needs it
    began = time.perf_counter()
    try:
        await link.session.probe()
    except ToolbusError as error:
        return Health(ok=False, error=str(error))
    return Health(ok=True, latency_ms=(time.perf_counter() - began) * 1000)
