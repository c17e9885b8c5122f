"""What a server offers now, as it would be locked."""

from dataclasses import dataclass
from pathlib import Path

from toolbus.config import ServerConfig
from toolbus.core.records import JSON, Inventory, Quarantined
from toolbus.lock.canonical import NotCanonical
from toolbus.lock.definitions import Kind, definition_digest, definitions, encodable
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

    If that version cannot be found out, it is the one that was locked `before`.
    """
    quarantined: list[Quarantined] = []
    kept: dict[Kind, dict[str, dict[str, JSON]]] = {}
    for kind, found in definitions(inventory).items():
        kept[kind] = {}
        for name, definition in found.items():
            try:
                definition_digest(definition)
            except NotCanonical as error:
                quarantined.append(Quarantined(tool=name, reason=f"its definition {error}"))
            else:
                kept[kind][name] = definition
    package = resolved_package(config)
    if before is not None and "version" not in package and before.package.get("name") == package.get("name"):
        package = before.package
    locked = LockedServer(
        launch=launch_of(config, folder),
        package=package,
        instructions=encodable(inventory.instructions or ""),
        definitions=kept,
    )
    return Snapshot(locked=locked, quarantined=tuple(quarantined))
