"""The engine of a bus: its config, its loop, its rules and its call path, which all of its tenants use.

It starts and stops the bus, and changes its servers, one change at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolbus.bus.catalog.encoding import BusEncoding
from toolbus.bus.catalog.live_catalog import LiveCatalog
from toolbus.bus.catalog.shaping import CatalogShaper
from toolbus.bus.catalog.snapshot import Snapshots
from toolbus.bus.engine.listings import last_inventories, save_inventories
from toolbus.bus.engine.servers import Servers
from toolbus.bus.engine.session_limit import SessionLimit
from toolbus.bus.engine.stores import store_of, tokens_in
from toolbus.bus.rules.enforcement import Enforcement
from toolbus.bus.rules.lock import HeldReports, LockApprovals
from toolbus.bus.rules.scope import WHOLE, bus_scope
from toolbus.bus.rules.stations import ConfigStation, ConfigStations
from toolbus.call import Hook
from toolbus.call.path import CallPath
from toolbus.call.results import Results
from toolbus.config import BusConfig, GetSecret, Secrets
from toolbus.config.script_tools.files import ScriptCode
from toolbus.config.settings.policy import PolicyRule
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.core.ask.interactions import Interactions
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import (
    Emit,
    Hub,
)
from toolbus.core.operation.operation import Guard, Observer, Operation, ServerObserver, sees_servers
from toolbus.core.values.catalog import Same
from toolbus.core.values.errors import FORKED, BusClosed
from toolbus.core.values.records import Inventory, ToolResult
from toolbus.policy.answers import ANSWER, StoredAnswers
from toolbus.policy.layers import Layer
from toolbus.policy.quotas.quotas import file_counts
from toolbus.search.encoders.encoder import EncodingFunction
from toolbus.shape import Shaper
from toolbus.state.seal import OneTimeUse, SharedSeal, kept_seal
from toolbus.state.store.store import Store
from toolbus.state.tokens.tokens import TokenSource
from toolbus.state.values import Mirror

if TYPE_CHECKING:
    from toolbus.connect.transports.process.start import Helpers

T = TypeVar("T")
logger = logging.getLogger("toolbus")
_COUNT_PATIENCE = 2.0
"""Seconds that a call waits for a store that does not respond before a quota refuses it."""

LINGER = 0.1
"""Seconds before the servers of a locked bus are started: programs that only list tools end before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusExtensions:
    """The user's extensions of a bus."""

    hooks: Sequence[Hook]
    shapers: Sequence[Shaper]
    guards: Sequence[Guard]
    observers: Sequence[Observer]
    get_secret: GetSecret | None
    interactions: Interactions
    encoder: EncodingFunction | None = None
    """Finds tools by meaning, instead of the encoder in the config."""


class BusLoop(Protocol):
    """The way of a view to the loop of a bus, and to the servers there."""

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        ...

    @property
    def installed(self) -> bool:
        """Whether the links exist, so that requests have a way."""
        ...

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether requests can be made at once, and the caller runs on the loop of the bus."""
        ...

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if calls cannot be made."""
        ...

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        ...

    def check_running(self) -> None:
        """Raise `BusClosed` if calls cannot be made."""
        ...

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        ...


class RootTenant(Protocol):
    """The bus itself as a tenant: the engine starts its servers."""

    hub: Hub
    servers: Servers
    live: LiveCatalog
    held: HeldReports

    def outdate(self) -> None:
        """Something may differ now, for all tenants."""
        ...

    async def follow(self) -> None:
        """Let all others use the current servers and the config; never raises."""
        ...

    async def close_others(self) -> None:
        """Close the links of all others, and end their events."""
        ...


