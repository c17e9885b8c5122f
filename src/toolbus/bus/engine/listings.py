"""What servers listed last, kept for the next process: `serve` offers it while they start, and a lazy server
until its first call.

One file for each config, in the user's state folder. An entry counts only for the same launch line, and as
long as the files that the server runs are the same. What a user of the bus lists is not kept.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolbus.config.launch.digest import launch_digest
from toolbus.state import files as state

if TYPE_CHECKING:
    from toolbus.config import BusConfig
    from toolbus.core.values.records import Inventory

MAX_DEFINITIONS = 16 << 20
"""Larger files are not parsed, because a user is waiting."""


def last_inventories(config: "BusConfig") -> dict[str, "Inventory"]:
    """What each server offered when it was last connected, with the same config."""
    from toolbus.core.values.records import Resource
    from toolbus.lock.definitions import inventory_of

    found: dict[str, Inventory] = {}
    for alias, entry in _load_definitions(config.file).items():
        server = config.servers.get(alias)
        if server is None or server.mistake is not None:
            continue
        # A damaged entry counts as missing.
        with suppress(AttributeError, KeyError, TypeError, ValueError, RecursionError):
            if entry["digest"] == launch_digest(config, alias):
                known = inventory_of(alias, entry["definitions"], str(entry["instructions"]), server.limits)
                resources = tuple(Resource(**one) for one in entry["resources"])
                found[alias] = replace(known, resources=resources)
    return found


def known_tools(config: str, alias: str) -> list[str]:
    """The server's own names of its tools when it was last listed, including excluded ones."""
    from toolbus.core.values.errors import ToolbusError
    from toolbus.lock.file import read_lock

    # A damaged file counts as missing.
    with suppress(OSError, ToolbusError, LookupError, TypeError):
        lock = read_lock(_lockfile(config))
        listed = _load_definitions(config)[alias]["definitions"] if lock is None else None
        return [*(lock.servers[alias].definitions if lock else cast(Any, listed))["tools"]]
    return []


def save_inventories(config: "BusConfig", inventories: "Mapping[str, Inventory]") -> None:
    """Keep what these servers offer; ignores errors of the disk, and does nothing beside a lockfile."""
    if config.file is None or not inventories or _lockfile(config.file).is_file():
        return
    known = _load_definitions(config.file)
    fresh = {alias: _definitions(launch_digest(config, alias), one) for alias, one in inventories.items()}
    with suppress(OSError, ValueError, TypeError):
        content = json.dumps(known | fresh).encode()
        if content != json.dumps(known).encode() and len(content) <= MAX_DEFINITIONS:
            state.write(state.name_for(config.file, "definitions"), content)


def _definitions(digest: str, stock: "Inventory") -> dict[str, Any]:
    from toolbus.lock.definitions import definitions

    return {
        "digest": digest,
        "definitions": definitions(stock),
        "resources": [asdict(one) for one in stock.resources],
        "instructions": stock.instructions or "",
    }


def _load_definitions(config: str | None) -> dict[str, Any]:
    if config is None or _lockfile(config).is_file():
        return {}
    try:
        content = state.read(state.name_for(config, "definitions")) or b"{}"
        found: Any = json.loads(content) if len(content) <= MAX_DEFINITIONS else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _lockfile(config: str) -> Path:
    from toolbus.lock.file import lock_path

    return lock_path(config)
