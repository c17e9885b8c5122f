"""This gateway as one of several that share a store: its records there, and its address for the others.

The workers of a gateway whose config has no store share one that their parent made. Only other workers' state
in memory is found through it: keys, approvals and answers stay in the files of the user.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from toolbus.bus.engine.stores import store_of
from toolbus.config import BusConfig
from toolbus.config.settings.auth import is_loopback
from toolbus.config.settings.serve import Serve
from toolbus.config.settings.store import StoreSetting
from toolbus.core.values.errors import ConfigError
from toolbus.gateway.access.keys import KEY as KEYS
from toolbus.gateway.access.keys import StoredKeys
from toolbus.gateway.http.run import listening_socket
from toolbus.gateway.http.workers import FIRST
from toolbus.gateway.replicas.replicas import Replicas
from toolbus.gateway.serve.workers import GatewayWorker, WorkerInheritance
from toolbus.state.seal import Cipher, kept_seal
from toolbus.state.store.database import StoreUrl
from toolbus.state.store.store import Store, report_keys
from toolbus.state.values import Mirror

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Each with the address of this machine for itself."""
_NO_ADDRESS = (
    "the database is on another machine, and {} is not an address for replicas elsewhere; set store.address "
    "to HOST:PORT (127.0.0.1:0 if all run here)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The parts of a gateway that use its store."""

    setting: StoreSetting
    host: str
    """The host at which the others reach this one."""
    store: Store
    keys: StoredKeys | None
    """None if they are not in the store."""
    replicas: Replicas
    mirror: Mirror | None
    checking: "asyncio.Task[None] | None"
    """The look at the keys that the values need."""

    async def close(self) -> None:
        """Leave the other replicas, and release the store."""
        await self.replicas.close()
        if self.checking is not None:
            self.checking.cancel()
            with suppress(asyncio.CancelledError):
                await self.checking
        if self.mirror is not None:
            await self.mirror.close()
        await self.store.close()


@asynccontextmanager
async def opened_replica(
    config: BusConfig, serve: Serve, worker: GatewayWorker | None = None
) -> AsyncGenerator[Replica | None]:
    """This gateway as a replica; None if it is not one. StoreError if its store cannot be used."""
    replica = await _open(config, serve, worker)
    try:
        yield replica
    finally:
        if replica is not None:
            await replica.close()


async def _open(config: BusConfig, serve: Serve, worker: GatewayWorker | None) -> Replica | None:
    """Open the store of a config, or else the store of the workers."""
    store, setting = store_of(config), config.store
    if store is None and worker is not None:
        store, setting = _private(worker.inherited)
    if store is None or setting is None:
        return None
    keys = mirror = None
    try:
        await store.open()
        host = announced_host(setting, serve, await store.local_address())
        if config.store is not None:
            mirror = Mirror(store, KEYS)
            await mirror.start()
            keys = StoredKeys(store, mirror)
        replicas = Replicas(
            store,
            await kept_seal(store),
            # Longer than a session lives: replicas learn that it is used now and then only.
            session_seconds=1.5 * serve.session_idle,
            workers=None if worker is None else worker.workers,
            end_together=config.store is None,
        )
    except BaseException:
        await store.close()
        raise
    checking = None
    if config.store is not None and (worker is None or worker.number == FIRST):
        checking = asyncio.create_task(report_keys(store), name="toolbus store keys")
    return Replica(
        setting=setting,
        host=host,
        store=store,
        keys=keys,
        replicas=replicas,
        mirror=mirror,
        checking=checking,
    )


def _private(inherited: WorkerInheritance) -> tuple[Store, StoreSetting]:
    """The store that the workers of one gateway alone use."""
    path = str(inherited.store)
    url = StoreUrl(database="sqlite", target=path, place=f"sqlite:///{path}")
    # No notice: all of them stop at once, and nobody is left to send requests to.
    setting = StoreSetting(url=url.place, address="127.0.0.1:0", notice=0)
    return Store(url, Cipher([inherited.store_key])), setting


def announced_host(setting: StoreSetting, serve: Serve, local: str | None) -> str:
    """The host at which the other replicas reach this one; ConfigError if it has to be set.

    `local` is the address of this machine that the database sees; None if no network is between them.
    """
    host = _listening(setting, serve)[0]
    if host not in WILDCARDS:
        if setting.address is not None or local is None or is_loopback(local) or not is_loopback(host):
            return host
    elif local is None or is_loopback(local):
        return _named_address(host)
    elif (":" in host) == (":" in local) and "%" not in local:
        return local
    raise ConfigError(_NO_ADDRESS.format(host), key="store.address")


def replica_socket(replica: Replica, serve: Serve, worker: int = 0) -> tuple[socket.socket, str]:
    """The socket for the other replicas, and the URL that they are told; each worker has its own port."""
    host, port = _listening(replica.setting, serve)
    listener = listening_socket(host, port + worker if port else 0)
    scheme = "http" if serve.tls is None else "https"
    bracketed = f"[{replica.host}]" if ":" in replica.host else replica.host
    return listener, f"{scheme}://{bracketed}:{listener.getsockname()[1]}"


def _listening(setting: StoreSetting, serve: Serve) -> tuple[str, int]:
    if setting.address is None:
        return serve.address[0], 0
    host, _, port = setting.address.rpartition(":")
    return host.strip("[]"), int(port)


def _named_address(wildcard: str) -> str:
    """The address of the name of this machine, which in a container is that on its network."""
    family = socket.AF_INET6 if ":" in wildcard else socket.AF_INET
    try:
        return str(socket.getaddrinfo(socket.gethostname(), None, family)[0][4][0])
    except OSError:
        return WILDCARDS[wildcard]
