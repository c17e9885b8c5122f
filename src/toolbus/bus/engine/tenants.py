"""The tenants of a bus: the bus itself, its users, and the open sessions.

A user shares the links of the bus where the credentials are the same. They are compared when the user first
needs the servers, and again from time to time, because a secret may change. A server whose credentials cannot
differ is shared from the start.

A client with a forwarded identity shares the links of its user, except to servers that get a part of it.

A session shares the links of its user, except to servers with `per_session`. Its own link is built when it is
first needed. Until that link has listed other tools, the inventory is taken from the link of the user. A link
of one tenant is never used for another.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import RLock
from weakref import WeakValueDictionary

from toolbus.bus.engine.borrower import Borrower, installed_of
from toolbus.bus.engine.credentials import differ, may_differ
from toolbus.bus.engine.engine import BusExtensions, Engine
from toolbus.bus.engine.eras import Server
from toolbus.bus.engine.session_limit import SessionLimit
from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.stations import new_path
from toolbus.config import BusConfig, ServerConfig
from toolbus.connect.auth.credentials import ClientIdentity, LinkOwner
from toolbus.core.ask.interactions import Interactions, routing_of
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import Event, ListChanged, StateChanged
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import OWN, Inventory

clock = time.monotonic
MAX_USERS = 1_000
"""The number of users that are kept although nobody needs them at the moment."""
MAX_IDENTITIES = 100
"""The number of identities that are kept for one user, and `MAX_USERS` for the bus itself."""
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


class Identities:
    """The clients of the bus, or of one user, with a forwarded identity; idle ones are limited."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Weak: as long as somebody has a view of one, equal identities mean the same tenant.
        self._known: WeakValueDictionary[ClientIdentity, IdentityTenant] = WeakValueDictionary()
        self._recent: OrderedDict[ClientIdentity, IdentityTenant] = OrderedDict()
        self._lock = RLock()
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, identity: ClientIdentity, create: "Callable[[], IdentityTenant]") -> "IdentityTenant":
        """The tenant of an identity, a new one if there is none; it uses the newest token."""
        with self._lock:
            tenant = self._known.get(identity)
            if tenant is None:
                tenant = self._known[identity] = create()
            tenant.renew(identity)
            self.use(tenant)
        return tenant

    def use(self, tenant: "IdentityTenant") -> None:
        """Keep one, which is used now, instead of the one that was unused for longest."""
        with self._lock:
            is_new = tenant.identity not in self._recent
            self._recent[tenant.identity] = tenant
            self._recent.move_to_end(tenant.identity)
            if not is_new or len(self._recent) <= self._most:
                return
            unused = [one for one in self._recent.values() if one is not tenant and not one.in_use]
            for dropped in unused[: len(self._recent) - self._most]:
                del self._recent[dropped.identity]
                with suppress(BusClosed):  # so are its links
                    dropped.loop.call_soon(partial(self._release, dropped))

    def _release(self, tenant: "IdentityTenant") -> None:
        if tenant.identity not in self._recent:  # else it was used again meanwhile
            task = asyncio.get_running_loop().create_task(tenant.release(), name="toolbus release client")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    @property
    def all(self) -> "list[IdentityTenant]":
        """All of them, as a copy."""
        with self._lock:
            return list(self._known.values())

    @property
    def kept(self) -> "list[IdentityTenant]":
        """Those that are kept although nobody needs them."""
        return list(self._recent.values())

    async def follow(self) -> None:
        """Let all of them use the current servers and the config."""
        await asyncio.gather(*(tenant.follow() for tenant in self.all))

    async def close(self) -> None:
        """Close the links of all of them, and end their events."""
        await asyncio.gather(*(tenant.close() for tenant in self.all), *self._closing)


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
        self.identities = Identities(MAX_USERS)
        """Those without a user."""
        super().__init__(engine)
        engine.path = new_path(engine)
        engine.enforcement.warn = lambda message: self.warn(OWN, None, message)
        engine.enforcement.changed = engine.path.lay
        if engine.approvals.file is not None:
            self.live.rebuild()

    @property
    def children(self) -> Iterable[Tenant]:
        """All users, and the clients and sessions without one."""
        return [*self._users, *self.identities.all, *self.sessions.all]

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

    def client_of(
        self, user: str, identity: ClientIdentity | None
    ) -> "BusTenant | UserTenant | IdentityTenant":
        """The tenant of a user, or of nobody if that name is empty, with a forwarded identity."""
        lender = self.user_of(user) if user else self
        if identity is None:
            return lender
        return lender.identities.of(identity, lambda: IdentityTenant(self, lender, identity))

    def open_session(
        self, lender: "BusTenant | UserTenant | IdentityTenant", name: str, interactions: Interactions | None
    ) -> "SessionTenant":
        """The session of a user or client, or of nobody. Starts nothing."""
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
        """Let all users, clients and sessions use the current servers and the config."""
        users = (user.follow() for user in self._users)
        await asyncio.gather(*users, self.identities.follow(), self.sessions.follow())

    async def close_others(self) -> None:
        """Close the links of all users, clients and sessions, and end their events."""
        users = (user.close() for user in self._users)
        await asyncio.gather(*users, *self._releasing, self.identities.close(), self.sessions.close())


