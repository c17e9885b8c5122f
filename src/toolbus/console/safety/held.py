"""Held changes, with their differences from the lock and signs of deception; nothing about HTML."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import cast

from toolbus.bus.inner import tenant_of
from toolbus.bus.toolbus import Toolbus
from toolbus.console.safety.rejections import Rejections
from toolbus.core.text.canonical import NotCanonical, digest
from toolbus.core.values.errors import ServerNotFound, ToolbusError
from toolbus.core.values.records import JSON, Inventory
from toolbus.lock.approval import NotAsShown, Part, approve_shown, part_digest, snapshot
from toolbus.lock.changes import LockDifference, server_differences
from toolbus.lock.deception import suspicions
from toolbus.lock.drift import HeldKind, HeldTool, label_of
from toolbus.lock.file import LockedServer, Lockfile, lock_path
from toolbus.lock.launch import launch_of

LONGEST = 40_000
"""Characters of new text that one part may have to be reviewed on a page."""


class NotConfirmed(ToolbusError):
    """A change with signs of deception needs a second answer."""

    def __init__(self, label: str) -> None:
        self.label = label
        super().__init__(f"{label} shows signs of deception; nothing was approved: read them, and answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPart:
    """Something that is held, and what a person should know before approving it."""

    held: HeldTool
    difference: LockDifference | None = None
    digest: str | None = None
    """Of the definition; None if it cannot be approved."""
    warnings: tuple[str, ...] = ()
    """Signs of deception; with any, it is approved in two steps."""
    is_too_long: bool = False
    """Whether nobody would read all of it on a page; then it cannot be approved there."""

    @property
    def part(self) -> Part:
        return self.held.kind, self.held.name

    @property
    def seal(self) -> str:
        """The digest of all that a person sees of it: it differs if the definition or a sign does."""
        return digest(list[JSON]([self.digest, *self.warnings]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldServer:
    """All that is held of a server."""

    parts: tuple[HeldPart, ...]
    now: LockedServer
    """The server as it would be locked."""

    @property
    def plain(self) -> dict[Part, str]:
        """The parts without signs of deception, which one step approves, with their digests."""
        return {one.part: one.digest for one in self.parts if one.digest is not None and not one.warnings}

    @property
    def digest(self) -> str:
        """The digest of all that can be approved in one step."""
        return digest(list[JSON]([kind, name, one] for (kind, name), one in sorted(self.plain.items())))

    def get(self, part: Part) -> HeldPart | None:
        return next((one for one in self.parts if one.part == part), None)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison, and all that it depends on."""

    lock: Lockfile
    listed: Inventory
    held: list[HeldTool]
    server: HeldServer

    def is_of(self, lock: Lockfile, listed: Inventory, held: list[HeldTool]) -> bool:
        return self.lock is lock and self.listed is listed and self.held == held


