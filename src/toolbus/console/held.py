"""What is held, with how it differs from the lock and the digest to approve; nothing about HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolbus.bus.inner import tenant_of
from toolbus.bus.toolbus import Toolbus
from toolbus.core.text.canonical import NotCanonical, digest
from toolbus.core.values.errors import ServerNotFound
from toolbus.core.values.records import JSON, Inventory
from toolbus.lock.approval import NotAsShown, Part, approve_shown, part_digest, snapshot
from toolbus.lock.changes import LockDifference, server_differences
from toolbus.lock.deception import suspicions
from toolbus.lock.drift import HeldTool
from toolbus.lock.file import LockedServer, Lockfile, lock_path


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPart:
    """Something that is held, and what a person should know before approving it."""

    held: HeldTool
    difference: LockDifference | None = None
    digest: str | None = None
    """Of what is shown; None if it cannot be approved."""
    warnings: tuple[str, ...] = ()

    @property
    def part(self) -> Part:
        return self.held.kind, self.held.name


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldServer:
    """All that is held of a server."""

    parts: tuple[HeldPart, ...]
    now: LockedServer
    """The server as it would be locked."""

    @property
    def shown(self) -> dict[Part, str]:
        """What can be approved, with the digests."""
        return {one.part: one.digest for one in self.parts if one.digest is not None}

    @property
    def digest(self) -> str:
        """The digest of all that can be approved."""
        return digest(list[JSON]([kind, name, one] for (kind, name), one in sorted(self.shown.items())))


class HeldParts:
    """What is held on a bus; compared with the lock only when one of them is another."""

    def __init__(self, bus: Toolbus) -> None:
        self._bus = bus
        self._known: dict[str, tuple[Lockfile, Inventory, list[HeldTool], HeldServer]] = {}

    def servers(self) -> dict[str, HeldServer]:
        """By alias."""
        lock, held = self._bus.lock, self._bus.held
        if lock is None or not held:
            self._known = {}
            return {}
        now, known = tenant_of(self._bus).live.snapshot.unreviewed, self._known
        self._known = {}
        for alias in dict.fromkeys(one.server for one in held.values()):
            own = [one for one in held.values() if one.server == alias]
            file, listed, before, compared = known.get(alias, (None, None, None, None))
            if compared is None or file is not lock or listed is not now[alias] or before != own:
                compared = self._compared(alias, lock, now[alias], own)
            self._known[alias] = lock, now[alias], own, compared
        return {alias: compared for alias, (_, _, _, compared) in self._known.items()}

    def approve(self, alias: str, part: Part, shown: str) -> None:
        """Approve one part if it is as it was shown; `NotAsShown` if it is not."""
        self._approve(alias, self._server(alias), {part: shown})

    def approve_all(self, alias: str, shown: str) -> None:
        """Approve all that is held of a server if it is as it was shown; `NotAsShown` if it is not."""
        server = self._server(alias)
        if server.digest != shown:
            raise NotAsShown(alias)
        self._approve(alias, server, server.shown)

    def _approve(self, alias: str, server: HeldServer, shown: Mapping[Part, str]) -> None:
        file = self._bus.config.file_of(alias)
        assert file is not None, "something is held"
        if any(part not in server.shown for part in shown):
            raise NotAsShown(alias)
        approve_shown(lock_path(file), alias, server.now, shown)

    def _server(self, alias: str) -> HeldServer:
        known = list(self._bus.config.servers)
        if alias not in known:
            raise ServerNotFound(alias, known)
        if (server := self.servers().get(alias)) is None:
            raise NotAsShown(alias)
        return server

    def _compared(
        self, alias: str, lock: Lockfile, listed: Inventory, held: Sequence[HeldTool]
    ) -> HeldServer:
        config, old = self._bus.config, lock.servers.get(alias)
        now = snapshot(config.servers[alias], config.folder, listed, old).locked
        try:
            found = {(one.kind, one.name): one for one in server_differences(alias, old, now)}
        except NotCanonical:  # its launch: the reason says so
            return HeldServer(parts=tuple(HeldPart(held=one) for one in held), now=now)
        suspect = [one for one in suspicions({**lock.servers, alias: now}) if one.server == alias]
        parts = [
            HeldPart(
                held=one,
                difference=found.get((one.kind, one.name)),
                digest=part_digest(now, (one.kind, one.name)),
                warnings=tuple(sign.reason for sign in suspect if sign.tool == one.name),
            )
            for one in held
        ]
        return HeldServer(parts=tuple(parts), now=now)
