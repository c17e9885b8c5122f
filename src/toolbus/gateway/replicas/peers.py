"""The replicas that share a store: each counts its heartbeats in a row there, and all watch each other.

No clock is compared. A replica is dead if it does not respond, and if its count did not change
while the watcher itself beat several times. The row tells all others. So nobody is declared dead because of a
wrong clock, a slow store, a suspended watcher, or a high load. A replica that was suspended, such as by
SIGSTOP, finds in its own row that it was declared dead, and joins again.

A replica that cannot be connected to has ended; if it beats nevertheless, a warning reports that its address
is wrong.
"""

import asyncio
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.connect.http.url import parse_url
from toolbus.core.values.errors import StoreError
from toolbus.gateway.http.workers import Workers
from toolbus.state.store.store import Store

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

logger = logging.getLogger("toolbus")
T = TypeVar("T", bound="DataclassInstance")

REPLICA = "replica"
_BEAT = 2.0
_MISSED = 3
"""Heartbeats after which a replica is asked whether it is alive."""
_GRACE = 1.0
_KEPT = 3600.0
"""Seconds for which a row without a beat is kept; long, because the store may be away for a while."""
_KEPT_DEAD = 60.0
_PURGE_EVERY = 30
"""Beats after which expired records are deleted from the store."""
_CONNECT_SECONDS = 3.0
_WRONG_ADDRESS = (
    "replica %s on %s is running, but cannot be reached at %s; set its store.address to an "
    "address that the other replicas can connect to"
)
_DEAD = "replica %s on %s does not respond, and has missed its heartbeats; the others take over its sessions"
_RETURNED = "the other replicas believed that this one had ended, and may have taken over its sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPeer:
    """One replica."""

    id: str
    url: str
    """The URL at which other replicas reach it."""
    certificate: str = ""
    """The SHA-256 of the certificate that it shows there."""
    leaving: bool = False
    """Whether it ends, and takes nothing new."""
    host: str = ""
    process: int = 0
    gateway: str = ""
    """The same for all workers of a gateway; empty for one process alone."""
    worker: int = 0
    beat: int = 0
    """The number of times that it has announced itself."""
    every: float = 3.0
    """Seconds between two beats."""
    dead: bool = False
    """Whether it was declared dead."""
    servers: tuple[str, ...] = ()
    """The servers of its config."""


