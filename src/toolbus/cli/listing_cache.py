"""The last listings of servers: from the lockfile, or else from a cache with two files per config.

One has the names: shell completion reads them, and `toolbus call` uses them to find a tool's server or the
correct spelling. The other has the definitions (`bus/engine/listings.py`).
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
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
FRESH_SECONDS = 3600.0
"""The time for which a listing is fresh: a server may be updated without a change of its entry."""


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
    """Save the listings of connected servers; ignores errors of the disk."""
    fresh = {alias: _listing(config, bus, alias) for alias, s in bus.servers.items() if s.state == "ready"}
    if config.file is None or not fresh or _lockfile(config.file).is_file():
        return
    known = {alias: _json(listing) for alias, listing in _load(config.file).items()}
    from toolbus.bus.engine.listings import save_inventories

    inventories = bus.inventories
    with suppress(OSError):
        state.write(_file(config.file), json.dumps(known | fresh).encode())
    save_inventories(config, {alias: inventories[alias] for alias in fresh})


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

    from toolbus.config.launch.digest import launch_digest

    parts = {
        "rules": 2,  # of naming
        "launch": launch_digest(config, alias),
        "settings": config.model_dump(mode="json", exclude={"servers", "file"}),
        "layers": [config.profile, *(one.model_dump(mode="json", include=_PATTERNS) for one in config.rules)],
        "prefixes": {alias: other.prefix for alias, other in config.servers.items()},
    }
    return sha256(json.dumps(parts, default=str).encode()).hexdigest()


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


def _file(config: str | None) -> str:
    return state.name_for(config, "listings")
