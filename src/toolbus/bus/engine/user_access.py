"""The way of one user to a bus: shared links where the credentials are the same, own ones elsewhere.

Credentials are compared when the user first needs the servers, and again from time to time, because a secret
may change. A server that cannot differ is shared from the start.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from toolbus.bus.catalog.live_catalog import LiveCatalog
from toolbus.bus.engine.lifecycle import Followers
from toolbus.bus.engine.servers import Server, Servers
from toolbus.bus.engine.shared_parts import SharedParts
from toolbus.bus.rules.lock import BusLock
from toolbus.config import BusConfig, Secrets, ServerConfig
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import Emit, StateChanged
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import State

T = TypeVar("T")
clock = time.monotonic
IDLE_TIMEOUT = 900.0
"""Seconds without a call after which a user's own link is closed, unless its server has an `idle_timeout`."""
COMPARE_EVERY = 900.0
"""Seconds after which the credentials of a user are compared again."""


class UserAccess:
    """Gives one user the servers of a bus, and runs work on its loop."""

    def __init__(
        self,
        user: str,
        bus: SharedParts,
        servers: Servers,
        catalog: LiveCatalog,
        lock: BusLock,
        emit: Emit,
        used: Callable[[], None],
        sessions: Followers,
    ) -> None:
        """`used` is called whenever the user needs the servers; the sessions borrow them."""
        self._user = user
        self._bus = bus
        self._servers = servers
        self._catalog = catalog
        self._lock = lock
        self._emit = emit
        self._used = used
        self._sessions = sessions
        self._own: dict[str, tuple[ServerConfig, bool]] = {}
        """Whether the credentials for a server differ, by alias, with the config for which that was found."""
        self._is_complete = False
        """Whether that is known of all servers."""
        self._compare_at = 0.0
        self._version = 0
        """Counts the changes of the bus."""
        self._comparing = asyncio.Lock()
        self._running = 0
        """How much work is being done."""
        self._place()

    # As the lifecycle of the bus

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        return self._bus.lifecycle.config

    @property
    def installed(self) -> bool:
        """Whether the user's links exist."""
        return self._is_complete and clock() < self._compare_at

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._bus.lifecycle.running

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running."""
        return self._bus.lifecycle.loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        self._bus.lifecycle.check_process()

    def check_running(self) -> None:
        """Raise `BusClosed` if the bus is not running."""
        self._bus.lifecycle.check_running()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        loop = self._bus.lifecycle.loop_for(work)
        with _closed_if_unstarted(work):
            return await loop.run(self._tracked(work))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        loop = self._bus.lifecycle.loop_for(work)
        with _closed_if_unstarted(work):
            return loop.wait(self._tracked(work))

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        self._used()
        self._running += 1
        try:
            if not self.installed:
                await self._install()
            return await work
        finally:
            self._running -= 1

    # The servers

    @property
    def busy(self) -> bool:
        """Whether something is being done for the user."""
        return self._running > 0

    async def follow(self) -> None:
        """Use the current servers and the config of the bus."""
        self._version += 1
        self._lock.use(self._bus.lock.approvals)
        gone = self._place()
        self._catalog.use(self.config)
        self._catalog.outdate()
        await self._sessions.follow()
        await self._servers.close_servers(gone)
        await self._servers.notify_roots_changed()

    async def release(self) -> None:
        """Close the user's own links; the next use builds them again."""
        self._own = {}
        gone = self._place()
        self._catalog.outdate()
        await self._sessions.follow()
        await self._servers.close_servers(gone)

    async def _install(self) -> None:
        await self._bus.lifecycle.wait_installed()
        async with self._comparing:
            while not self.installed:
                await self._compare()

    async def _compare(self) -> None:
        """Find out which servers need an own link, and build these links."""
        version, bus = self._version, self._bus.lifecycle
        config = bus.usable_config
        secrets, others = bus.identity(config, self._user).secrets, bus.identity(config).secrets
        servers = [one for one in config.servers.values() if may_differ(one, secrets)]
        found = await asyncio.gather(*(differ(server, secrets, others) for server in servers))
        if bus.closed:
            raise BusClosed(started=True)
        if version == self._version:  # else the bus has other servers now
            # An own link stays one: others may be using it.
            self._own = {
                server.alias: (server, is_own or self._own.get(server.alias) == (server, True))
                for server, is_own in zip(servers, found, strict=True)
            }
            self._compare_at = clock() + COMPARE_EVERY
            gone = self._place()
            self._catalog.outdate()
            await self._sessions.follow()
            await self._servers.close_servers(gone)

    def _place(self) -> dict[str, Server]:
        """Install the shared servers, and own ones as far as it is known; returns those to be closed."""
        bus, shared = self._bus.lifecycle, self._bus.servers.by_alias
        config = bus.usable_config
        identity = bus.identity(config, self._user)
        own: dict[str, ServerConfig] = {}
        borrowed: dict[str, Server] = {}
        for alias in config.servers.keys() & shared.keys():
            server = config.servers[alias]
            known = self._own.get(alias)
            if not may_differ(server, identity.secrets) or known == (server, False):
                borrowed[alias] = shared[alias]
            elif known == (server, True):
                idle = server.idle_timeout or IDLE_TIMEOUT
                own[alias] = server.model_copy(update={"idle_timeout": idle, "required": False})
        fresh: dict[str, Server] = {}
        if own:
            fresh = self._servers.build(config.model_copy(update={"servers": own}), identity)
        taken_back: dict[str, State] = {
            alias: self._servers.links[alias].state for alias in self._servers.borrowed & own.keys()
        }
        unknown = config.servers.keys() - own.keys() - borrowed.keys()
        gone = self._servers.install(borrowed | fresh, config, borrowed=frozenset(borrowed), without=unknown)
        self._servers.on_demand = frozenset(alias for alias, server in own.items() if not server.lazy)
        self._is_complete = not unknown
        for alias, state in taken_back.items():  # as if it was closed: the subscriptions have ended
            self._emit(StateChanged(server=alias, state="closed", previous=state))
        return gone


