"""What servers listed last, kept for the next process: `serve` offers it while they start, and a lazy server
until its first call.

One file for each config, in the user's state folder. An entry counts only for the same launch line, as long as the
files that the server runs are the same. What a user of the bus lists is not kept.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolbus.state import files as state

if TYPE_CHECKING:
    from toolbus.config import BusConfig
    from toolbus.core.values.records import Inventory

MAX_DEFINITIONS = 16 << 20
"""Larger files are not parsed, because a user is waiting."""
_NOT_OF_LISTS = ("server", "lazy", "required", "idle_timeout", "timeouts", "max_concurrency")
"""Keys of a server on which its lists do not depend; `server` is an object."""


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


def save_inventories(config: "BusConfig", inventories: "Mapping[str, Inventory]") -> None:
    """Keep what these servers offer; ignores errors of the disk, and does nothing beside a lockfile."""
    if config.file is None or not inventories or _lockfile(config.file).is_file():
        return
    known = _load_definitions(config.file)
    fresh = {alias: _definitions(launch_digest(config, alias), one) for alias, one in inventories.items()}
    with suppress(OSError, ValueError, TypeError):
        content = json.dumps(known | fresh).encode()
        if content != json.dumps(known).encode() and len(content) <= MAX_DEFINITIONS:
            state.write(listing_file(config.file, "definitions"), content)


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
        content = state.read(listing_file(config, "definitions")) or b"{}"
        found: Any = json.loads(content) if len(content) <= MAX_DEFINITIONS else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def launch_digest(config: "BusConfig", alias: str) -> str:
    """Digest of the server's entry and the files it runs, which decide what it offers."""
    from hashlib import sha256

    server = config.servers[alias]
    words = (server.command, *server.args)
    parts = {
        "server": server.model_dump(mode="json", exclude={*_NOT_OF_LISTS}),
        # Relative to the server's working directory, by default ours.
        "files": list(
            _modified_times(Path(config.folder or "", server.cwd) if server.cwd else Path(), words)
        ),
    }
    return sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _modified_times(folder: Path, words: tuple[str | None, ...]) -> Iterator[int]:
    """When the files among the words were modified: new code may list new tools."""
    for word in words:
        try:
            if word and (file := folder / word).is_file():
                yield file.stat().st_mtime_ns
        except (OSError, ValueError):  # not a file name, or just deleted
            continue


def _lockfile(config: str) -> Path:
    from toolbus.lock.file import lock_path

    return lock_path(config)


def listing_file(config: str | None, folder: str) -> str:
    """The file for a config below the state folder."""
    from hashlib import sha256

    return f"{folder}/{sha256(os.path.abspath(config or '').encode()).hexdigest()[:16]}.json"
