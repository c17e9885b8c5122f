"""Sessions of legacy clients, and tasks: the records with which another replica continues one.

A session is in one replica, and the others forward its requests. After that replica has ended, the next
replica that gets a request takes the session over. If several try, only one succeeds.
"""

import asyncio
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSONObject, LogLevel
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.sessions import ClientSession
from toolbus.gateway.protocol.words import INTERNAL_ERROR, ProtocolError, WrongReplica
from toolbus.gateway.replicas.peers import Peers, ReplicaPeer, stored_record
from toolbus.state.store.store import Allowance, Store

logger = logging.getLogger("toolbus")

SESSION = "session"
MOST_ROUTES = 20_000
"""Sessions of others whose replica is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The record of a session."""

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
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps({**values, "principal": self.principal.json()}).encode()


class SharedSessions:
    """The sessions in the store, as one replica sees them."""

    def __init__(self, store: Store, peers: Peers, seconds: float) -> None:
        """An unused session is kept for this many seconds."""
        self._store = store
        self._peers = peers
        self._seconds = seconds
        self._routes: dict[str, str] = {}
        """The replicas of others' sessions, as far as known."""
        self._kept: dict[str, float] = {}
        """The time at which the store last learned that a session of ours is used, by its id."""
        self._before: dict[str, str] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending: set[asyncio.Task[None]] = set()
        self.is_leaving = False
        """Whether sessions are left to the other replicas instead of being ended."""

    async def opened(self, session: ClientSession) -> None:
        """Store a new session before its client receives its id."""
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
        facts = _read_facts(value)
        return mark if facts is not None and facts.owner == self._peers.id else None

    def taking(self, name: str) -> asyncio.Lock:
        """The lock for taking a session over, so that this replica does it once."""
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
            facts = _read_facts(value)
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


def _read_facts(value: bytes | None) -> SessionFacts | None:
    return stored_record(SessionFacts, value, principal=Principal.read, subscriptions=tuple)


# Tasks: that one was started, and how it ended. A task runs in one replica. If that one ends before the task
# does, its client learns that the outcome is not known; the call is not made again.

TASK = "task"
UNKNOWN = "the replica that ran this task has ended; whether the call took effect is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """A task of ours that this replica does not run."""

    id: str
    principal: str
    created: datetime
    updated: datetime
    message: str | None = None
    ttl_ms: int
    was_cancelled: bool = False
    ended: JSONObject | None = None
    """Its result, or `{"error": ...}`; None while it runs."""
    questions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """None: nobody waits for the answers."""
    is_task = True

    @property
    def done(self) -> bool:
        return self.ended is not None or self.was_cancelled

    @property
    def requests(self) -> JSONObject:
        return {}

    @property
    def unknown(self) -> "StoredTask":
        """The task, as one whose replica has ended."""
        error = {"error": ProtocolError(INTERNAL_ERROR, UNKNOWN).json}
        return replace(self, ended=error, updated=datetime.now(UTC))

    def outcome(self) -> JSONObject | ProtocolError | None:
        """Its outcome; None if it was cancelled, or if another replica runs it."""
        if self.was_cancelled or self.ended is None:
            return None
        if (error := self.ended.get("error")) is not None:
            return ProtocolError(error["code"], error["message"], error.get("data"))
        return self.ended["result"]


class SharedTasks:
    """The tasks in the store."""

    def __init__(self, store: Store, peers: Peers) -> None:
        self._store = store
        self._peers = peers

    async def put(self, task: StoredTask) -> None:
        """Store a task, for as long as its client may ask for it."""
        await self._store.put(TASK, task.id, _value(task), _left(task))

    async def end(self, task: StoredTask) -> StoredTask:
        """Store how a task ended; returns it as others have ended it, if they did before."""
        while True:
            value, mark = await self._store.marked(TASK, task.id)
            before = _read_task(value)
            if before is None:  # it has expired
                return task
            if before.done:
                return before
            if await self._store.replace(TASK, task.id, mark, _value(task), _left(task)):
                return task

    async def remove(self, name: str) -> None:
        """Forget a task; a result that comes later is not stored."""
        await self._store.remove(TASK, name)

    async def settled(self, task: StoredTask) -> StoredTask:
        """The task; one that runs in a replica which has ended has failed, for good."""
        replica = task.id.partition(".")[0]
        if task.done or await self._peers.find(replica) is not None:
            return task
        # One that is known, and cannot be reached, may be back soon.
        return task.unknown if self._peers.has(replica) else await self.end(task.unknown)

    async def get(self, name: str, principal: str) -> StoredTask | None:
        """The task of that id, if it is this principal's."""
        value = await self._store.get(TASK, name)
        task = _read_task(value)
        return task if task is not None and task.principal == principal else None

    async def of(self, principal: str) -> list[StoredTask]:
        """The tasks of a principal, in the order of their start."""
        found = map(_read_task, (await self._store.items(TASK)).values())
        own = [task for task in found if task is not None and task.principal == principal]
        return [await self.settled(task) for task in sorted(own, key=lambda task: task.created)]

    async def cancelled(self, task: StoredTask) -> StoredTask:
        """The task, cancelled: one whose replica has ended."""
        return await self.end(replace(task, was_cancelled=True, updated=datetime.now(UTC)))


def _value(task: StoredTask) -> bytes:
    values = {**asdict(task), "created": task.created.isoformat(), "updated": task.updated.isoformat()}
    del values["questions"]
    return json.dumps(values).encode()


def _left(task: StoredTask) -> float:
    return max(task.ttl_ms / 1000 - (datetime.now(UTC) - task.created).total_seconds(), 1.0)


def _read_task(value: bytes | None) -> StoredTask | None:
    time = datetime.fromisoformat
    return stored_record(StoredTask, value, created=time, updated=time)