class UserTenant(Borrower):
    """One user: the links of the bus where the credentials are the same, own ones elsewhere."""

    def __init__(self, root: BusTenant, name: str) -> None:
        self.sessions = Sessions()
        self.identities = Identities(MAX_IDENTITIES)
        self._own: dict[str, tuple[ServerConfig, bool]] = {}
        """Whether the credentials for a server differ, by alias, with the config for which that was found."""
        self._is_complete = False
        """Whether that is known of all servers."""
        self._compare_at = 0.0
        self._version = 0
        """Counts the changes of the bus."""
        self._comparing = asyncio.Lock()
        self._root = root
        super().__init__(root, name)

    @property
    def children(self) -> Iterable[Tenant]:
        """Its clients, and the open sessions."""
        return [*self.identities.all, *self.sessions.all]

    def note_use(self) -> None:
        self._root.use(self)

    @property
    def in_use(self) -> bool:
        """Whether it must be kept: also if it has a session, or a client that is in use."""
        return super().in_use or bool(self.sessions.all) or any(one.in_use for one in self.identities.all)

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
        """Use the links that are needed now, and let the clients and sessions do so."""
        gone = self.place()
        await asyncio.gather(self.identities.follow(), self.sessions.follow())
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
        """Close the user's own links for good, and end the events, the clients and the sessions."""
        self.live.registrations.sync(())
        await asyncio.gather(self.identities.close(), self.sessions.close())
        await self.servers.close()
        self.hub.end()


class IdentityTenant(Borrower):
    """One client: the links of its user, or of the bus, and own ones to servers that get its identity."""

    def __init__(self, root: BusTenant, lender: BusTenant | UserTenant, identity: ClientIdentity) -> None:
        self.sessions = Sessions()
        self.identity = identity
        self._lender = lender
        self._is_released = False
        self._root = root
        super().__init__(lender, lender.user)

    @property
    def children(self) -> Iterable[Tenant]:
        """The open sessions."""
        return self.sessions.all

    def link_owner(self, config: BusConfig) -> LinkOwner:
        """The secrets and tokens of its user, with the forwarded identity."""
        return replace(self._lender.link_owner(config), passed=self.identity)

    def renew(self, identity: ClientIdentity) -> None:
        """Use the token of a new request from now on; the links stay as they are."""
        token = self.identity.token
        if token is not None and identity.token is not None and token is not identity.token:
            token.renew(identity.token)

    def note_use(self) -> None:
        if isinstance(self._lender, UserTenant):
            self._root.use(self._lender)
        self._lender.identities.use(self)

    @property
    def in_use(self) -> bool:
        """Whether it must be kept: also if it has a session."""
        return super().in_use or bool(self.sessions.all)

    @property
    def installed(self) -> bool:
        """Whether its links exist."""
        return not self._is_released and self._lender.access.installed

    async def install(self) -> None:
        """Wait until the links of its user, or of the bus, exist, and its own."""
        await installed_of(self._lender)
        if self._is_released:
            self._is_released = False
            await self.follow()

    def place(self) -> dict[str, Server]:
        shared, config = self._lender.servers.by_alias, self.engine.usable_config
        # Nothing is known of a server before the bus has built it.
        apart = {
            alias: server.model_copy(
                update={"idle_timeout": server.idle_timeout or IDLE_TIMEOUT, "required": False}
            )
            for alias, server in config.servers.items()
            if alias in shared and self.identity.reaches(server)
        }
        own = {} if self._is_released else apart
        lent = {alias: shared[alias] for alias in config.servers if alias in shared and alias not in apart}
        self.servers.on_demand = frozenset(alias for alias, server in own.items() if not server.lazy)
        return self._placed(own, lent, apart=apart)

    async def follow(self) -> None:
        """Use the current servers and the config of the bus."""
        gone = self.place()
        await self.sessions.follow()
        await self.servers.close_servers(gone)
        await self.servers.notify_roots_changed()

    async def release(self) -> None:
        """Close its own links; the next use builds them again."""
        self._is_released = True
        await self.follow()

    async def close(self) -> None:
        """Close its own links for good, and end the events and the sessions."""
        self.live.registrations.sync(())
        await self.sessions.close()
        await self.servers.close()
        self.hub.end()


class SessionTenant(Borrower):
    """One session: the links of its user, or of the bus, and own ones to servers with `per_session`."""

    def __init__(
        self,
        root: BusTenant,
        lender: BusTenant | UserTenant | IdentityTenant,
        name: str,
        handlers: Interactions | None,
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
        self._root = root
        super().__init__(lender, lender.user, handlers)

    def link_owner(self, config: BusConfig) -> LinkOwner:
        """The secrets and tokens of its user, with the forwarded identity of its client."""
        return self._lender.link_owner(config)

    def renew(self, identity: ClientIdentity) -> None:
        """Use the token of a new request from now on."""
        self._lender.renew(identity)

    def note_use(self) -> None:
        if isinstance(self._lender, Borrower):
            self._lender.note_use()

    @property
    def installed(self) -> bool:
        """Whether the links exist that are not built when they are first needed."""
        return self._lender.access.installed

    async def install(self) -> None:
        """Wait until the links of its user, or of the bus, exist."""
        await installed_of(self._lender)

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
