"""What a server offers now, as it would be locked."""

from dataclasses import dataclass
from pathlib import Path

from toolbus.config import ServerConfig
from toolbus.core.text.canonical import NotCanonical, canonical
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
from toolbus.lock.file import LockedServer
from toolbus.lock.launch import launch_of
from toolbus.lock.packages import resolved_package


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A server as it would be locked, and what cannot be."""

    locked: LockedServer
    quarantined: tuple[Quarantined, ...] = ()
    """Tools whose definition canonical JSON cannot express."""


def offered(inventory: Inventory) -> LockedServer:
    """What a server offers, without how it is launched."""
    return LockedServer(
        launch={}, instructions=encodable(inventory.instructions or ""), definitions=definitions(inventory)
    )


def snapshot(
    config: ServerConfig, folder: Path | None, inventory: Inventory, before: LockedServer | None
) -> Snapshot:
    """The server as it would be locked; reads the caches of launchers for the version that runs.

    What has not changed since it was locked `before` stays as it is there, to the letter. So does a version
    that cannot be found out now.
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
