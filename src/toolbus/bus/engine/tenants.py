"""The tenants of a bus: the bus itself, its users, and the open sessions.

A user shares the links of the bus where the credentials are the same. They are compared when the user first
needs the servers, and again from time to time, because a secret may change. A server whose credentials cannot
differ is shared from the start.

A session shares the links of its user, except to servers with `per_session`. Its own link is built when it is
first needed. Until that link has listed other tools, the inventory is taken from the link of the user. A link
of one tenant is never used for another.
"""

import asyncio
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from toolbus.bus.engine.engine import BusExtensions, BusLoop, Engine
from toolbus.bus.engine.eras import Server
from toolbus.bus.engine.session_limit import SessionLimit
from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.stations import new_path
from toolbus.config import BusConfig, Secrets, ServerConfig
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.core.ask.interactions import Interactions, routing_of
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import Event, ListChanged, StateChanged
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import OWN, Inventory, State

T = TypeVar("T")
clock = time.monotonic
MAX_USERS = 1_000
"""The number of users that are kept although nobody needs them at the moment."""
IDLE_TIMEOUT = 900.0
"""Seconds without a call after which a user's own link is closed, unless its server has an `idle_timeout`."""
COMPARE_EVERY = 900.0
"""Seconds after which the credentials of a user are compared again."""


class Sessions:
    """The open sessions of the bus, or of one of its users, by name. Can be used from any thread."""

    def __init__(self) -> None:
        self._open: dict[str, SessionTenant] = {}
        self._lock = RLock()

    def open(
        self, name: str, interactions: Interactions | None, create: "Callable[[], SessionTenant]"
    ) -> "SessionTenant":
        """The session of that name, a new one if there is none."""
        with self._lock:
            session = self._open.get(name)
            if session is None:
                session = self._open[name] = create()
            elif interactions is not None and interactions is not session.handlers:
                raise ValueError(f"session {name!r} is open, with other interactions; end it first")
        return session

    def forget(self, session: "SessionTenant") -> None:
        """Another one may have its name; any number of times."""
        with self._lock:
            if self._open.get(session.name) is session:
                del self._open[session.name]

    @property
    def all(self) -> "list[SessionTenant]":
        """All of them, as a copy."""
        with self._lock:
            return list(self._open.values())

    async def follow(self) -> None:
        """Let all of them use the current servers and the config."""
        await asyncio.gather(*(session.follow() for session in self.all))

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(session.end_session() for session in self.all))


