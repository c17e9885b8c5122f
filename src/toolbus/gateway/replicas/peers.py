"""The replicas that share a store: each announces where the others reach it, again and again.

One that does not any more is gone after some seconds. So is one that cannot be connected to.
"""

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from toolbus.gateway.workers import Workers
from toolbus.state.store.error import StoreError
from toolbus.state.store.store import Store

logger = logging.getLogger("toolbus")

KIND = "replica"
_GRACE = 1.0
_PURGE_EVERY = 20
"""Beats after which what has expired is deleted from the store."""
_KNOWN = ("id", "url", "leaving", "host", "process", "gateway", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One replica."""

    id: str
    url: str
    """Where other replicas reach it."""
    leaving: bool = False
    """Whether it ends, and takes nothing new."""
    host: str = ""
    process: int = 0
    gateway: str = ""
    """The same for all workers of a gateway; empty for one process alone."""
    worker: int = 0


class Peers:
    """This replica among the others, from `start` to `close`."""

    def __init__(
        self, store: Store, workers: Workers | None = None, *, beat: float = 3.0, lease: float = 30.0
    ) -> None:
        """It announces itself every `beat` seconds, and is gone if it did not for `lease` seconds.

        `workers` are those that it is one of.
        """
        self._store = store
        self._workers = workers
        self._beat, self._lease = beat, lease
        self.id = secrets.token_hex(6)
        self._own: Peer | None = None
        self._known: Mapping[str, Peer] = {}
        self._unreachable: set[str] = set()
        """Those that could not be connected to: their processes have ended."""
        self._beating: asyncio.Task[None] | None = None
        self.on_return: Callable[[], None] = lambda: None
        """Called when the others may have taken this replica for dead."""

    async def start(self, url: str) -> None:
        """Announce this replica; StoreError if that is not possible."""
        own = Peer(id=self.id, url=url, host=socket.gethostname(), process=os.getpid())
        if self._workers is not None:
            own = replace(own, gateway=self._workers.gateway, worker=self._workers.number)
        self._own = own
        await self._announce()
        if own.gateway and (before := (await self.workers()).get(own.worker)) is not None:
            self.lost(before.id)  # this process was started in its place
            await self._store.remove(KIND, before.id)
        self._beating = asyncio.create_task(self._keep_announcing(), name="toolbus replica")

    async def leave(self) -> None:
        """Tell the others that this replica takes nothing new; returns when all of them know it."""
        if self._own is not None:
            self._own = replace(self._own, leaving=True)
            with suppress(StoreError):
                await self._announce()
            if any(peer.id != self.id for peer in self._known.values()):
                await asyncio.sleep(self._beat + _GRACE)

    async def close(self) -> None:
        """Announce it no longer."""
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
        if self._own is not None:
            self._own = None
            with suppress(StoreError):  # it expires
                await self._store.remove(KIND, self.id)

    async def find(self, replica: str) -> Peer | None:
        """Another replica, if it is there; StoreError if that cannot be known."""
        if replica in self._unreachable or replica == self.id:
            return None
        if (known := self._known.get(replica)) is None:  # it may be new
            value = await self._store.get(KIND, replica)
            known = None if value is None else _read(value)
        return known

    def known(self, replica: str) -> Peer | None:
        """The same without asking the store."""
        return None if replica in self._unreachable else self._known.get(replica)

    @property
    def others(self) -> list[Peer]:
        """The replicas that take requests, without this one."""
        return [
            peer
            for peer in self._known.values()
            if peer.id != self.id and not peer.leaving and peer.id not in self._unreachable
        ]

    async def workers(self) -> dict[int, Peer]:
        """The other workers of this gateway that are there, by number; StoreError if that cannot be known."""
        await self._look()
        gateway = "" if self._workers is None else self._workers.gateway
        mine = {self.id, *self._unreachable}
        return {
            peer.worker: peer
            for peer in self._known.values()
            if gateway and peer.gateway == gateway and peer.id not in mine
        }

    def lost(self, replica: str) -> None:
        """A replica cannot be connected to: it has ended, and its id does not come back."""
        self._unreachable.add(replica)

    async def _announce(self) -> None:
        assert self._own is not None, "it was started"
        await self._store.put(KIND, self.id, json.dumps(asdict(self._own)).encode(), self._lease)
        await self._look()

    async def _look(self) -> None:
        found = {name: _read(value) for name, value in (await self._store.items(KIND)).items()}
        self._known = {name: peer for name, peer in found.items() if peer is not None}
        self._unreachable &= self._known.keys()

    async def _keep_announcing(self) -> None:
        loop = asyncio.get_running_loop()
        last, beats = loop.time(), 0
        while True:
            await asyncio.sleep(self._beat)
            beats += 1
            try:
                await self._announce()
                if beats % _PURGE_EVERY == 0:
                    await self._store.purge()
            except StoreError as error:
                logger.warning("this replica is not announced to the others: %s", error)
                continue
            now = loop.time()
            if now - last > self._lease:
                self.on_return()
            last = now


def _read(value: bytes) -> Peer | None:
    """A replica; None if its announcement is not one that this version knows."""
    try:
        fields = json.loads(value)
        return Peer(**{name: fields[name] for name in _KNOWN if name in fields})
    except (TypeError, ValueError):
        return None
