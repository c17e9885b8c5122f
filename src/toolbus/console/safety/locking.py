"""The lock of a bus for its page: the state of each server, and the first lockfile; nothing about HTML."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus.bus.inner import tenant_of
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig
from toolbus.core.text.canonical import NotCanonical, digest
from toolbus.core.values.errors import LockError
from toolbus.core.values.records import JSON, Inventory
from toolbus.lock.approval import NotAsShown, snapshot
from toolbus.lock.deception import Suspicion, suspicions
from toolbus.lock.file import LockedServer, Lockfile, entry_digest, lock_path, read_lock, write_lock
from toolbus.lock.launch import launch_line

LockState: TypeAlias = Literal["locked", "on hold", "launch changed", "not in the lock", "only warns", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLock:
    """The lock of one server."""

    server: str
    state: LockState
    held: int = 0
    """The number of its held changes."""
    locked: LockedServer | None = None
    digest: str = ""
    """Of its entry, as it stands in the lockfile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatus:
    """The lockfile of a config, and the state of each server."""

    path: Path
    written: float | None
    """The time of the last write."""
    servers: tuple[ServerLock, ...]
    gone: tuple[str, ...]
    """Servers in the lockfile that are not in the config."""


class LockDigests:
    """The digests of entries in a lockfile; computed once for each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[LockedServer, str]] = {}

    def of(self, alias: str, server: LockedServer) -> str:
        known = self._known.get(alias)
        if known is None or known[0] is not server:
            try:
                found = entry_digest(server)
            except NotCanonical:
                found = ""
            known = self._known[alias] = server, found
        return known[1]


def lock_status(bus: Toolbus, digests: LockDigests) -> LockStatus | None:
    """The status of all servers; None without a lockfile. It reads the file's time, and may take a moment."""
    config, lock = bus.config, bus.lock
    if lock is None:
        return None
    held: dict[str, int] = {}
    for one in bus.held.values():
        held[one.server] = held.get(one.server, 0) + 1
    servers = tuple(_server(bus, alias, lock, held.get(alias, 0), digests) for alias in config.servers)
    try:
        written = lock.path.stat().st_mtime
    except OSError:
        written = None
    known = {*config.servers, *config.disabled, *config.outside}
    gone = tuple(alias for alias in lock.servers if alias not in known)
    return LockStatus(path=lock.path, written=written, servers=servers, gone=gone)


def _server(bus: Toolbus, alias: str, lock: Lockfile, held: int, digests: LockDigests) -> ServerLock:
    approvals, locked = tenant_of(bus).approvals, lock.servers.get(alias)
    mode = approvals.mode(alias)
    state: LockState = "on hold" if held else "locked"
    if mode == "off":
        state = "off"
    elif locked is None:
        state = "not in the lock"
    elif alias in approvals.launches:
        state = "launch changed"
    elif mode == "warn":
        state = "only warns"
    found = "" if locked is None else digests.of(alias, locked)
    return ServerLock(server=alias, state=state, held=held, locked=locked, digest=found)


# The first lockfile


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLock:
    """A lockfile with what the connected servers offer now, to be created."""

    path: Path
    servers: Mapping[str, LockedServer]
    """Without what shows signs of deception: that is on hold afterwards."""
    launches: Mapping[str, str]
    """The launch line or URL of each."""
    signs: tuple[Suspicion, ...]
    missing: tuple[str, ...]
    """Servers that are not connected: somebody has to approve their launch later."""

    @property
    def digest(self) -> str:
        """The digest of all that would be approved."""
        return digest(list[JSON]([[alias, entry_digest(one)] for alias, one in sorted(self.servers.items())]))

    def write(self, shown: str) -> None:
        """Write it if `shown` is its digest, and nobody else has written one; raises `NotAsShown`."""
        if self.digest != shown:
            raise NotAsShown(self.path.name)
        if read_lock(self.path) is not None:
            raise LockError(self.path, "exists already; reload the page")
        write_lock(Lockfile(path=self.path, servers=self.servers))


def first_lock(
    config: BusConfig, listed: Mapping[str, Inventory], ready: Mapping[str, bool]
) -> FirstLock | None:
    """The lockfile of a config with what its ready servers list; None without a config file."""
    if config.file is None:
        return None
    own = [alias for alias in config.servers if config.file_of(alias) == config.file]
    now = {
        alias: snapshot(config.servers[alias], config.folder, listed[alias], None).locked
        for alias in own
        if ready.get(alias, False) and alias in listed
    }
    signs = tuple(suspicions(now))
    return FirstLock(
        path=lock_path(config.file),
        servers={alias: _without(one, alias, signs) for alias, one in now.items()},
        launches={alias: launch_line(dict(one.launch)) for alias, one in now.items()},
        signs=signs,
        missing=tuple(alias for alias in own if alias not in now),
    )


def _without(server: LockedServer, alias: str, signs: tuple[Suspicion, ...]) -> LockedServer:
    """The server without what shows signs of deception."""
    flagged = {one.tool for one in signs if one.server == alias}
    if not flagged:
        return server
    definitions = {
        kind: {name: one for name, one in named.items() if name not in flagged}
        for kind, named in server.definitions.items()
    }
    return replace(server, definitions=definitions, instructions="" if "" in flagged else server.instructions)
