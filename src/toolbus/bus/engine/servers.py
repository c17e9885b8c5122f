"""The servers of a bus: a link to each, and what each offers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from toolbus.bus.engine.eras import SecondLink, Server, legacy_config
from toolbus.bus.engine.startup import import_stages
from toolbus.bus.rules.lock import LockApprovals
from toolbus.call.routes import ServerRequests
from toolbus.config import BusConfig, ServerConfig
from toolbus.config.script_tools.files import ScriptCode
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.core.ask.interactions import Interactions, with_roots
from toolbus.core.operation.events import Event, StateChanged
from toolbus.core.operation.operation import Operation
from toolbus.core.values.catalog import Memo, Same
from toolbus.core.values.errors import DownReason, LoginRequired, ServerDown, ServerNotFound, ToolbusError
from toolbus.core.values.freshness import ListKind
from toolbus.core.values.records import Health, Inventory, ServerStatus, ToolResult
from toolbus.telemetry.observer import BusTelemetry

if TYPE_CHECKING:
    from toolbus.connect.link import Link
    from toolbus.connect.opening.attempt import EarlyStart
    from toolbus.discover import Discovery

logger = logging.getLogger("toolbus")
T = TypeVar("T")
_NOTHING = Inventory()
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"
"""The routes that change subscriptions."""

SPAWN_FIRST = 0.05
"""Seconds in which processes may start undisturbed, before the import of the SDK takes the CPU."""


class ServersOwner(Protocol):
    """The tenant whose servers they are."""

    @property
    def interactions(self) -> Interactions:
        """The handlers for requests of its own servers."""
        ...

    @property
    def approvals(self) -> LockApprovals:
        """The approvals of the current lockfile."""
        ...

    @property
    def telemetry(self) -> BusTelemetry:
        """Traces the links."""
        ...

    def second_link(self, first: Server, build: Callable[[SecondLink], Server]) -> SecondLink:
        """The second link to one of its own servers."""
        ...

    def servers_changed(self) -> None:
        """One of its own servers offers something else now."""
        ...

    def emit_of_link(self, event: Event) -> None:
        """Emit an event of one of its own links."""

    async def run_script(self, operation: Operation, code: ScriptCode, /) -> ToolResult: ...

    async def admit(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
        """Answer a request of one of its own servers."""
        ...


class Servers:
    """The servers of a tenant by alias, in the order of the config. They are built when they can be used.

    Its parent connects and closes the `borrowed` ones.
    """

    def __init__(self, config: BusConfig, owner: ServersOwner) -> None:
        self._owner = owner
        self._emit = owner.emit_of_link  # the same one each time: subscriptions are told apart by it
        self._own_interactions = owner.interactions
        self._interactions = with_roots(owner.interactions, config.root_folders)
        """The interactions of the owner, with the roots of the current config."""
        self._aliases = list(config.servers)
        self._disabled = config.disabled
        self._since = time.time()
        self.by_alias: dict[str, Server] = {}
        self.borrowed: frozenset[str] = frozenset()
        self.on_demand: frozenset[str] = frozenset()
        """The servers that are not lazy, but nobody connects to when they are installed."""
        self.links: dict[str, Link] = {}
        self.requests: dict[str, ServerRequests] = Requests(self)
        self.repairing: set[str] = set()
        """The servers whose arguments are checked and repaired."""
        self._early: dict[str, EarlyStart] = {}
        """Servers that were started before their links were built."""
        self._opening: set[Link] = set()
        """Links that are not installed yet."""
        self._outdated_roots: list[Server] = []
        """Servers that have yet to be notified of the new roots."""
        self.assumed: dict[str, Inventory] = {}
        """The offers of servers in an earlier process, until the first attempt to connect ends."""
        self.remembered: set[str] = set()
        """Lazy servers among them: what they offer now is only known after the first call."""
        self.unlisted: frozenset[str] = frozenset()
        """Lazy servers of which nothing is known, so that they are started to list their tools."""
        self.unbuilt: frozenset[str] = frozenset()
        """The servers whose links are built when they are first needed."""
        self.build_one: Callable[[str], object] = self.check
        """Builds and installs an unbuilt one."""
        self.lender: Servers | None = None
        """The owner of the borrowed servers."""
        self.base: Servers | None = None
        """The servers whose inventories are used until an own link has listed something else."""
        self._memo = Memo()

    def __getitem__(self, alias: str) -> "Link":
        """The link of that alias; `ServerNotFound` suggests similar ones."""
        self._need(self.check(alias))
        return self.links[alias]

    def _need(self, alias: str) -> None:
        if alias in self.unbuilt:
            self.build_one(alias)

    def check(self, alias: str, allowed: Collection[str] | None = None) -> str:
        """The alias; `ServerNotFound` suggests similar ones if no allowed server has it."""
        known = [name for name in self._aliases if allowed is None or name in allowed]
        if alias not in known:
            is_disabled = alias in self._disabled and (allowed is None or alias in allowed)
            raise ServerNotFound(alias, known, disabled=is_disabled)
        return alias

    def login_required(self, alias: str) -> LoginRequired | None:
        """The error if the server waits for somebody to sign in; None otherwise."""
        links = (link for link in (*self.links.values(), *self._opening) if link.config.alias == alias)
        errors = (link.error for link in links)
        return next((error for error in errors if isinstance(error, LoginRequired)), None)

    async def change_subscription(self, operation: Operation) -> ToolResult:
        """The route that subscribes to a resource, or ends that."""
        self._need(operation.server)
        server, uri = self.by_alias[operation.server], operation.spec.name
        is_new = operation.route == SUBSCRIBE
        if (second := server.second) is not None:
            found = await second.subscribing(operation) if is_new else second.subscribed(operation)
            if found is None:
                return ToolResult()
            server = found
        link, subscriptions = server.link, server.discovery.subscriptions
        work = subscriptions.add if is_new else subscriptions.remove
        await link.request(
            lambda session, timeout: work(session, uri, timeout, self._emit),
            link.config.timeouts.call,
            repeatable=True,
        )
        return ToolResult()

    def _check_lock(self, operation: Operation) -> None:
        """Raise `CallDenied` if an operation is not approved by the lock."""
        self._owner.approvals.check(operation, lambda: self._inventory(operation.server))

    async def connect(self, alias: str) -> None:
        """Connect to a server now."""
        self._need(self.check(alias))
        await self.by_alias[alias].requests.connect()

    async def restart(self, alias: str) -> None:
        """Disconnect from a server, and connect to it again."""
        link = self[alias]
        await self.by_alias[alias].restart()
        _ = link.session  # raises if there is none

    @property
    def inventories(self) -> dict[str, Inventory]:
        """The inventory of each server; for a disconnected one, the last inventory."""
        return {alias: self._inventory(alias) for alias in self._aliases}

    def _inventory(self, alias: str) -> Inventory:
        server = self.by_alias.get(alias)
        listed = _NOTHING if server is None else server.discovery.inventory
        if listed == _NOTHING:
            listed = self._keeper(alias).assumed.get(alias, listed)
        if self.base is None or alias in self.borrowed:
            return listed
        shared = self.base._inventory(alias)
        if listed == _NOTHING:
            return shared
        # The same object if it is the same, so that nothing is made of it twice.
        # One for each server: others are of lists that were replaced, and would be kept for nothing.
        return self._memo(_shared_if_equal, self, (Same(listed), Same(shared)), len(self._aliases))

    def is_starting(self, alias: str) -> bool:
        """Whether a server is being connected for the first time, or will be when the bus has started."""
        link = self.links.get(alias)
        is_to_begin = link is None or (link.state == "idle" and link.era is None)
        return self.base is None if is_to_begin else link is not None and link.state == "connecting"

    def is_assumed(self, alias: str) -> bool:
        """Whether a starting server offers the listing of an earlier process."""
        if alias in self.remembered:
            return False
        return alias in self.assumed or (self.base is not None and self.base.is_assumed(alias))

    def awaits_listing(self, alias: str) -> bool:
        """Whether what a lazy server offers is known from an earlier process, until it is connected."""
        server, keeper = self.by_alias.get(alias), self._keeper(alias)
        if server is not None and server.discovery.inventory != _NOTHING:
            return False
        return alias in keeper.assumed if keeper.base is None else keeper.base.awaits_listing(alias)

    def _keeper(self, alias: str) -> "Servers":
        """The group of servers that this one belongs to."""
        is_own = self.lender is None or alias not in self.borrowed
        return self if is_own or self.lender is None else self.lender._keeper(alias)

    def is_known(self, alias: str) -> bool:
        """Whether it is known what a server offers, before it is connected."""
        root = self if self.base is None else self.base
        return alias in root.assumed or self.is_assumed(alias) or self._owner.approvals.covers(alias)

    def assume(self, inventories: Mapping[str, Inventory], config: BusConfig) -> None:
        """Let servers that may be started offer what they offered before; the lock goes first."""
        covers = self._owner.approvals.covers
        new = {alias: one for alias, one in inventories.items() if not covers(alias)}
        self.assumed |= new
        self.remembered |= {alias for alias in new if config.servers[alias].lazy}

    def unknown_of(self, config: BusConfig, covers: Callable[[str], bool]) -> frozenset[str]:
        """The lazy servers of a config of which nothing is known, and that may be started."""
        return frozenset(
            alias
            for alias, server in config.servers.items()
            if server.lazy and server.mistake is None and alias not in self.assumed and not covers(alias)
        )

    def note_state(self, event: StateChanged) -> None:
        """Drop the assumed inventory of a server once its first attempt to connect has ended."""
        is_over = event.state not in ("idle", "connecting")
        if is_over:
            self.remembered.discard(event.server)
        if is_over and self.assumed.pop(event.server, None) and self._inventory(event.server) == _NOTHING:
            self._owner.servers_changed()  # else what it offers was published

    # Lists that expire

    def _discovery(self, alias: str) -> "Discovery | None":
        """The discovery of a server: of the own link, or of the base if its inventory is used."""
        server = self.by_alias.get(alias)
        if self.base is None or alias in self.borrowed:
            return None if server is None else server.discovery
        is_own = server is not None and server.discovery.inventory != _NOTHING
        return server.discovery if server is not None and is_own else self.base._discovery(alias)

    def due(self, kinds: Iterable[ListKind], aliases: Iterable[str]) -> "dict[Discovery, list[ListKind]]":
        """The lists of these servers that have expired; may be called in any thread."""
        found = {each: each.due(kinds) for alias in aliases if (each := self._discovery(alias)) is not None}
        return {discovery: due for discovery, due in found.items() if due}

    def due_for_name(self, aliases: Iterable[str], *, are_up: bool) -> "dict[str, Discovery]":
        """The servers whose tools are listed again because a name is unknown."""
        every = {alias: each for alias in aliases if (each := self._discovery(alias)) is not None}
        return {alias: each for alias, each in every.items() if each.is_due_for_name(is_up=are_up)}

    def seconds_left(self, kind: ListKind, aliases: Iterable[str]) -> float | None:
        """For how much longer a list of these is fresh, as the stalest of its parts; None if nobody says."""
        every = (self._discovery(alias) for alias in aliases)
        parts = [None if each is None else each.seconds_left(kind) for each in every]
        return min((part for part in parts if part is not None), default=None)

    @property
    def down(self) -> list[str]:
        """The servers that are not ready."""
        links = self.links
        return [alias for alias in self._aliases if alias in self.unbuilt or is_down(links.get(alias))]

    def why_down(self, likely: Sequence[str]) -> DownReason | None:
        """The reason why the first of the likely servers is not ready; a single server is always likely."""
        down = {alias: self.links[alias] for alias in self.down if alias in self.links}
        known = self._owner.approvals.reviewers
        alone = [alias for alias in down if len(self.links) == 1 and alias not in known]
        alias = next((alias for alias in likely or alone if alias in down), None)
        if alias is None:
            return None
        problem, error = f"server {alias!r} is not connected ({down[alias].state})", down[alias].error
        if error is None:
            return DownReason(problem)
        reason = DownReason.of(error)
        return DownReason(f"{problem}: {reason}", f"{problem}: {reason.public}")

    def status(self, tools: Mapping[str, int]) -> dict[str, ServerStatus]:
        """The current state of each server; `tools` has the number of its tools in the catalog."""
        return {
            alias: status_of(self.links[alias], tools.get(alias, 0))
            if alias in self.links
            else ServerStatus(state="idle", since=self._since)
            for alias in self._aliases
        }

    async def start_early(self, config: BusConfig, identity: LinkOwner) -> None:
        """Start the processes of servers that will be connected, and meanwhile import the SDK."""
        from toolbus.connect.opening.attempt import EarlyStart

        self._early = {
            alias: EarlyStart(server, identity.secrets)
            for alias, server in config.servers.items()
            if server.transport == "stdio" and (not server.lazy or alias in self.unlisted)
        }
        with suppress(TimeoutError):
            async with asyncio.timeout(SPAWN_FIRST):
                await asyncio.gather(*(early.wait_spawned() for early in self._early.values()))
        await import_stages()

    async def close_early(self) -> None:
        """End the processes that were started early and that no link has taken."""
        await asyncio.gather(*(early.close() for early in self._early.values() if not early.taken))
        self._early = {}

    def build(self, config: BusConfig, identity: LinkOwner) -> dict[str, Server]:
        """Build the servers of a config that are new or changed, not installed or connected yet."""
        interactions = with_roots(self._own_interactions, config.root_folders)
        # Whether there are roots is declared when connecting, so all have to reconnect.
        redeclared = (interactions.roots is None) is not (self._interactions.roots is None)
        servers: dict[str, Server] = {}
        for alias, server in config.servers.items():
            known = None if alias in self.borrowed else self.links.get(alias)
            if redeclared or known is None or known.config != server:
                servers[alias] = self._linked(server, identity, interactions)
        return servers

    def _linked(
        self,
        config: ServerConfig,
        identity: LinkOwner,
        interactions: Interactions,
        second: SecondLink | None = None,
    ) -> Server:
        """A server with a link that is not connected yet, or the second link of one."""
        from toolbus.bus.engine.script_requests import requests_to
        from toolbus.connect.link import Link
        from toolbus.discover import Discovery

        alias, owner = config.alias, self._owner
        emit, take, changed, early = self._emit, self._emit, owner.servers_changed, self._early.get(alias)
        if second is not None:
            emit, take, changed, early = second.following(emit), second.take, _nothing, None
        tracing = owner.telemetry.tracing(alias)
        discovery = Discovery(alias, changed, take, tracing)
        link = Link(config, identity, discovery, tracing.following(emit), interactions, owner.admit, early)
        server = Server(link, discovery, requests_to(link, owner.run_script))
        if second is not None or config.era != "auto":
            return server

        def build(second: SecondLink) -> Server:
            return self._linked(legacy_config(config), identity, link.handler.interactions, second)

        return replace(server, second=owner.second_link(server, build))

    def install(
        self,
        fresh: Mapping[str, Server],
        config: BusConfig,
        *,
        borrowed: frozenset[str] = frozenset(),
        without: Collection[str] = (),
    ) -> dict[str, Server]:
        """Install servers, and keep only the config's; returns the removed ones, without borrowed ones."""
        usable = config.servers.keys() - set(without)
        kept = {alias: server for alias, server in self.by_alias.items() if alias in usable}
        gone = {a: server for a, server in self.by_alias.items() if a not in kept or a in fresh}
        now = kept | dict(fresh)
        for alias in self.borrowed & gone.keys():
            if gone[alias] is not now.get(alias):
                for server in gone[alias].both:
                    server.discovery.subscriptions.forget(self._emit)
        gone = {alias: server for alias, server in gone.items() if alias not in self.borrowed}
        self._aliases, self.borrowed = list(config.servers), borrowed
        self._disabled = config.disabled
        self.by_alias = {alias: now[alias] for alias in config.servers if alias in now}
        own = {alias: server for alias, server in self.by_alias.items() if alias not in borrowed}
        # Changed in place: the routes hold this dict.
        self.requests.clear()
        self.requests.update({alias: server.requests for alias, server in self.by_alias.items()})
        for alias, server in own.items():
            server.requests.check = self._check_lock if alias in self._owner.approvals.reviewers else None
        self.repairing.clear()
        self.repairing.update(alias for alias, server in config.servers.items() if server.repair)
        self.links = {alias: server.link for alias, server in self.by_alias.items()}
        before = self._interactions.roots
        self._interactions = with_roots(self._own_interactions, config.root_folders)
        if self._interactions.roots != before:
            stayed = (server.both for alias, server in own.items() if alias not in fresh)
            self._outdated_roots = [server for both in stayed for server in both]
            for server in self._outdated_roots:
                server.link.handler.change_roots(self._interactions.roots)
        return gone

    async def notify_roots_changed(self) -> None:
        """Notify the servers that stayed, if the roots changed."""
        outdated, self._outdated_roots = self._outdated_roots, []
        # Others request the roots once they are connected.
        ready = [
            server.requests.notify_roots_changed() for server in outdated if server.link.state == "ready"
        ]
        for outcome in await asyncio.gather(*ready, return_exceptions=True):
            if isinstance(outcome, ToolbusError):  # the server requests them again after a reconnect
                logger.debug("%s", outcome)

    def begin(self) -> None:
        """Start to connect to all servers that are not lazy, or unlisted; does not wait."""
        for alias, link in self.links.items():
            if not link.config.lazy or alias in self.unlisted:
                link.begin()

    async def open(self, *, only_required: bool = False) -> None:
        """Connect to all servers, or wait only for the required ones."""
        links = self.links.values()
        wanted = (link for link in links if link.config.required or not only_required)
        await open_links(wanted, self.unlisted)

    async def open_new(
        self, config: BusConfig, identity: LinkOwner, unlisted: Collection[str] = ()
    ) -> dict[str, Server]:
        """As `build`, and connect; none is left open if that fails."""
        fresh = self.build(config, identity)
        links = [server.link for server in fresh.values()]
        self._opening.update(links)
        try:
            await open_links(links, unlisted)
        except BaseException:
            await close_links(links)
            raise
        finally:
            self._opening.difference_update(links)
        return fresh

    async def close_servers(self, servers: Mapping[str, Server]) -> None:
        """Disconnect from servers that are not installed."""
        await asyncio.gather(*(server.close() for server in servers.values()))

    async def close(self) -> None:
        """Disconnect from all servers that are not borrowed, including those that are being connected."""
        own = {alias: server for alias, server in self.by_alias.items() if alias not in self.borrowed}
        await asyncio.gather(self.close_early(), self.close_servers(own), close_links(self._opening))

    async def leave(self, client: str) -> None:
        """A legacy client has left: close the second links that nobody needs any longer."""
        seconds = (server.second for server in self.by_alias.values())
        await asyncio.gather(*(second.leave(client) for second in seconds if second is not None))
        if self.lender is not None:  # it may have borrowed others before
            await self.lender.leave(client)

    @property
    def has_subscriptions(self) -> bool:
        """Whether there are subscriptions to resources, without other users' on shared servers."""
        every = (one for server in self.by_alias.values() for one in server.both)
        return any(server.discovery.subscriptions.has(self._emit) for server in every)

    async def unsubscribe(self) -> None:
        """Drop the subscriptions to borrowed servers, here and at each server that can be reached."""
        shared = [server for alias in self.borrowed for server in self.by_alias[alias].both]
        await asyncio.gather(*map(self._drop_subscriptions, shared))

    async def _drop_subscriptions(self, server: Server) -> None:
        subscriptions, link = server.discovery.subscriptions, server.link
        if subscriptions.has(self._emit):
            try:
                await subscriptions.drop(link.session, link.config.timeouts.close, self._emit)
            except ToolbusError as error:  # it has ended for us all the same
                logger.debug("%s", error)
            subscriptions.forget(self._emit)

    async def health(self, aliases: Collection[str] | None) -> dict[str, Health]:
        """Probe the links of all servers, or of some."""
        links = {alias: link for alias, link in self.links.items() if aliases is None or alias in aliases}
        answers = await asyncio.gather(*map(probe, links.values()))
        found = dict(zip(links, answers, strict=True))
        idle = Health(ok=True)  # it is not needed, and nothing is wrong
        return {
            alias: found.get(alias, idle)
            for alias in self._aliases
            if alias in found or (alias in self.unbuilt and (aliases is None or alias in aliases))
        }

    async def list_first(self, timeout: float) -> None:
        """Connect to those on demand that have listed nothing yet; waits at most that long."""
        new = [self.links[alias] for alias in self.on_demand if self.links[alias].era is None]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(link.open() for link in new))
        if self.lender is not None:
            await self.lender.list_first(timeout)

    async def wait_ready(self, aliases: Collection[str] | None, timeout: float) -> None:
        """Wait until these are ready or have failed, at most that long; by default all that are not idle."""
        for alias in self.unbuilt & set(aliases or ()):
            self.build_one(alias)
        links = [
            link
            for alias, link in self.links.items()
            if (link.state != "idle" or alias in self.on_demand if aliases is None else alias in aliases)
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(link.wait_ready() for link in links))


class Requests(dict[str, ServerRequests]):
    """The requests to each server; an unbuilt one is built when it is looked up."""

    def __init__(self, servers: Servers) -> None:
        super().__init__()
        self._servers = servers

    def __missing__(self, alias: str) -> ServerRequests:
        if alias not in self._servers.unbuilt:
            raise KeyError(alias)
        self._servers.build_one(alias)
        return self[alias]


def _nothing() -> None:
    """Nothing depends on the lists of a second link."""


def _shared_if_equal(_: Servers, both: tuple[Same[Inventory], Same[Inventory]]) -> Inventory:
    listed, shared = both
    return shared.value if listed.value == shared.value else listed.value


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


async def open_links(links: "Iterable[Link]", unlisted: Collection[str] = ()) -> None:
    """Connect all that are not lazy, or unlisted; raises the error of a required one that fails.

    Does not wait for an inactive server once others can be used.
    """
    eager = [link for link in links if not link.config.lazy or link.config.alias in unlisted]
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
