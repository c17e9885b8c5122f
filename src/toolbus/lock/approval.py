"""Approve parts of a server: write them to the lockfile as they are now, and leave the rest as it was.

A snapshot is what a server offers now, as it would be locked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from toolbus.config import ServerConfig
from toolbus.core.text.canonical import NotCanonical, canonical
from toolbus.core.values.errors import LockError, ToolbusError
from toolbus.core.values.records import JSON, Inventory, JSONObject, Quarantined
from toolbus.lock.definitions import (
    Kind,
    definition_digest,
    definitions,
    encodable,
    locked_meta,
    text_digest,
    unlockable,
)
from toolbus.lock.drift import KIND_OF, HeldKind, label_of
from toolbus.lock.file import LockedServer, read_lock, write_lock
from toolbus.lock.launch import launch_of, resolved_package


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A server as it would be locked, and the tools that cannot be locked."""

    locked: LockedServer
    quarantined: tuple[Quarantined, ...] = ()
    """Tools whose definition canonical JSON cannot express."""


def offered(inventory: Inventory) -> LockedServer:
    """The definitions of a server, without its launch line."""
    return LockedServer(
        launch={}, instructions=encodable(inventory.instructions or ""), definitions=definitions(inventory)
    )


def snapshot(
    config: ServerConfig, folder: Path | None, inventory: Inventory, before: LockedServer | None
) -> Snapshot:
    """The server as it would be locked; reads the caches of launchers for the version that runs.

    Definitions that have not changed since they were locked `before` stay literally the same. So
    does a version that cannot be found out now.
    """
    old = before or LockedServer(launch={})
    quarantined: list[Quarantined] = []
    kept: dict[Kind, dict[str, JSONObject]] = {}
    for kind, found in definitions(inventory).items():
        kept[kind] = {}
        for name, definition in found.items():
            if (fault := unlockable(definition)) is not None:
                quarantined.append(Quarantined(tool=name, reason=fault))
                continue
            try:
                is_same = definition_digest(definition) == old.digests[kind].get(name)
                kept[kind][name] = old.definitions[kind][name] if is_same else _lockable(definition)
            except NotCanonical as error:
                quarantined.append(Quarantined(tool=name, reason=f"its definition {error}"))
    package = resolved_package(config)
    if "version" not in package and old.package.get("name") == package.get("name"):
        package = old.package
    instructions = encodable(inventory.instructions or "")
    is_same = text_digest(instructions) == old.digests["instructions"]
    locked = LockedServer(
        launch=launch_of(config, folder),
        package=package,
        instructions=old.instructions if is_same else instructions,
        definitions=kept,
    )
    return Snapshot(locked=locked, quarantined=tuple(quarantined))


def _lockable(definition: dict[str, JSON]) -> dict[str, JSON]:
    """The definition without metadata that cannot be written; `NotCanonical` if anything else cannot be."""
    try:
        canonical(definition)
    except NotCanonical:
        meta = locked_meta(definition.get("_meta"))
        shown = {key: value for key, value in definition.items() if key != "_meta"}
        return {**shown, "_meta": meta} if meta else shown
    return definition


Part: TypeAlias = tuple[HeldKind, str]
"""A part of a server: its kind, and its own name; without a name for instructions and launch."""


class NotAsShown(ToolbusError):
    """A definition to approve differs from the one that a person has seen."""

    def __init__(self, label: str) -> None:
        self.label = label
        super().__init__(f"{label} has changed since it was shown; nothing was approved: look at it again")


def with_parts(old: LockedServer | None, now: LockedServer, parts: Iterable[Part]) -> LockedServer:
    """The approved definitions of a server, with these parts as they are now and without removed ones."""
    approved = old or LockedServer(launch=now.launch, package=now.package)
    definitions: dict[Kind, dict[str, JSONObject]] = {
        kind: dict(named) for kind, named in approved.definitions.items()
    }
    for kind, name in parts:
        if kind == "launch":
            approved = replace(approved, launch=now.launch, package=now.package)
        elif kind == "instructions":
            approved = replace(approved, instructions=now.instructions)
        elif name in now.definitions[KIND_OF[kind]]:
            definitions[KIND_OF[kind]][name] = now.definitions[KIND_OF[kind]][name]
        else:
            definitions[KIND_OF[kind]].pop(name, None)
    return replace(approved, definitions=definitions)


def part_digest(server: LockedServer, part: Part) -> str | None:
    """The digest of a part; None if the server has no such part. `NotCanonical` if one has none."""
    kind, name = part
    found = server.digests[kind] if kind in ("launch", "instructions") else None
    return str(found) if found is not None else server.digests[KIND_OF[kind]].get(name)


def approve_shown(path: Path, alias: str, now: LockedServer, shown: Mapping[Part, str]) -> None:
    """Approve the parts with these digests; `NotAsShown` if one of them is another now.

    Everything else in the file stays, also what others have approved since it was read.
    """
    for part, digest in shown.items():
        if part_digest(now, part) != digest:
            raise NotAsShown(label_of(alias, *part))
    file = read_lock(path)
    if file is None:
        raise LockError(path, "does not exist; create it: toolbus lock")
    old = file.servers.get(alias)
    write_lock(replace(file, servers={**file.servers, alias: with_parts(old, now, shown)}))