class BusTenant(Tenant):
    """The bus itself, with its users; the least recently used ones are released."""

    def __init__(self, config: BusConfig, extensions: BusExtensions) -> None:
        """`LockError` if there is a lockfile that cannot be used."""
        # Weak: as long as somebody has a view of a user, the same name means the same tenant.
        self._known: WeakValueDictionary[str, UserTenant] = WeakValueDictionary()
        self._recent: OrderedDict[str, UserTenant] = OrderedDict()
        """The users that are kept, the least recently used first."""
        self._releasing: set[asyncio.Task[None]] = set()
        self.session_limit = SessionLimit()
        self._changing = RLock()
        engine = Engine(config, extensions)
        engine.root = self
        self.sessions = Sessions()
        """Those without a user."""
        super().__init__(engine)
        engine.path = new_path(engine)
        engine.enforcement.warn = lambda message: self.warn(OWN, None, message)
        engine.enforcement.changed = engine.path.lay
        if engine.approvals.file is not None:
            self.live.rebuild()

    @property
    def children(self) -> Iterable[Tenant]:
        """All users, and the sessions without one."""
        return [*self._users, *self.sessions.all]

    @property
    def _users(self) -> "list[UserTenant]":
        with self._changing:
            return list(self._known.values())

    def user_of(self, name: str) -> "UserTenant":
        """A user, a new one if there is none. Starts nothing."""
        with self._changing:
            user = self._known.get(name)
            if user is None:
                user = self._known[name] = UserTenant(self, name)
            self.use(user)
        return user

    def open_session(self, user: str, name: str, interactions: Interactions | None) -> "SessionTenant":
        """The session of a user, or of nobody if that name is empty. Starts nothing."""
        lender = self.user_of(user) if user else self
        return lender.sessions.open(
            name, interactions, lambda: SessionTenant(self, lender, name, interactions)
        )

    def use(self, user: "UserTenant") -> None:
        """Keep a user, who is used now."""
        with self._changing:
            is_new = user.user not in self._recent
            self._recent[user.user] = user
            self._recent.move_to_end(user.user)
            if is_new and len(self._recent) > MAX_USERS:
                self._drop_oldest(user)

    def _drop_oldest(self, newest: "UserTenant") -> None:
        """Drop users that nobody needs, the least recently used first; more are kept if more are needed."""
        unused = [other for other in self._recent.values() if other is not newest and not other.in_use]
        for dropped in unused[: len(self._recent) - MAX_USERS]:
            del self._recent[dropped.user]
            if dropped.has_own_links:
                with suppress(BusClosed):  # so are its links
                    self.engine.loop.call_soon(partial(self._release, dropped))

    def _release(self, user: "UserTenant") -> None:
        if user.user not in self._recent:  # else it was used again meanwhile
            task = asyncio.get_running_loop().create_task(user.release(), name="toolbus release user")
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def reload_lock(self) -> None:
        """Read the lockfile again, after something was approved; the config stays."""
        await self.engine.run(self.engine.apply(lambda config: config))

    def assume(self, inventories: Mapping[str, Inventory]) -> None:
        """Offer what servers offered in an earlier process, until each is connected or fails; before a start.

        For servers that are not locked, and that this config and the administrator let start.
        """
        config = self.engine.usable_config
        usable = {alias for alias, server in config.servers.items() if server.mistake is None}
        self.servers.assume({alias: inventories[alias] for alias in usable & inventories.keys()}, config)
        self.outdate()

    async def follow(self) -> None:
        """Let all users and sessions use the current servers and the config."""
        await asyncio.gather(*(user.follow() for user in self._users), self.sessions.follow())

    async def close_others(self) -> None:
        """Close the links of all users and sessions, and end their events."""
        users = (user.close() for user in self._users)
        await asyncio.gather(*users, *self._releasing, self.sessions.close())


