"""Assembles the parts of a bus: servers, catalog, call path, lifecycle."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolbus.bus.lifecycle import Lifecycle
from toolbus.bus.live_catalog import LiveCatalog
from toolbus.bus.lock import BusLock
from toolbus.bus.scope import Scope
from toolbus.bus.servers import Servers
from toolbus.call import CallPath, EventObserver, Hook, Results, ServerRoutes
from toolbus.config import BusConfig, GetSecret
from toolbus.core.errors import CallRefused, ToolNotFound
from toolbus.core.events import Hub, Reason
from toolbus.core.interactions import Interactions
from toolbus.core.operation import Guard, Observer, Operation
from toolbus.shape import Shaper

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """The user's extensions of a bus."""

    hooks: Sequence[Hook]
    shapers: Sequence[Shaper]
    guards: Sequence[Guard]
    observers: Sequence[Observer]
    get_secret: GetSecret | None
    interactions: Interactions


class Engine:
    """The parts of one bus, shared by all its views."""

    def __init__(self, config: BusConfig, extensions: Extensions) -> None:
        self.hub = Hub(config.limits.backlog)
        self.lock = BusLock(config, lambda: self.servers.inventories, self.hub.emit)
        self.catalog = LiveCatalog(config, extensions.shapers, lambda: self.lock.inventories, self.hub)
        self.results = Results(self.catalog.warn, self.catalog.offer_kept_results)
        self.servers = Servers(
            config,
            self.catalog.rebuild,
            self.hub.emit,
            extensions.interactions,
            self._admit,
            self.lock,
        )
        routes = {
            **ServerRoutes(self.servers.requests, lambda: self.lock.inventories).table,
            **self.servers.routes,
            "toolbus/read_result": self.results.read,
        }
        self.path = CallPath(
            routes,
            repairing=self.servers.repairing,
            observers=[EventObserver(self.hub), *extensions.observers],
            hooks=extensions.hooks,
            guards=extensions.guards,
            warn=self.catalog.warn,
        )
        self.lifecycle = Lifecycle(
            config, self.servers, self.catalog, self.lock, self.hub, extensions.get_secret
        )
        if self.lock.approvals.file is not None:
            self.catalog.rebuild()

    async def _admit(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
        return await self.path.admit(operation, answer)

    async def connect_likely(self, name: str, scope: Scope) -> None:
        """Connect to the disconnected servers of a view that may have a tool of that name."""
        shaping, inventories = self.catalog.shaping, self.lock.inventories
        unlisted = (alias for alias in scope.visible(self.servers.down) if not inventories[alias].tools)
        likely = [self.servers[alias] for alias in unlisted if shaping.may_have(alias, name)]
        await asyncio.gather(*(link.open() for link in likely))

    def missing(self, name: str, scope: Scope) -> ToolNotFound | CallRefused:
        """The error for a tool that is not in a view: unknown, or held."""
        if (reason := self.why_held(name, scope)) is not None:
            return CallRefused(f"tool {name!r}", reason)
        # The tools of a locked server are known, connected or not.
        locked = self.lock.approvals.reviewers
        down = [alias for alias in scope.visible(self.servers.down) if alias not in locked]
        likely = [alias for alias in down if self.catalog.shaping.may_have(alias, name)]
        return scope.catalog(self.catalog.now).missing(name, down, self.servers.why_down(likely))

    def why_held(self, name: str, scope: Scope) -> str | None:
        """Why a tool is held, by the name that it would have in the catalog or `server/tool`."""
        held = self.lock.held
        if name in held and scope.has_server(held[name].server):
            return held[name].reason
        for spec in self.catalog.shaping.tools(self.lock.unreviewed) if held else ():
            is_named = name in (spec.name, str(spec.origin)) and scope.has_server(spec.origin.server)
            if is_named and (one := self.lock.held_as(spec)) is not None:
                return one.reason
        return None


def reason_of(error: ToolNotFound | CallRefused) -> Reason:
    """The reason that observers get for a call that was not made."""
    return "refused" if isinstance(error, CallRefused) else "unknown_tool"
