"""What servers listed last: the lockfile has it, else a cache with two files per config.

One has the names: shell completion reads them, and `toolbus call` uses them to find a tool's server or the
correct spelling. The other has the definitions, which `toolbus serve` offers while its servers start.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from toolbus.state import files as state

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import BusConfig
    from toolbus.core.values.records import Inventory

Kind: TypeAlias = Literal["tools", "uris", "prompts"]
Offers: TypeAlias = dict[str, list[str]]
"""Argument names by name of the tool, prompt or URI; a URI with arguments is a template."""
KINDS: tuple[Kind, ...] = ("tools", "uris", "prompts")
MAX_BYTES = 1 << 20
"""Larger files are not parsed, because a user is waiting."""
MAX_DEFINITIONS = 16 << 20
"""The same for the definitions."""
FRESH_SECONDS = 3600.0
"""How long a listing counts as fresh: a server may be updated without a change of its entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedListing:
    """The names that one server listed."""

    digest: str
    """Digest of everything that affects the names of its tools."""
    at: float
    offers: dict[Kind, Offers]
    origins: dict[str, str]
    """The server's own tool name by public name."""

    def is_fresh(self, digest: str) -> bool:
        """Whether it was listed recently, with the same config."""
        return self.digest == digest and 0 <= time.time() - self.at < FRESH_SECONDS


def save_listings(config: "BusConfig", bus: "Toolbus") -> None:
    """Save what connected servers list; ignores errors of the disk."""
    fresh = {alias: _listing(config, bus, alias) for alias, s in bus.servers.items() if s.state == "ready"}
    if config.file is None or not fresh or _lockfile(config.file).is_file():
        return
    known = {alias: _json(listing) for alias, listing in _load(config.file).items()}
    inventories = bus.inventories
    definitions = {alias: _definitions(fresh[alias]["digest"], inventories[alias]) for alias in fresh}
    with suppress(OSError):
        state.write(_file(config.file), json.dumps(known | fresh).encode())
        content = json.dumps(_load_definitions(config.file) | definitions).encode()
        if len(content) <= MAX_DEFINITIONS:
            state.write(_file(config.file, "definitions"), content)


def offers(config: str | None, kind: Kind) -> dict[str, Offers]:
    """The cached names of one kind, by server."""
    return {alias: listing.offers[kind] for alias, listing in _load(config).items()}


def origins(config: str | None) -> dict[str, list[str]]:
    """The servers' own names of their tools, by server."""
    return {alias: list(listing.origins.values()) for alias, listing in _load(config).items()}


def fresh_listings(config: "BusConfig") -> dict[str, CachedListing]:
    """The listings that are still fresh, by server."""
    listed = _load(config.file)
    return {
        alias: listed[alias]
        for alias in config.servers
        if alias in listed and listed[alias].is_fresh(_digest(config, alias))
    }


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
            if entry["digest"] == _digest(config, alias):
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


def template_variables(template: str) -> tuple[str, ...]:
    """The variable names in a URI template; empty if it is not a template."""
    from toolbus.core.values import uri_templates as templates
    from toolbus.core.values.errors import ArgumentsError

    try:
        return templates.variables(template)
    except ArgumentsError:
        return ()


def _listing(config: "BusConfig", bus: "Toolbus", alias: str) -> dict[str, Any]:
    from toolbus.schema.node import declared

    own = [spec for spec in bus.catalog if spec.origin.server == alias]
    return {
        "digest": _digest(config, alias),
        "at": time.time(),
        "tools": {spec.name: list(declared(spec.input_schema)[0]) for spec in own},
        "origins": {spec.name: spec.origin.tool for spec in own},
        **_content(bus.inventories[alias]),
    }


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
        content = state.read(_file(config, "definitions")) or b"{}"
        found: Any = json.loads(content) if len(content) <= MAX_DEFINITIONS else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _json(listing: CachedListing) -> dict[str, Any]:
    return {"digest": listing.digest, "at": listing.at, **listing.offers, "origins": listing.origins}


def _content(stock: "Inventory") -> dict[str, Offers]:
    return {
        "uris": {item.uri: list[str]() for item in stock.resources}
        | {item.uri_template: list(template_variables(item.uri_template)) for item in stock.templates},
        "prompts": {item.name: [argument.name for argument in item.arguments] for item in stock.prompts},
    }


_PATTERNS = {"include", "exclude", "policy"}


def _digest(config: "BusConfig", alias: str) -> str:
    """Digest of the server's entry, the files it runs, and the settings and aliases that affect names."""
    from hashlib import sha256

    server = config.servers[alias]
    words = (server.command, *server.args)
    # Relative to the server's working directory, by default ours.
    folder = Path(server.folder or config.folder or "", server.cwd) if server.cwd else Path()
    parts = {
        "rules": 2,  # of naming
        "server": server.model_dump(mode="json", exclude={"server"}),
        "files": list(_modified_times(folder, words)),
        "settings": config.model_dump(mode="json", exclude={"servers", "file"}),
        "layers": [config.profile, *(one.model_dump(mode="json", include=_PATTERNS) for one in config.rules)],
        "prefixes": {alias: other.prefix for alias, other in config.servers.items()},
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


def _load(config: str | None) -> dict[str, CachedListing]:
    if config is not None and _lockfile(config).is_file():
        return _load_lock(config)
    try:
        content = state.read(_file(config)) or b"{}"
        if len(content) > MAX_BYTES:
            return {}
        found: Any = json.loads(content)
        return {alias: _parse(listed) for alias, listed in found.items()}
    # A damaged file counts as empty.
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}


def _load_lock(file: str) -> dict[str, CachedListing]:
    """The names in the lockfile of a config; starts no server and expands nothing."""
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import usable_config
    from toolbus.core.values.errors import ConfigError

    try:
        config = usable_config(file)
        bus = Toolbus(config)
    except ConfigError:  # the command itself explains it
        return {}
    known = (alias for alias in config.servers if bus.inventories[alias].tools)
    return {alias: _parse(_listing(config, bus, alias)) for alias in known}


def _lockfile(config: str) -> Path:
    from toolbus.lock.file import lock_path

    return lock_path(config)


def _parse(listed: Any) -> CachedListing:
    return CachedListing(
        digest=str(listed["digest"]),
        at=float(listed["at"]),
        offers={kind: {name: _names(own) for name, own in listed[kind].items()} for kind in KINDS},
        origins={name: str(tool) for name, tool in listed["origins"].items()},
    )


def _names(own: Any) -> list[str]:
    if not isinstance(own, list):
        raise TypeError(own)
    return [name for name in cast(list[Any], own) if isinstance(name, str)]


def _file(config: str | None, folder: str = "listings") -> str:
    from hashlib import sha256

    return f"{folder}/{sha256(os.path.abspath(config or '').encode()).hexdigest()[:16]}.json"