class Peers:
    """This replica among the others, from `start` to `close`."""

    def __init__(self, store: Store, workers: Workers | None = None, *, beat: float = _BEAT) -> None:
        """It announces itself every `beat` seconds; `workers` are those that it is one of."""
        self._store = store
        self._workers = workers
        self._beat = beat
        # On a thread and a connection of its own: neither a busy loop nor a busy store keeps it from beating.
        self._beats = store.beside(_BEAT)
        self._beating: Future[None] | None = None
        self._one_beat = asyncio.Lock()
        self._checked = 0.0
        """The time when the last attempt to beat began."""
        self._making_sure: asyncio.Task[None] | None = None
        self.id = secrets.token_hex(6)
        self._own: ReplicaPeer | None = None
        self._known: Mapping[str, ReplicaPeer] = {}
        self._stood_still: dict[str, tuple[int, int]] = {}
        """The last beat of each replica, and for how many of our own it is the last."""
        self._dead: dict[str, int] = {}
        """The last beat of those that were declared dead."""
        self._doubted: dict[str, asyncio.Task[None]] = {}
        """Those that are asked whether they are alive."""
        self._unreachable: dict[str, int | None] = {}
        """Those that could not be connected to, and the last of their beats that may be older than that."""
        self._tried: set[str] = set()
        """Those that this replica has tried to connect to."""
        self._reported: set[str] = set()
        """Those whose wrong address is in the log."""
        self._trying: asyncio.Task[None] | None = None
        self.servers: tuple[str, ...] = ()
        """The servers of the config, which the others are told."""
        self.on_return: Callable[[], None] = lambda: None
        """Called when the others took this replica for dead."""
        self.on_death: Callable[[str], None] = lambda replica: None
        """Called when a replica is dead."""
        self.responds: Callable[[ReplicaPeer], Awaitable[bool]] = _never
        """Asks a replica for a heartbeat."""

    async def start(self, url: str, certificate: str = "") -> None:
        """Announce this replica, and find the others; StoreError if that is not possible.

        `certificate` is the digest of the one that it shows at the URL, under HTTPS.
        """
        own = ReplicaPeer(
            id=self.id,
            url=url,
            certificate=certificate,
            host=socket.gethostname(),
            process=os.getpid(),
            every=self._beat,
            servers=self.servers,
        )
        if self._workers is not None:
            own = replace(own, gateway=self._workers.gateway, worker=self._workers.number)
        self._own = own
        await self._store.put(REPLICA, self.id, _value(own), _KEPT)
        await self._look()
        if own.gateway and (before := (await self.workers()).get(own.worker)) is not None:
            self.lost(before.id)  # this process was started in its place
            await self._store.remove(REPLICA, before.id)
        await self._try_peers()
        self._checked = time.monotonic()
        self._beating = self._beats.begin(self._keep_beating(asyncio.get_running_loop()))

    async def leave(self) -> None:
        """Tell the others that this replica takes nothing new; returns when all of them know it."""
        if self._own is not None:
            self._own = replace(self._own, leaving=True)
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_BEAT):
                    await self._beat_now()
            if any(peer.id != self.id for peer in self._known.values()):
                await asyncio.sleep(max(peer.every for peer in self._known.values()) + _GRACE)

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        tasks = [task for task in (self._trying, self._making_sure, *self._doubted.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._own is not None:
            self._own, self._beats.patience = None, _GRACE
            with suppress(StoreError):  # it expires
                await self._beats.remove(REPLICA, self.id)
        await self._beats.close()

    async def make_sure(self) -> None:
        """Find out whether the others took this replica for dead, if it may have been suspended."""
        if self._own is None or time.monotonic() - self._checked < _MISSED * self._beat:
            return
        if self._making_sure is None or self._making_sure.done():
            self._making_sure = asyncio.create_task(self._beat_now(), name="toolbus replica")
        with suppress(StoreError):  # then nobody can take anything over
            await asyncio.shield(self._making_sure)

    async def find(self, replica: str) -> ReplicaPeer | None:
        """Another replica, if it is alive; StoreError if that cannot be known."""
        if replica in self._unreachable or replica == self.id:
            return None
        if (known := self._known.get(replica)) is None:  # it may be new
            value = await self._store.get(REPLICA, replica)
            known = _read(value)
            if known is not None and known.dead:
                known = None
            if known is not None:
                self._known = {**self._known, replica: known}  # the store may not respond the next time
        return known

    def known(self, replica: str) -> ReplicaPeer | None:
        """The same without asking the store."""
        return None if replica in self._unreachable else self._known.get(replica)

    def has(self, replica: str) -> bool:
        """Whether a replica has neither left nor is dead, reachable or not; without asking the store."""
        return replica in self._known

    @property
    def others(self) -> list[ReplicaPeer]:
        """The replicas that take requests, without this one."""
        return [
            peer
            for peer in self._known.values()
            if peer.id != self.id and not peer.leaving and peer.id not in self._unreachable
        ]

    async def workers(self) -> dict[int, ReplicaPeer]:
        """The other live workers of this gateway, by number; StoreError if that cannot be known."""
        await self._look()
        gateway = "" if self._workers is None else self._workers.gateway
        mine = {self.id, *self._unreachable}
        return {
            peer.worker: peer
            for peer in self._known.values()
            if gateway and peer.gateway == gateway and peer.id not in mine
        }

    def lost(self, replica: str) -> None:
        """A replica cannot be connected to: it has ended, unless it announces itself again."""
        self._unreachable[replica] = None

    # Heartbeats, on the thread of their own store

    async def _keep_beating(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beat regularly, and send observations about the others to the loop of this replica."""
        beats, is_silent = 0, False
        while True:
            await asyncio.sleep(self._beat)
            beats += 1
            try:
                found, was_dead = await self._announce()
                if beats % _PURGE_EVERY == 0:
                    await self._beats.purge()
            except StoreError as error:
                if not is_silent:
                    logger.warning("this replica is not announced to the others: %s", error)
                is_silent = True
                continue
            is_silent = False
            with suppress(RuntimeError):  # that loop has ended
                loop.call_soon_threadsafe(self._take_regular, found, was_dead)

    async def _announce(self) -> tuple[dict[str, ReplicaPeer], bool]:
        """Beat once; returns all replicas, and whether this one had been declared dead."""
        async with self._one_beat:
            assert self._own is not None, "it was started"
            began, was_dead = time.monotonic(), True
            try:
                rows = await self._beats.marked_items(REPLICA)
                own = replace(self._own, beat=self._own.beat + 1, servers=self.servers)
                before, mark = rows.get(self.id, (b"", 0))
                if (last := _read(before)) is not None and not last.dead:
                    # Unless others write that it is dead at this moment.
                    was_dead = not await self._beats.replace(REPLICA, self.id, mark, _value(own), _KEPT)
                if was_dead:
                    await self._beats.put(REPLICA, self.id, _value(own), _KEPT)
                self._own = replace(own, leaving=self._own.leaving)  # which may have changed meanwhile
            finally:
                self._checked = began
            found = {name: peer for name, (value, _) in rows.items() if (peer := _read(value)) is not None}
            return {**found, self.id: own}, was_dead

    # What is seen of the others, on the loop of this replica

    async def _beat_now(self) -> None:
        self._take(*await asyncio.wrap_future(self._beats.begin(self._announce())))

    async def _look(self) -> None:
        rows = await self._store.items(REPLICA)
        self._take({name: peer for name, value in rows.items() if (peer := _read(value)) is not None})

    def _take_regular(self, found: Mapping[str, ReplicaPeer], was_dead: bool) -> None:
        """Take what a beat has seen, a whole interval after the last one."""
        if self._own is None:
            return
        self._take(found, was_dead)
        self._stood_still = {
            peer.id: (peer.beat, still[1] + 1 if still[0] == peer.beat else 0)
            for peer in self._known.values()
            if peer.id != self.id
            for still in (self._stood_still.get(peer.id, (-1, 0)),)
        }
        for replica, (_, times) in self._stood_still.items():
            peer = self._known[replica]
            if times * self._beat >= _MISSED * peer.every and replica not in self._doubted:
                self._doubted[replica] = asyncio.create_task(self._doubt(peer), name="toolbus replicas")
        if self._trying is None or self._trying.done():
            self._trying = asyncio.create_task(self._try_peers(), name="toolbus replicas")

    def _take(self, found: Mapping[str, ReplicaPeer], was_dead: bool = False) -> None:
        self._dead = {name: beat for name, beat in self._dead.items() if name in found}
        self._dead.update({peer.id: peer.beat for peer in found.values() if peer.dead})
        # What was read just before a replica was declared dead does not bring it back.
        self._known = {
            name: peer
            for name, peer in found.items()
            if not peer.dead and peer.beat > self._dead.get(name, -1)
        }
        for replica, beat in tuple(self._unreachable.items()):
            if replica not in self._known:
                del self._unreachable[replica]
            elif beat is None:
                self._unreachable[replica] = self._known[replica].beat
        self._tried &= self._known.keys()
        self._reported &= self._known.keys()
        for replica in self._dead.keys() - self._known.keys():
            self.on_death(replica)
        if was_dead:
            logger.warning(_RETURNED)
            self.on_return()

    async def _doubt(self, peer: ReplicaPeer) -> None:
        """Declare a replica dead, unless it is alive after all."""
        try:
            if await self.responds(peer):
                return
            value, mark = await self._beats.marked(REPLICA, peer.id)
            now = _read(value)
            if now is None or now.beat != peer.beat:  # it has left, or beats again
                return
            if not now.dead:
                dead = _value(replace(now, dead=True))
                if not await self._beats.replace(REPLICA, peer.id, mark, dead, _KEPT_DEAD):
                    return
                logger.warning(_DEAD, peer.id, peer.host)
            self._dead[peer.id] = peer.beat
            self._known = {name: one for name, one in self._known.items() if name != peer.id}
            self.on_death(peer.id)
        except StoreError as error:
            logger.debug("%s", error)  # the next beat tries again
        finally:
            del self._doubted[peer.id]

    async def _try_peers(self) -> None:
        """Connect to replicas that are new, and to those that were lost and announce themselves again."""
        found = [peer for peer in self._known.values() if peer.id != self.id and not peer.leaving]
        await asyncio.gather(*(self._try(peer) for peer in found if self._is_worth_trying(peer)))

    def _is_worth_trying(self, peer: ReplicaPeer) -> bool:
        if peer.id not in self._unreachable:
            return peer.id not in self._tried
        beat = self._unreachable[peer.id]
        return beat is not None and peer.beat > beat

    async def _try(self, peer: ReplicaPeer) -> None:
        is_lost = peer.id in self._unreachable
        self._tried.add(peer.id)
        url = parse_url(peer.url)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(url.host, url.port)
        except (OSError, TimeoutError):
            self.lost(peer.id)
            if is_lost and peer.id not in self._reported:
                self._reported.add(peer.id)
                logger.warning(_WRONG_ADDRESS, peer.id, peer.host, peer.url)
        else:
            writer.close()
            self._unreachable.pop(peer.id, None)


async def _never(peer: ReplicaPeer) -> bool:
    """No replica ever responds."""
    return False


def _value(peer: ReplicaPeer) -> bytes:
    return json.dumps(asdict(peer)).encode()


def _read(value: bytes | None) -> ReplicaPeer | None:
    return stored_record(ReplicaPeer, value, servers=tuple)


def stored_record(kind: type[T], value: bytes | None, **read: Callable[[Any], Any]) -> T | None:
    """A record from its JSON, with some fields read; None if it is not one that this version knows.

    A newer version may have added fields, which are left out.
    """
    try:
        fields: dict[str, Any] = json.loads(value or b"null")
        known = {name: fields[name] for name in kind.__dataclass_fields__ if name in fields}
        return kind(**known | {name: made(known[name]) for name, made in read.items() if name in known})
    except (KeyError, TypeError, ValueError):
        return None
