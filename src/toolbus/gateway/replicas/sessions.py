"""The sessions of legacy clients, for all replicas: what has to be known of one to go on with it elsewhere.

A session is in one replica, and the others pass its requests on. If that one has ended or is about to,
whoever gets the next request takes the session over; of several, one does.
"""

import asyncio
import json
import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from weakref import WeakValueDictionary

from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSONObject, LogLevel
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.sessions import ClientSession
from toolbus.gateway.protocol.words import WrongReplica
from toolbus.gateway.replicas.peers import Peers, ReplicaPeer
from toolbus.state.store.store import Allowance, Store

logger = logging.getLogger("toolbus")

SESSION = "session"
MOST_ROUTES = 20_000
"""Sessions of others whose replica is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What is known of a session."""

    principal: Principal
    version: str
    capabilities: JSONObject
    log_level: LogLevel | None = None
    subscriptions: tuple[str, ...] = ()
    owner: str
    """The replica that has it."""
    before: str = ""
    """The one that had it before, and may still answer requests of it."""

    @property
    def json(self) -> bytes:
        """As it is stored."""
        return json.dumps({**asdict(self), "principal": asdict(self.principal)}).encode()


class SharedSessions:
    """The sessions in the store, as one replica sees them."""

    def __init__(self, store: Store, peers: Peers, seconds: float) -> None:
        """A session that is not used is kept for so many seconds."""
        self._store = store
        self._peers = peers
        self._seconds = seconds
        self._routes: dict[str, str] = {}
        """The replicas of others' sessions, as far as known."""
        self._kept: dict[str, float] = {}
        """When the store last learned that a session of ours is used, by its id."""
        self._before: dict[str, str] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending: set[asyncio.Task[None]] = set()
        self.is_leaving = False
        """Whether sessions are left to the other replicas instead of being ended."""

    async def opened(self, session: ClientSession) -> None:
        """Store a new session, before its client learns of it."""
        await self._store.put(SESSION, _name(session.id), self._facts(session).json, self._seconds)
        self._watch(session)

    async def changed(self, session: ClientSession) -> None:
        """Store what a request of the session has changed, unless another replica has it now."""
        mark = await self._own_mark(session.id)
        if mark is not None:
            facts = self._facts(session).json
            await self._store.replace(SESSION, _name(session.id), mark, facts, self._seconds)

    async def _own_mark(self, name: str) -> int | None:
        """The mark of a session in the store; None if this replica does not have it any more."""
        value, mark = await self._store.marked(SESSION, _name(name))
        facts = None if value is None else _read(value)
        return mark if facts is not None and facts.owner == self._peers.id else None

    def taking(self, name: str) -> asyncio.Lock:
        """Held by whoever takes a session over, so that this replica does it once."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def take(self, name: str, principal: Principal, avoid: Collection[str] = ()) -> SessionFacts | None:
        """Take a session over; None if there is none of that id for this principal.

        `WrongReplica` if another replica has it; those to `avoid` were asked, and do not.
        """
        while True:
            route = self._routes.get(name)
            if route is not None and route not in avoid and _takes(self._peers.known(route)):
                raise WrongReplica(route)
            value, mark = await self._store.marked(SESSION, _name(name))
            facts = None if value is None else _read(value)
            if facts is None or not facts.principal.is_like(principal):
                return None
            owner = facts.owner
            if owner == self._peers.id:
                return facts
            if owner not in avoid and _takes(await self._peers.find(owner)):
                if len(self._routes) >= MOST_ROUTES:
                    self._routes.clear()
                self._routes[name] = owner
                raise WrongReplica(owner)
            taken = replace(facts, owner=self._peers.id, before=owner)
            if await self._store.replace(SESSION, _name(name), mark, taken.json, self._seconds):
                self._routes.pop(name, None)
                return taken

    async def remove(self, session: ClientSession) -> None:
        """The client has ended a session, for all replicas."""
        self.forget(session)
        await self._store.remove(SESSION, _name(session.id))

    def restored(self, session: ClientSession, facts: SessionFacts) -> None:
        """A session that was taken over is open here."""
        if facts.before:
            self._before[session.id] = facts.before
        self._watch(session)

    def before(self, session: ClientSession) -> str:
        """The replica that had the session before and may still answer requests of it; empty if none does."""
        replica = self._before.get(session.id, "")
        return replica if replica and self._peers.known(replica) is not None else ""

    async def keep(self, sessions: Collection[ClientSession]) -> None:
        """Let the store know which sessions are used, now and then."""
        loop = asyncio.get_running_loop()
        for session in sessions:
            if loop.time() - self._kept.get(session.id, 0.0) > self._seconds / 4:
                await self._store.keep(SESSION, _name(session.id), self._seconds)
                self._kept[session.id] = loop.time()

    async def moved(self, sessions: Collection[ClientSession]) -> list[ClientSession]:
        """Those sessions that another replica took, or ended, because it believed that this one had ended."""
        return [session for session in sessions if await self._own_mark(session.id) is None]

    def forget(self, session: ClientSession) -> None:
        """The end of a session here does not end it elsewhere."""
        self._kept.pop(session.id, None)

    def _watch(self, session: ClientSession) -> None:
        self._kept[session.id] = asyncio.get_running_loop().time()
        session.on_close(lambda: self._closed(session.id))

    def _closed(self, name: str) -> None:
        self._before.pop(name, None)
        if self._kept.pop(name, None) is not None and not self.is_leaving:
            task = asyncio.get_running_loop().create_task(self._remove(name))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _remove(self, name: str) -> None:
        Allowance.leave()
        try:
            mark = await self._own_mark(name)
            if mark is not None:
                await self._store.replace(SESSION, _name(name), mark, b"", seconds=0.0)
        except StoreError as error:  # it expires
            logger.debug("%s", error)

    def _facts(self, session: ClientSession) -> SessionFacts:
        return SessionFacts(
            principal=session.principal,
            version=session.version,
            capabilities=session.capabilities,
            log_level=session.log_level,
            subscriptions=tuple(sorted(session.subscriptions)),
            owner=self._peers.id,
            before=self._before.get(session.id, ""),
        )


def _takes(peer: ReplicaPeer | None) -> bool:
    return peer is not None and not peer.leaving


def _name(session: str) -> str:
    """Of an id only its digest: who reads the database cannot use the session."""
    return sha256(session.encode(errors="surrogateescape")).hexdigest()


def _read(value: bytes) -> SessionFacts | None:
    """The facts; None if they are not those that this version knows."""
    try:
        fields = json.loads(value)
        known = {name: fields[name] for name in SessionFacts.__dataclass_fields__ if name in fields}
        known["principal"] = Principal.read(fields["principal"])
        known["subscriptions"] = tuple(fields.get("subscriptions", ()))
        return SessionFacts(**known)
    except (KeyError, TypeError, ValueError):
        return None
