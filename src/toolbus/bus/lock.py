"""The lock of a bus: what was approved of its servers, and what they offer beyond that.

With a lockfile, the catalog exists before any server is connected. Once a server has listed its tools, they
are compared with the file, and those that differ are held: not in the catalog, and refused if called.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from toolbus.config import BusConfig, LockMode, ServerConfig
from toolbus.core.errors import CallRefused, ConfigError, LockError
from toolbus.core.events import Emit, ToolHeld, warn
from toolbus.core.operation import Operation
from toolbus.core.records import Inventory
from toolbus.lock.canonical import NotCanonical, digest
from toolbus.lock.drift import Held, HeldKind, Review, Reviewer, held_reason
from toolbus.lock.file import NAME, LockedServer, Lockfile, lock_path, read_lock
from toolbus.lock.launch import launch_of

logger = logging.getLogger("toolbus")
_KINDS: Mapping[str, HeldKind] = {"tools/call": "tool", "prompts/get": "prompt"}
_NOTHING = Inventory()


class BusLock:
    """Holds back what differs from the lockfile."""

    def __init__(self, config: BusConfig, listed: Callable[[], Mapping[str, Inventory]], emit: Emit) -> None:
        """Reads the lockfile next to the config; `LockError` if it cannot be used."""
        self._listed = listed
        self._emit = emit
        self._reviews: dict[str, tuple[Inventory, Review]] = {}
        """The last inventory of each server, and its review."""
        self._reported: set[Held] = set()
        self.use(config)

    def use(self, config: BusConfig) -> None:
        """Read the lockfile of a config; `LockError` if it cannot be used, and nothing changes."""
        file = _lockfile(config)
        modes = {alias: _mode(config, server, file) for alias, server in config.servers.items()}
        self._file, self._modes = file, modes
        self._folder = config.folder
        self._reviews = {}
        servers: Mapping[str, LockedServer] = {} if file is None else file.servers
        locked = [alias for alias, mode in modes.items() if mode != "off"]
        self._reviewers = {
            alias: Reviewer(alias, servers.get(alias), config.servers[alias].limits) for alias in locked
        }
        self._known = {alias: self._reviewers[alias].known for alias in locked if alias in servers}
        self._launches = {alias: one for alias in locked if (one := self._launch_held(config, alias))}

    @property
    def file(self) -> Lockfile | None:
        """The lockfile in use; None without one."""
        return self._file if self.active else None

    @property
    def active(self) -> bool:
        """Whether anything is compared with a lockfile."""
        return bool(self._reviewers)

    def covers(self, alias: str) -> bool:
        """Whether the tools of a server are known before it is connected: approved, or held as a whole."""
        return alias in self._known or (self.file is not None and self._modes.get(alias) == "block")

    @property
    def inventories(self) -> dict[str, Inventory]:
        """What each server offers and the lock allows; before it is listed, what was approved."""
        return {alias: self._approved(alias, listed) for alias, listed in self._listed().items()}

    @property
    def held(self) -> dict[str, Held]:
        """What is held, by `server/tool`."""
        listed = self._listed()
        found = [one for alias, one in self._launches.items() if alias in listed]
        for alias, inventory in listed.items():
            if alias not in self._launches and inventory != _NOTHING:
                found += self._review(alias, inventory).held
        return {one.key: one for one in found if self._modes.get(one.server) == "block"}

    def servers_to_use(self, config: BusConfig) -> BusConfig:
        """The config with a mistake for each server whose launch is held: it must not be started."""
        held = {alias: one for alias, one in self._launches.items() if self._modes[alias] == "block"}
        if not held:
            return config
        servers = {
            alias: _refused(server, held[alias].reason) if alias in held else server
            for alias, server in config.servers.items()
        }
        return config.model_copy(update={"servers": servers})

    def check(self, operation: Operation) -> None:
        """Raise `CallRefused` if the tool or prompt of an operation is held."""
        kind = _KINDS.get(operation.route)
        if kind is not None and (one := self.why_held(operation.server, operation.spec.origin.tool, kind)):
            raise CallRefused(f"{kind} {operation.spec.name!r}", one.reason)

    def why_held(self, server: str, name: str, kind: HeldKind = "tool") -> Held | None:
        """Why a tool or prompt is held, by the server's own name; None if it is not."""
        if self._modes.get(server) != "block":
            return None
        if server in self._launches:
            return self._launches[server]
        _, review = self._reviews.get(server, (None, None))
        held = () if review is None else review.held
        return next((one for one in held if (one.kind, one.name) == (kind, name)), None)

    def _approved(self, alias: str, listed: Inventory) -> Inventory:
        mode = self._modes.get(alias, "off")
        if mode == "off":
            return listed
        if alias in self._launches and mode == "block":
            return _NOTHING
        if listed == _NOTHING:
            return self._known.get(alias, _NOTHING)
        review = self._review(alias, listed)
        return review.approved if mode == "block" else listed

    def _review(self, alias: str, listed: Inventory) -> Review:
        known, review = self._reviews.get(alias, (None, None))
        if review is None or known is not listed:
            reviewer = self._reviewers.get(alias)
            review = Review(approved=listed) if reviewer is None else reviewer.review(listed)
            self._reviews[alias] = listed, review
            for one in review.held:
                self._report(one)
        return review

    def _report(self, one: Held) -> None:
        """Emit that something is held, once; in mode `warn`, only warn of it."""
        if one in self._reported:
            return
        self._reported.add(one)
        named = one.name if one.kind == "tool" else None
        if self._modes.get(one.server) == "warn":
            warn(self._emit, one.server, f"differs from {NAME}: {one.reason}", named)
            return
        logger.warning("held: %s", one)
        self._emit(ToolHeld(server=one.server, kind=one.kind, tool=one.name, reason=one.reason))

    def _launch_held(self, config: BusConfig, alias: str) -> Held | None:
        server = config.servers[alias]
        if self._file is None or server.mistake is not None or alias not in self._file.servers:
            return None
        try:
            now = digest(launch_of(server, config.folder))
        except NotCanonical as error:
            change = f"its launch line {error}"
        else:
            if now == digest(self._file.servers[alias].launch):
                return None
            change = "its launch line changed" if server.url is None else "its URL or headers changed"
        one = Held(server=alias, kind="launch", name="", reason=held_reason(alias, change))
        self._report(one)
        return one


def _lockfile(config: BusConfig) -> Lockfile | None:
    wanted = {config.lock, *(server.lock for server in config.servers.values())}
    if config.file is None:
        if "block" in wanted:
            raise ConfigError("a lock needs a config file; its lockfile is next to it", key="lock")
        return None
    if config.lock == "off" and wanted == {"off", None}:
        return None
    path = lock_path(config.file)
    file = read_lock(path)
    if file is None and "block" in wanted:
        raise LockError(path, "does not exist, and the config says 'lock: block'; create it: toolbus lock")
    return file


def _mode(config: BusConfig, server: ServerConfig, file: Lockfile | None) -> LockMode:
    return server.lock or config.lock or ("off" if file is None else "block")


def _refused(server: ServerConfig, reason: str) -> ServerConfig:
    return server.model_copy(
        update={"mistake": ConfigError(f"held: {reason}", server=server.alias, key="launch")}
    )


def lock_beside(config: BusConfig) -> Path | None:
    """Where the lockfile of a config belongs; None if the config is not a file."""
    return None if config.file is None else lock_path(config.file)