class Borrower(Tenant):
    """A user or a session: whose calls and events reach nobody else, over borrowed links and its own."""

    def __init__(
        self, root: BusTenant, parent: Tenant, user: str, handlers: Interactions | None = None
    ) -> None:
        self._root = root
        self._in_flight = 0
        self._running = 0
        """The number of coroutines that are being run for it."""
        super().__init__(root.engine, parent, user, handlers)
        self.servers.lender = parent.servers
        self.calls = self
        self.place()
        if self.engine.closed:
            self.hub.end()

    @property
    def access(self) -> BusLoop:
        """The way to the loop of the bus."""
        return self

    # Its calls, whose events reach nobody else

    def begin(self, call: int) -> None:
        """Register a call; its link may be shared."""
        self._use()
        self._in_flight += 1
        self.engine.owners[call] = self.hub.emit

    def end(self, call: int) -> None:
        """Forget a call."""
        self._in_flight -= 1
        self.engine.owners.pop(call, None)

    @abstractmethod
    def _use(self) -> None:
        """Keep its user, who is used now."""

    # As the engine, for views

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        return self.engine.config

    @property
    @abstractmethod
    def installed(self) -> bool:
        """Whether its links exist."""

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self.engine.running

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running."""
        return self.engine.loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        self.engine.check_process()

    def check_running(self) -> None:
        """Raise `BusClosed` if calls cannot be made."""
        _ = self.loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        with _closed_if_unstarted(work):
            return await self.loop.run(self._tracked(work))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        with _closed_if_unstarted(work):
            return self.loop.wait(self._tracked(work))

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        self._use()
        self._running += 1
        try:
            await self.install()
            return await work
        finally:
            self._running -= 1

    @abstractmethod
    async def install(self) -> None:
        """Wait until its links exist."""

    # Its servers

    @abstractmethod
    def place(self) -> dict[str, Server]:
        """Install what it borrows, and its own servers as far as they are known; returns those to close."""

    def _placed(
        self,
        own: Mapping[str, ServerConfig],
        lent: Mapping[str, Server],
        *,
        apart: Collection[str],
        unbuilt: frozenset[str] = frozenset(),
    ) -> dict[str, Server]:
        """Install own and borrowed servers; those `apart` are not borrowed any more, if they were."""
        servers, config = self.servers, self.engine.usable_config
        was_lent = servers.borrowed & set(apart)
        taken_back: dict[str, State] = {alias: servers.links[alias].state for alias in was_lent}
        identity = self.engine.identity(config, self.user)
        fresh = servers.build(config.model_copy(update={"servers": dict(own)}), identity) if own else {}
        unknown = config.servers.keys() - own.keys() - lent.keys()
        gone = servers.install({**lent, **fresh}, config, borrowed=frozenset(lent), without=unknown)
        servers.unbuilt = unbuilt
        for alias, state in taken_back.items():  # as if it was closed: the subscriptions have ended
            self.hub.emit(StateChanged(server=alias, state="closed", previous=state))
        self.live.outdate()
        return gone


class UserTenant(Borrower):
    """One user: the links of the bus where the credentials are the same, own ones elsewhere."""

    def __init__(self, root: BusTenant, name: str) -> None:
        self.sessions = Sessions()
        self._own: dict[str, tuple[ServerConfig, bool]] = {}
        """Whether the credentials for a server differ, by alias, with the config for which that was found."""
        self._is_complete = False
        """Whether that is known of all servers."""
        self._compare_at = 0.0
        self._version = 0
        """Counts the changes of the bus."""
        self._comparing = asyncio.Lock()
        super().__init__(root, root, name)

    @property
    def children(self) -> Iterable[Tenant]:
        """The open sessions."""
        return self.sessions.all

    def _use(self) -> None:
        self._root.use(self)

    @property
    def in_use(self) -> bool:
        """Whether it must be kept: somebody waits for a call, or for events, or has a session."""
        return bool(
            self._in_flight
            or self._running
            or self.hub.has_listeners
            or self.live.registrations.active
            or self.servers.has_subscriptions
            or self.sessions.all
        )

    @property
    def has_own_links(self) -> bool:
        """Whether there are links of this user alone."""
        return len(self.servers.borrowed) < len(self.servers.by_alias)

    @property
    def installed(self) -> bool:
        """Whether the user's links exist."""
        return self._is_complete and clock() < self._compare_at

    async def install(self) -> None:
        """Compare the credentials, if it is time to, and build the links that are needed."""
        if not self.installed:
            await self.engine.wait_installed()
            async with self._comparing:
                while not self.installed:
                    await self._compare()

    async def _compare(self) -> None:
        """Find out which servers need an own link, and build these links."""
        version, engine = self._version, self.engine
        config = engine.usable_config
        secrets, others = engine.identity(config, self.user).secrets, engine.identity(config).secrets
        servers = [one for one in config.servers.values() if may_differ(one, secrets)]
        found = await asyncio.gather(*(differ(server, secrets, others) for server in servers))
        if engine.closed:
            raise BusClosed(started=True)
        if version == self._version:  # else the bus has other servers now
            # An own link stays one: others may be using it.
            self._own = {
                server.alias: (server, is_own or self._own.get(server.alias) == (server, True))
                for server, is_own in zip(servers, found, strict=True)
            }
            self._compare_at = clock() + COMPARE_EVERY
            await self._replace()

    def place(self) -> dict[str, Server]:
        shared, config = self._root.servers.by_alias, self.engine.usable_config
        secrets = self.engine.identity(config, self.user).secrets
        own: dict[str, ServerConfig] = {}
        lent: dict[str, Server] = {}
        for alias, server in config.servers.items():
            known = self._own.get(alias)
            if alias not in shared:
                continue
            if not may_differ(server, secrets) or known == (server, False):
                lent[alias] = shared[alias]
            elif known == (server, True):
                idle = server.idle_timeout or IDLE_TIMEOUT
                own[alias] = server.model_copy(update={"idle_timeout": idle, "required": False})
        self._is_complete = len(own) + len(lent) == len(config.servers)
        self.servers.on_demand = frozenset(alias for alias, server in own.items() if not server.lazy)
        return self._placed(own, lent, apart=own)

    async def _replace(self) -> None:
        """Use the links that are needed now, and let the sessions do so."""
        gone = self.place()
        await self.sessions.follow()
        await self.servers.close_servers(gone)

    async def follow(self) -> None:
        """Use the current servers and the config of the bus."""
        self._version += 1
        await self._replace()
        await self.servers.notify_roots_changed()

    async def release(self) -> None:
        """Close the user's own links; the next use builds them again."""
        self._own = {}
        await self._replace()

    async def close(self) -> None:
        """Close the user's own links for good, and end the events and the sessions."""
        self.live.registrations.sync(())
        await self.sessions.close()
        await self.servers.close()
        self.hub.end()


