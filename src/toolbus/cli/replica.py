"""This gateway as one of several that share a store: what it has there, and where the others reach it.

The workers of a gateway whose config has no store share one that their parent made. Only what is in memory
elsewhere is found through it: keys, approvals and answers stay in the files of the user.
"""

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from toolbus.bus.stores import store_of
from toolbus.cli.workers import Inherited, Worker
from toolbus.config import BusConfig
from toolbus.config.serve import Serve
from toolbus.config.serve_auth import Tls
from toolbus.config.store import StoreSetting
from toolbus.gateway.access.shared_keys import KIND as KEYS
from toolbus.gateway.access.shared_keys import SharedKeys
from toolbus.gateway.http.run import listening_socket
from toolbus.gateway.replicas.replicas import Replicas
from toolbus.state.store.cipher import Cipher
from toolbus.state.store.mirror import Mirror
from toolbus.state.store.once import shared_seal
from toolbus.state.store.store import Store
from toolbus.state.store.url import StoreUrl

_WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What a gateway has in its store."""

    setting: StoreSetting
    store: Store
    keys: SharedKeys | None
    """None if they are not in the store."""
    replicas: Replicas
    mirror: Mirror | None

    async def close(self) -> None:
        """Leave the other replicas, and release the store."""
        await self.replicas.close()
        if self.mirror is not None:
            await self.mirror.close()
        await self.store.close()


@asynccontextmanager
async def opened_replica(
    config: BusConfig, serve: Serve, worker: Worker | None = None
) -> AsyncGenerator[Replica | None]:
    """This gateway as a replica; None if it is not one. StoreError if its store cannot be used."""
    replica = await _open(config, serve, worker)
    try:
        yield replica
    finally:
        if replica is not None:
            await replica.close()


async def _open(config: BusConfig, serve: Serve, worker: Worker | None) -> Replica | None:
    """Open the store of a config, or else the one of the workers."""
    store, setting = store_of(config), config.store
    if store is None and worker is not None:
        store, setting = _private(worker.inherited)
    if store is None or setting is None:
        return None
    keys = mirror = None
    try:
        await store.open()
        if config.store is not None:
            mirror = Mirror(store, KEYS)
            await mirror.start()
            keys = SharedKeys(store, mirror)
        replicas = Replicas(
            store,
            await shared_seal(store),
            # Longer than a session lives: replicas learn that it is used now and then only.
            session_seconds=1.5 * serve.session_idle,
            tls=None if serve.tls is None else _trusting(serve.tls),
            workers=None if worker is None else worker.workers,
            end_together=config.store is None,
        )
    except BaseException:
        await store.close()
        raise
    return Replica(setting=setting, store=store, keys=keys, replicas=replicas, mirror=mirror)


def _private(inherited: Inherited) -> tuple[Store, StoreSetting]:
    """The store that the workers of one gateway alone use."""
    path = str(inherited.store)
    url = StoreUrl(database="sqlite", target=path, place=f"sqlite:///{path}")
    # No notice: all of them stop at once, and nobody is left to send requests to.
    setting = StoreSetting(url=url.place, address="127.0.0.1:0", notice=0)
    return Store(url, Cipher([inherited.store_key])), setting


def replica_socket(setting: StoreSetting, serve: Serve, worker: int = 0) -> tuple[socket.socket, str]:
    """The socket for the other replicas, and the URL that they are told; each worker has its own port."""
    host, port = serve.address[0], 0
    if setting.address is not None:
        given, _, number = setting.address.rpartition(":")
        host, port = given.strip("[]"), int(number)
        port += worker if port else 0
    listener = listening_socket(host, port)
    shown = socket.gethostbyname(socket.gethostname()) if host in _WILDCARDS else host
    scheme = "http" if serve.tls is None else "https"
    bracketed = f"[{shown}]" if ":" in shown else shown
    return listener, f"{scheme}://{bracketed}:{listener.getsockname()[1]}"


def _trusting(files: Tls) -> ssl.SSLContext:
    """Trust replicas that have the certificate of this one, whatever their names are."""
    context = ssl.create_default_context(cafile=files.cert)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context
