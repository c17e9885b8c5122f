"""The replicas that share a store: each announces where the others reach it, again and again.

One that does not any more is gone after some seconds. So is one that cannot be connected to; if it announces
itself nevertheless, a warning reports that its address is wrong.
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

from toolbus.connect.http.url import parse_url
from toolbus.core.errors import StoreError
from toolbus.gateway.workers import Workers
from toolbus.state.store.store import Store

logger = logging.getLogger("toolbus")

KIND = "replica"
_GRACE = 1.0
_PURGE_EVERY = 20
"""Beats after which what has expired is deleted from the store."""
_CONNECT_SECONDS = 3.0
_WRONG_ADDRESS = (
    "replica %s on %s is running, but cannot be reached at %s: what it alone has cannot be used here; set "
    "store.address there to an address that the other replicas can connect to"
)
_KNOWN = ("id", "url", "leaving", "host", "process", "gateway", "worker", "beat", "servers", "certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One replica."""

    id: str
    url: str
    """Where other replicas reach it."""
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
    """How often it has announced itself."""
    servers: tuple[str, ...] = ()
    """The servers of its config."""


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
        self._unreachable: dict[str, int | None] = {}
        """Those that could not be connected to, and the last of their beats that may be older than that."""
        self._tried: set[str] = set()
        """Those that this replica has tried to connect to."""
        self._reported: set[str] = set()
        """Those whose wrong address is in the log."""
        self._beating: asyncio.Task[None] | None = None
        self._trying: asyncio.Task[None] | None = None
        self.servers: tuple[str, ...] = ()
        """The servers of the config, which the others are told."""
        self.on_return: Callable[[], None] = lambda: None
        """Called when the others may have taken this replica for dead."""

    async def start(self, url: str, certificate: str = "") -> None:
        """Announce this replica, and see which others are there; StoreError if that is not possible.

        `certificate` is the digest of the one that it shows at the URL, under HTTPS.
        """
        own = Peer(
            id=self.id, url=url, certificate=certificate, host=socket.gethostname(), process=os.getpid()
        )
        if self._workers is not None:
            own = replace(own, gateway=self._workers.gateway, worker=self._workers.number)
        self._own = own
        await self._announce()
        if own.gateway and (before := (await self.workers()).get(own.worker)) is not None:
            self.lost(before.id)  # this process was started in its place
            await self._store.remove(KIND, before.id)
        await self._try_peers()
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
        for task in (self._beating, self._trying):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
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
            if known is not None:
                self._known = {**self._known, replica: known}  # the store may not respond the next time
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
        """A replica cannot be connected to: it has ended, unless it announces itself again."""
        self._unreachable[replica] = None

    async def _announce(self) -> None:
        assert self._own is not None, "it was started"
        self._own = replace(self._own, beat=self._own.beat + 1, servers=self.servers)
        await self._store.put(KIND, self.id, json.dumps(asdict(self._own)).encode(), self._lease)
        await self._look()

    async def _look(self) -> None:
        found = {name: _read(value) for name, value in (await self._store.items(KIND)).items()}
        self._known = {name: peer for name, peer in found.items() if peer is not None}
        for replica, beat in tuple(self._unreachable.items()):
            if replica not in self._known:
                del self._unreachable[replica]
            elif beat is None:
                self._unreachable[replica] = self._known[replica].beat
        self._tried &= self._known.keys()
        self._reported &= self._known.keys()

    async def _try_peers(self) -> None:
        """Connect to replicas that are new, and to those that were lost and announce themselves again."""
        found = [peer for peer in self._known.values() if peer.id != self.id and not peer.leaving]
        await asyncio.gather(*(self._try(peer) for peer in found if self._is_worth_trying(peer)))

    def _is_worth_trying(self, peer: Peer) -> bool:
        if peer.id not in self._unreachable:
            return peer.id not in self._tried
        beat = self._unreachable[peer.id]
        return beat is not None and peer.beat > beat

    async def _try(self, peer: Peer) -> None:
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

    async def _keep_announcing(self) -> None:
        loop = asyncio.get_running_loop()
        last, beats, is_silent = loop.time(), 0, False
        while True:
            await asyncio.sleep(self._beat)
            beats += 1
            try:
                await self._announce()
                if beats % _PURGE_EVERY == 0:
                    await self._store.purge()
            except StoreError as error:
                if not is_silent:
                    logger.warning("this replica is not announced to the others: %s", error)
                is_silent = True
                continue
            is_silent = False
            if self._trying is None or self._trying.done():
                self._trying = asyncio.create_task(self._try_peers(), name="toolbus replicas")
            now = loop.time()
            if now - last > self._lease:
                self.on_return()
            last = now


def _read(value: bytes) -> Peer | None:
    """A replica; None if its announcement is not one that this version knows."""
    try:
        fields = json.loads(value)
        peer = Peer(**{name: fields[name] for name in _KNOWN if name in fields})
        return replace(peer, servers=tuple(peer.servers))
    except (TypeError, ValueError):
        return None