@contextmanager
def _closed_if_unstarted(work: Coroutine[Any, Any, Any]) -> Generator[None]:
    """Close work that was not begun, because something before it failed."""
    try:
        yield
    finally:
        if getcoroutinestate(work) == CORO_CREATED:
            work.close()


PERSONAL = frozenset({"oauth", "identity_assertion", "workload"})
"""Kinds of `auth` that get a token for the user, with values that are not known before."""


def may_differ(server: ServerConfig, secrets: Secrets) -> bool:
    """Whether a user with these secrets may have other credentials for a server than the bus has."""
    return _is_personal(server) or any(
        reference.kind == "user" or secrets.asks_per_user for reference in _references(server)
    )


async def differ(server: ServerConfig, secrets: Secrets, others: Secrets) -> bool:
    """Whether a link with these secrets would have other credentials than one with the others.

    True if that is not known in time: a link is never shared by mistake.
    """
    if _is_personal(server):
        return True
    references = _references(server)
    try:
        async with asyncio.timeout(server.timeouts.connect):
            found = await asyncio.gather(
                *(source.find(reference) for source in (secrets, others) for reference in references)
            )
    except TimeoutError:
        return True
    return found[: len(references)] != found[len(references) :]


def _is_personal(server: ServerConfig) -> bool:
    return server.auth is not None and server.auth.type in PERSONAL


def _references(server: ServerConfig) -> list[Reference]:
    """The references of a server whose values may depend on the user."""
    parts = [part for _, text in server.texts() for part in parsed(text, server=server.alias)]
    found = (part for part in parts if isinstance(part, Reference) and part.kind in ("name", "user"))
    return list(dict.fromkeys(found))
