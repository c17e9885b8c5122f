"""This gateway as one of several that share a store: what it has there, and where the others reach it."""

import socket
import ssl
from dataclasses import dataclass

from toolbus.bus.stores import store_of
from toolbus.config import BusConfig
from toolbus.config.serve import Serve, Tls
from toolbus.config.store import StoreSetting
from toolbus.gateway.access.shared_keys import KIND as KEYS
from toolbus.gateway.access.shared_keys import SharedKeys
from toolbus.gateway.http.run import listening_socket
from toolbus.gateway.peers import Peers
from toolbus.gateway.replicas.replicas import Replicas
from toolbus.state.store.mirror import Mirror
from toolbus.state.store.once import shared_seal
from toolbus.state.store.store import Store

_WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What a gateway has in its store."""

    setting: StoreSetting
    store: Store
    keys: SharedKeys
    replicas: Replicas
    mirror: Mirror

    async def close(self) -> None:
        """Leave the other replicas, and release the store."""
        await self.replicas.close()
        await self.mirror.close()
        await self.store.close()


async def open_replica(config: BusConfig, serve: Serve) -> Replica | None:
    """Open the store of a config; None if it has none. StoreError if it cannot be used."""
    store = store_of(config)
    if store is None or config.store is None:
        return None
    try:
        await store.open()
        mirror = Mirror(store, KEYS)
        await mirror.start()
        tls = None if serve.tls is None else _trusting(serve.tls)
        # Longer than a session lives: replicas learn that it is used now and then only.
        seconds = 1.5 * serve.session_idle
        replicas = Replicas(store, await shared_seal(store), session_seconds=seconds, tls=tls)
    except BaseException:
        await store.close()
        raise
    return Replica(
        setting=config.store, store=store, keys=SharedKeys(store, mirror), replicas=replicas, mirror=mirror
    )


def replica_socket(
    setting: StoreSetting, serve: Serve, peers: Peers | None = None
) -> tuple[socket.socket, str]:
    """The socket for the other replicas, and the URL that they are told; each worker has its own port."""
    host, port = serve.address[0], 0
    if setting.address is not None:
        given, _, number = setting.address.rpartition(":")
        host, port = given.strip("[]"), int(number)
        if peers is not None and port:
            port += peers.number
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