class HeldParts:
    """The held changes of a bus; compared with the lock only after a change."""

    def __init__(self, bus: Toolbus) -> None:
        self._bus = bus
        self._known: dict[str, _Compared] = {}
        self._comparing = asyncio.Lock()
        self._rejections = Rejections(lambda: bus.config.file)

    async def load(self) -> dict[str, HeldServer]:
        """All changes on hold, by alias; comparisons run in a thread."""
        async with self._comparing:
            for alias, (lock, listed, held) in self._inputs().items():
                known = self._known.get(alias)
                if known is None or not known.is_of(lock, listed, held):
                    server = await asyncio.to_thread(self._compared, alias, lock, listed, held)
                    self._known[alias] = _Compared(lock, listed, held, server)
        return self.servers()

    def servers(self) -> dict[str, HeldServer]:
        """The same at once; `load` it before, so that nothing is compared on the loop."""
        before, self._known = self._known, {}
        for alias, (lock, listed, held) in self._inputs().items():
            known = before.get(alias)
            if known is None or not known.is_of(lock, listed, held):
                known = _Compared(lock, listed, held, self._compared(alias, lock, listed, held))
            self._known[alias] = known
        return {alias: known.server for alias, known in self._known.items()}

    async def approve(self, alias: str, part: Part, shown: str, *, confirmed: bool = False) -> None:
        """Approve one part if it is as it was shown; `NotAsShown` if it is not.

        `shown` is its seal. `NotConfirmed` if it shows signs of deception, unless that is `confirmed`.
        """
        server = await self._server(alias)
        one = server.get(part)
        if one is None or one.digest is None or one.seal != shown:
            raise NotAsShown(label_of(alias, *part))
        if one.warnings and not confirmed:
            raise NotConfirmed(one.held.key)
        await self._approve(alias, server, {part: one.digest})

    async def approve_plain(self, alias: str, shown: str) -> int:
        """Approve the held changes of a server without signs of deception; return their number.

        `NotAsShown` if they have changed since.
        """
        server = await self._server(alias)
        if server.digest != shown or not server.plain:
            raise NotAsShown(alias)
        await self._approve(alias, server, server.plain)
        return len(server.plain)

    # Rejections

    @property
    def open(self) -> list[HeldTool]:
        """The held changes that nobody has rejected."""
        rejected = self._rejections.all
        held = self._bus.held.values()
        return [one for one in held if not rejected or self._rejection(one) not in rejected]

    def open_servers(self) -> dict[str, HeldServer]:
        """The servers with their held changes that nobody has rejected; after `load`."""
        keys = {one.key for one in self.open}
        found = {
            alias: replace(server, parts=tuple(one for one in server.parts if one.held.key in keys))
            for alias, server in self.servers().items()
        }
        return {alias: server for alias, server in found.items() if server.parts}

    def reject(self, one: HeldPart) -> None:
        """Keep it on hold without asking again, until it changes."""
        self._rejections.add(self._rejection(one.held), one.held.key)

    def reopen(self, one: HeldPart) -> None:
        """Take back that it was rejected."""
        self._rejections.remove(self._rejection(one.held))

    async def find(self, alias: str, kind: str, name: str) -> HeldPart | None:
        """One held change; None if it is not held."""
        server = (await self.load()).get(alias)
        return None if server is None else server.get((cast(HeldKind, kind), name))

    def _rejection(self, held: HeldTool) -> str:
        config, state = self._bus.config, held.digest or held.reason
        if held.kind == "launch" and held.server in config.servers:
            with suppress(NotCanonical):  # the reason says so
                state = digest(launch_of(config.servers[held.server], config.folder))
        parts = json.dumps([held.server, held.kind, held.name, state])
        return sha256(parts.encode(errors="replace")).hexdigest()

    # Comparison

    def _inputs(self) -> dict[str, tuple[Lockfile, Inventory, list[HeldTool]]]:
        """The inputs of each comparison."""
        lock, held = self._bus.lock, self._bus.held
        if lock is None or not held:
            return {}
        now, own = tenant_of(self._bus).live.snapshot.unreviewed, dict[str, list[HeldTool]]()
        for one in held.values():
            own.setdefault(one.server, []).append(one)
        return {alias: (lock, now[alias], parts) for alias, parts in own.items()}

    async def _approve(self, alias: str, server: HeldServer, shown: Mapping[Part, str]) -> None:
        file = self._bus.config.file_of(alias)
        assert file is not None, "something is held"
        await asyncio.to_thread(approve_shown, lock_path(file), alias, server.now, shown)

    async def _server(self, alias: str) -> HeldServer:
        known = list(self._bus.config.servers)
        if alias not in known:
            raise ServerNotFound(alias, known)
        if (server := (await self.load()).get(alias)) is None:
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
        signs: dict[str, list[str]] = {}
        for sign in suspicions({**lock.servers, alias: now}):
            if sign.server == alias:
                signs.setdefault(sign.tool, []).append(sign.reason)
        return HeldServer(
            parts=tuple(
                _part(one, found.get((one.kind, one.name)), part_digest(now, (one.kind, one.name)), signs)
                for one in held
            ),
            now=now,
        )


def _part(
    held: HeldTool, difference: LockDifference | None, digest: str | None, signs: Mapping[str, Sequence[str]]
) -> HeldPart:
    changes = () if difference is None else difference.changes
    is_too_long = sum(len(text_of(change.after)) for change in changes) > LONGEST
    return HeldPart(
        held=held,
        difference=difference,
        digest=None if is_too_long else digest,
        # The signs without a name are those of the instructions.
        warnings=() if held.kind == "launch" else tuple(signs.get(held.name, ())),
        is_too_long=is_too_long,
    )


def text_of(value: JSON) -> str:
    """A value of a definition as a person reads it: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