class Engine:
    """The parts that all tenants of a bus share, and the mutex for every change."""

    root: RootTenant
    """The bus itself."""
    path: CallPath
    """The path of every operation."""
    run_script: Callable[[Operation, ScriptCode], Awaitable[ToolResult]]
    """Runs a script that is a tool."""

    def __init__(self, config: BusConfig, extensions: BusExtensions) -> None:
        """`LockError` if there is a lockfile that cannot be used."""
        self.config = config
        self.extensions = extensions
        self.enforcement = Enforcement(config)
        self.scope = bus_scope(config, self._layer)
        """The scope that every view is within."""
        self.approvals = LockApprovals(config)
        self.stations = ConfigStations(self.approvals)
        """The stations that the `hooks` of the config name."""
        self.shaping = Same(CatalogShaper(config, tuple(extensions.shapers)))
        self.snapshots = Snapshots()
        self.second_links = SessionLimit()
        """Counts the second links of all tenants (`eras.py`)."""
        self.encoding = BusEncoding(config, extensions)
        self.results = Results()
        self.owners: dict[int, Emit] = {}
        """The receivers of the events of calls, by the id of the call, except for calls of the bus itself."""
        self._shared = SharedState(extensions.get_secret)
        self._tokens: tuple[object, TokenSource] | None = None
        """The setting in the config, and the tokens."""
        self._loop: OwnerLoop | None = None
        self.closed = False
        self._mutex = asyncio.Lock()
        self._connecting: asyncio.Task[None] | None = None
        """Connects to the servers of a locked bus, whose catalog is known before."""
        self._needed = asyncio.Event()
        """Set when the servers are needed, so that connecting does not linger."""
        self._installed = asyncio.Event()
        self.installed = False
        """Whether the links exist, so that requests have a way."""
        self._helpers: Helpers | None = None
        """The processes beside the servers, once they may be needed."""

    async def start(self) -> None:
        """Connect to all servers concurrently; a second start does nothing."""
        self.check_process()  # first: in a fork, nobody would release the lock
        async with self._mutex:
            if self.closed:
                raise BusClosed()
            if self._loop is not None:
                return
            self._loop = OwnerLoop()
            try:
                await self._shared.open(self.config, self.enforcement)
                await self._load_stations()
                await self._begin(self.identity(self.config))
                if self.root.live.failed is not None:
                    raise self.root.live.failed
            except BaseException:
                await self.stop()
                raise

    async def _load_stations(self) -> None:
        """Put the stations of the config on the path, before there is a way to any server."""
        if not self.stations.is_loaded:
            secrets = self.identity(self.config).secrets
            self._use_stations(await self.stations.prepare(self.approvals, secrets))
        self._warn_of_hooks()

    def _use_stations(self, found: tuple[ConfigStation, ...]) -> None:
        self.stations.use(found, self.approvals)
        self.enforcement.changed()

    def _warn_of_hooks(self) -> None:
        """Report that the hooks differ from the lock."""
        if self.approvals.held_stations is not None:
            self.enforcement.warn(self.approvals.held_stations[1])

    async def _begin(self, identity: LinkOwner) -> None:
        """Connect to the servers, or, if the catalog is known from the lock, only to the required ones."""
        at_once = self.approvals.is_complete
        if at_once and not any(server.required for server in self.config.servers.values()):
            self._connecting = asyncio.create_task(self._connect_later(identity), name="toolbus start")
        else:
            await self._connect(identity, only_required=at_once)

    async def _connect_later(self, identity: LinkOwner) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await self._needed.wait()
        try:
            await self._connect(identity, only_required=True)
        except Exception:  # a task's edge: whoever needs the servers gets it as well
            logger.exception("the servers could not be started")
            self._installed.set()
            raise

    async def _connect(self, identity: LinkOwner, *, only_required: bool) -> None:
        from toolbus.connect.transports.process.start import helpers

        config, servers = self.usable_config, self.root.servers
        if known := await self._remembered(config):
            servers.assume(known, config)
            self.root.outdate()
        servers.unlisted = self._unlisted(config, self.approvals)
        self.root.held.report_launches(self.approvals)
        helpers.use(self)
        self._helpers = helpers
        try:
            await servers.start_early(config, identity)
            servers.install(servers.build(config, identity), config)
            if self.closed:  # in the meantime, when there were no links to close
                await servers.close()
                return
            servers.begin()
            await asyncio.sleep(0)  # the links' tasks take their first step, so that none looks idle
            await self.root.follow()
            self.installed = True
            self._installed.set()
            await servers.open(only_required=only_required)
        finally:
            await servers.close_early()
        await self._keep_listings()

    async def _remembered(self, config: BusConfig) -> dict[str, Inventory]:
        """The last listings of lazy servers whose launch lines have not changed."""
        lazy = [alias for alias, server in config.servers.items() if server.lazy and server.mistake is None]
        if not lazy or config.file is None or not config.keeps_listings:
            return {}
        known = await asyncio.to_thread(last_inventories, config)
        return {
            alias: known[alias] for alias in lazy if alias in known and alias not in self.root.servers.assumed
        }

    def _unlisted(self, config: BusConfig, approvals: LockApprovals) -> frozenset[str]:
        """The lazy servers that are started to list their tools, because nothing is known of them."""
        if config.file is None or not config.keeps_listings:
            return frozenset()
        return self.root.servers.unknown_of(config, approvals.covers)

    async def _keep_listings(self) -> None:
        """Keep what lazy servers have listed, for the next start."""
        config, servers = self.config, self.root.servers
        if config.file is None or not config.keeps_listings:
            return
        ready = {alias for alias, link in servers.links.items() if link.config.lazy and link.state == "ready"}
        if listed := {alias: one for alias, one in servers.inventories.items() if alias in ready}:
            await asyncio.to_thread(save_inventories, config, listed)

    async def wait_installed(self) -> None:
        """Wait until the links exist; raises if they could not be made."""
        if not self.installed:
            self._needed.set()
            await self._installed.wait()
            if self.closed:
                raise BusClosed(started=True)
            if not self.installed and self._connecting is not None:
                await asyncio.shield(self._connecting)

    async def stop(self) -> None:
        """Disconnect from all servers; any number of times, from anywhere."""
        self.closed = True
        if self._loop is not None and self._loop.is_running:
            await self._loop.run(self._stop())

    async def _stop(self) -> None:
        self.root.live.registrations.sync(())
        self._installed.set()  # nobody waits any longer
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        self.encoding.close()
        await self._keep_listings()
        await asyncio.gather(self.root.servers.close(), self.root.close_others())
        await self.stations.close()
        await self._shared.close(self.enforcement)
        self.enforcement.close()
        for observer in self.server_observers:
            observer.closed()
        self.root.hub.end()
        if self._helpers is not None:
            await self._helpers.release(self)

    async def apply(
        self,
        change: Callable[[BusConfig], BusConfig],
    ) -> None:
        """Change the config: connect to new ones, disconnect from removed ones, leave the rest alone.

        If a required server cannot be connected, it raises and nothing changes.
        """
        async with self._mutex:
            root, servers = self.root, self.root.servers
            new = change(self.config)
            approvals = LockApprovals(new)
            enforced = self.enforcement.prepare(new)
            await self._shared.share_quotas(new, self.enforcement)
            usable = approvals.servers_to_use(new)
            known = await self._remembered(usable)
            unlisted = self._unlisted(usable, approvals) - known.keys()
            stations = await self.stations.prepare(approvals, self.identity(new).secrets)
            try:
                fresh = await servers.open_new(usable, self.identity(new), unlisted)
                if self.closed:  # in the meantime, so they are closed here
                    await servers.close_servers(fresh)
                    raise BusClosed()
            except BaseException:
                await self.stations.discard(stations)
                raise
            self.config = new
            self.enforcement.use(new, enforced)
            self.scope = bus_scope(new, self._layer)
            self.approvals = approvals
            self._use_stations(stations)
            self._warn_of_hooks()
            self.shaping = Same(CatalogShaper(new, tuple(self.extensions.shapers)))
            self.encoding.use(new)
            root.held.report_launches(approvals)
            gone = servers.install(fresh, usable)
            idle = {alias for alias in fresh if servers.links[alias].state == "idle"}
            servers.assume({alias: one for alias, one in known.items() if alias in idle}, usable)
            root.live.rebuild()
            await root.follow()
            await servers.close_servers(gone)
            await servers.notify_roots_changed()

    @property
    def server_observers(self) -> list[ServerObserver]:
        """The observers that are told what servers offer."""
        return [one for one in (*self.extensions.observers, *self.enforcement.observers) if sees_servers(one)]

    def _layer(self, rules: Sequence[PolicyRule], prefix: str) -> Layer:
        """The rules as a layer of the policy; one that stays goes on counting."""
        new, known = Layer(rules, prefix), getattr(self, "scope", WHOLE).policies
        return self.enforcement.of_view(next((one for one in known if one == new), new))

    def identity(self, config: BusConfig, user: str = "") -> LinkOwner:
        """The secrets and tokens of a user, or of the bus itself."""
        setting, tokens = self._tokens or (None, None)
        if tokens is None or setting != config.tokens:
            tokens = self._shared.tokens(config)
            self._tokens = config.tokens, tokens
        secrets = Secrets(self.extensions.get_secret, config.folder, config.reviewed, user)
        return LinkOwner(secrets=secrets, tokens=tokens, user=user)

    @property
    def usable_config(self) -> BusConfig:
        """The config with a mistake for each server that the lock holds."""
        return self.approvals.servers_to_use(self.config)

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._loop is not None and not self.closed and self._loop.is_running

    @property
    def is_here(self) -> bool:
        """Whether requests can be made at once, and the caller runs on the loop of the bus."""
        return self.installed and self._loop is not None and not self.closed and self._loop.is_current

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running."""
        if self._loop is None or self.closed:
            raise BusClosed(started=self.closed)
        if not self._loop.is_running:
            self.check_process()
            raise BusClosed(reason="its event loop has ended")
        return self._loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        if self._loop is not None and self._loop.is_elsewhere:
            raise BusClosed(reason=FORKED)

    def check_running(self) -> None:
        """Raise `BusClosed` if the bus is not running."""
        _ = self.loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        return await self.loop_for(work).run(self._routed(work))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        return self.loop_for(work).wait(self._routed(work))

    def _routed(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The work, once the links exist."""
        return work if self.installed else self._after_install(work)

    async def _after_install(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            await self.wait_installed()
        except BaseException:
            work.close()
            raise
        return await work

    def loop_for(self, work: Coroutine[Any, Any, Any]) -> OwnerLoop:
        """The loop of the bus; if there is none, the work is closed and `BusClosed` is raised."""
        try:
            return self.loop
        except BusClosed:
            work.close()
            raise


class SharedState:
    """Uses the store that the config had when the bus was started; a reload does not change it."""

    def __init__(self, get_secret: GetSecret | None) -> None:
        self._get_secret = get_secret
        self._store: Store | None = None
        self._answers: Mirror | None = None
        self._counts: Store | None = None
        self._are_counts_shared = False

    async def open(self, config: BusConfig, enforcement: Enforcement) -> None:
        """Use the store of the config, if it has one; StoreError if that cannot be used."""
        store = self._store = store_of(config, self._get_secret)
        if store is not None:
            await store.open()
        await self.share_quotas(config, enforcement)
        if store is None or config.store is None:
            return
        mirror = self._answers = Mirror(store, ANSWER)
        await mirror.start()
        enforcement.answers.share(StoredAnswers(store, config.store.seconds, mirror))
        enforcement.shared = SharedSeal(await kept_seal(store), OneTimeUse(store))

    async def share_quotas(self, config: BusConfig, enforcement: Enforcement) -> None:
        """Count for its quotas in the store, or else in a file of the user that belongs to the config."""
        if self._are_counts_shared or not config.quotas:
            return
        if self._store is not None:
            counts = self._counts = self._store.beside(_COUNT_PATIENCE)
            await counts.open()
            enforcement.quotas.share(counts, forgets=False)
        elif config.file is not None:
            enforcement.quotas.share(file_counts(config.file), forgets=True)
        self._are_counts_shared = True

    def tokens(self, config: BusConfig) -> TokenSource:
        """The tokens of the config."""
        return tokens_in(config, self._store)

    async def close(self, enforcement: Enforcement) -> None:
        """Give back unused calls of quotas, and release the store."""
        await enforcement.quotas.close()
        if self._counts is not None:
            await self._counts.close()
        if self._answers is not None:
            await self._answers.close()
        if self._store is not None:
            await self._store.close()