class SessionTenant(Borrower):
    """One session: the links of its user, or of the bus, and own ones to servers with `per_session`."""

    def __init__(
        self, root: BusTenant, lender: BusTenant | UserTenant, name: str, handlers: Interactions | None
    ) -> None:
        """`handlers` answer the requests of its own servers, instead of the handlers of the bus."""
        self.name = name
        self.handlers = handlers
        self._lender = lender
        self._ended = False
        self._needed: frozenset[str] = frozenset()
        """The servers with links of its own."""
        self._new: set[str] = set()
        """Those that have listed nothing yet."""
        super().__init__(root, lender, lender.user, handlers)

    def _use(self) -> None:
        if isinstance(self._lender, UserTenant):
            self._root.use(self._lender)

    @property
    def installed(self) -> bool:
        """Whether the links exist that are not built when they are first needed."""
        return self._lender.access.installed

    async def install(self) -> None:
        """Wait until the links of its user, or of the bus, exist."""
        if isinstance(self._lender, UserTenant):
            await self._lender.install()
        else:
            await self.engine.wait_installed()

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self.engine.running and not self._ended

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running or the session has ended."""
        loop = self.engine.loop
        if self._ended:
            raise BusClosed(f"the session {self.name!r}")
        return loop

    def emit_of_link(self, event: Event) -> None:
        if isinstance(event, ListChanged) and event.server in self._new:
            shown = self._lender.servers.inventories.get(event.server)
            if self.servers.inventories[event.server] is shown:
                return  # what it lists first is what the session shows already
        if isinstance(event, StateChanged) and event.state == "ready":
            self._new.discard(event.server)
        super().emit_of_link(event)

    def build(self, alias: str) -> None:
        """Build the link to a server, which is needed now."""
        if self._ended or self.engine.closed:
            raise BusClosed(f"the session {self.name!r}")
        owner = None if self.handlers is None else routing_of(self.handlers).owner
        self._root.session_limit.count(self, alias, owner)
        self._new.add(alias)
        self._needed |= {alias}
        self.place()

    def place(self) -> dict[str, Server]:
        servers, shared, config = self.servers, self._lender.servers, self.engine.usable_config
        servers.base, servers.build_one = shared, self.build
        apart = {alias: server for alias, server in config.servers.items() if server.per_session}
        lent = {a: shared.by_alias[a] for a in config.servers if a in shared.by_alias and a not in apart}
        own = {
            alias: server.model_copy(update={"required": False})
            for alias, server in apart.items()
            if alias in self._needed
        }
        self._needed = frozenset(own)
        if not own:
            self._root.session_limit.release(self)
        return self._placed(own, lent, apart=apart, unbuilt=frozenset(apart) - own.keys())

    async def follow(self) -> None:
        """Use the current servers and the config of the bus."""
        if not self._ended:
            gone = self.place()
            await self.servers.close_servers(gone)
            await self.servers.notify_roots_changed()

    async def end_session(self) -> None:
        """Close its own links for good, and end its subscriptions and events; any number of times."""
        self._lender.sessions.forget(self)
        self._ended = True
        self.live.registrations.sync(())
        await asyncio.gather(self.servers.close(), self.servers.unsubscribe())
        self._root.session_limit.release(self)
        self.hub.end()


@contextmanager
def _closed_if_unstarted(work: Coroutine[Any, Any, Any]) -> Generator[None]:
    """Close work that was not begun, because something before it failed."""
    try:
        yield
    finally:
        if getcoroutinestate(work) == CORO_CREATED:
            work.close()


# Credentials

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
