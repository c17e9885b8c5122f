"""What servers offered when they were last listed, kept in a file per config.

The shell completes from it, and `toolbus call` finds there which server has a tool, or which name was meant.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from toolbus.state import files as state

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import BusConfig
    from toolbus.core.records import Inventory

Kind: TypeAlias = Literal["tools", "uris", "prompts"]
Offers: TypeAlias = dict[str, list[str]]
"""By name, the names of the arguments; a URI that has any is a template."""
KINDS: tuple[Kind, ...] = ("tools", "uris", "prompts")
LARGEST = 1 << 20
"""Bytes of a file that are parsed while a user waits."""
FRESH = 3600.0
"""Seconds for which a listing counts as current: a server may be updated without its config entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What one server offered."""

    digest: str
    """Of all that decides the names of its tools."""
    at: float
    offers: dict[Kind, Offers]
    origins: dict[str, str]
    """By the public name of a tool, the server's own."""

    def is_current(self, digest: str) -> bool:
        """Whether it was listed a short while ago, by the same config."""
        return self.digest == digest and 0 <= time.time() - self.at < FRESH


def remember(config: "BusConfig", bus: "Toolbus") -> None:
    """Keep what the servers offer that are up; a disk that refuses is no failure."""
    fresh = {alias: _listing(config, bus, alias) for alias, s in bus.servers.items() if s.state == "ready"}
    if config.file is None or not fresh:
        return
    known = {alias: _json(listing) for alias, listing in _listed(config.file).items()}
    with suppress(OSError):
        state.write(_file(config.file), json.dumps(known | fresh).encode())


def offers(config: str | None, kind: Kind) -> dict[str, Offers]:
    """What was listed of that kind, by server."""
    return {alias: listing.offers[kind] for alias, listing in _listed(config).items()}


def current(config: "BusConfig") -> dict[str, Listing]:
    """The listings that still count, by server."""
    listed = _listed(config.file)
    return {
        alias: listed[alias]
        for alias in config.servers
        if alias in listed and listed[alias].is_current(_digest(config, alias))
    }


def variables(template: str) -> tuple[str, ...]:
    """The names that a template has; none if it is no template."""
    from toolbus.core import uri_templates as templates
    from toolbus.core.errors import ArgumentsError

    try:
        return templates.variables(template)
    except ArgumentsError:
        return ()


def _listing(config: "BusConfig", bus: "Toolbus", alias: str) -> dict[str, Any]:
    from toolbus.shape import declared

    own = [spec for spec in bus.catalog if spec.origin.server == alias]
    return {
        "digest": _digest(config, alias),
        "at": time.time(),
        "tools": {spec.name: list(declared(spec.input_schema)[0]) for spec in own},
        "origins": {spec.name: spec.origin.tool for spec in own},
        **_content(bus.inventories[alias]),
    }


def _json(listing: Listing) -> dict[str, Any]:
    return {"digest": listing.digest, "at": listing.at, **listing.offers, "origins": listing.origins}


def _content(stock: "Inventory") -> dict[str, Offers]:
    return {
        "uris": {item.uri: list[str]() for item in stock.resources}
        | {item.uri_template: list(variables(item.uri_template)) for item in stock.templates},
        "prompts": {item.name: [argument.name for argument in item.arguments] for item in stock.prompts},
    }


def _digest(config: "BusConfig", alias: str) -> str:
    """Of the server's entry, the files it runs, and the settings and aliases that have a say in its names."""
    from hashlib import sha256

    server = config.servers[alias]
    words = (server.command, *server.args)
    decisive = {
        "server": server.model_dump(mode="json", exclude={"server"}),
        # Where the process will run: without `cwd` it is where we run.
        "files": list(_stamps(Path(config.folder or "", server.cwd) if server.cwd else Path(), words)),
        "settings": config.model_dump(mode="json", exclude={"servers", "file"}),
        "prefixes": {alias: other.prefix for alias, other in config.servers.items()},
    }
    return sha256(json.dumps(decisive, default=str).encode()).hexdigest()


def _stamps(folder: Path, words: tuple[str | None, ...]) -> Iterator[int]:
    """When the files among the words were written: a server that is being written gets new tools."""
    for word in words:
        try:
            if word and (file := folder / word).is_file():
                yield file.stat().st_mtime_ns
        except (OSError, ValueError):  # no name of a file, or gone at this very moment
            continue


def _listed(config: str | None) -> dict[str, Listing]:
    try:
        content = state.read(_file(config)) or b"{}"
        if len(content) > LARGEST:
            return {}
        found: Any = json.loads(content)
        return {alias: _parsed(listed) for alias, listed in found.items()}
    # Damaged: as if there were none.
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}


def _parsed(listed: Any) -> Listing:
    return Listing(
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
    from hashlib import sha256

    return f"listings/{sha256(os.path.abspath(config or '').encode()).hexdigest()[:16]}.json"
