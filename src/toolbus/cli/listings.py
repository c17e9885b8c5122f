"""What servers offered when they were last listed, left in a file for the shell: Tab lists nothing anew."""

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from toolbus.bus import Toolbus
    from toolbus.records import Inventory

Kind: TypeAlias = Literal["tools", "uris", "prompts"]
Offers: TypeAlias = dict[str, list[str]]
"""By name, the names of the arguments; a URI that has any is a template."""
KINDS: tuple[Kind, ...] = ("tools", "uris", "prompts")
LARGEST = 1 << 20
"""Bytes of a file that are read while a user waits."""


def remember(config: str | None, bus: "Toolbus", servers: Collection[str]) -> None:
    """Leave what these servers offer, as far as they are up; a disk that refuses is no failure."""
    from toolbus.shape import declared

    up = [alias for alias in servers if bus.servers[alias].state == "ready"]
    tools = {
        alias: {
            spec.name: list(declared(spec.input_schema)[0])
            for spec in bus.catalog
            if spec.origin.server == alias
        }
        for alias in up
    }
    fresh = {alias: {"tools": tools[alias], **_content(bus.inventories[alias])} for alias in up}
    path = _file(config)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step: two commands may end at the same moment.
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(_listed(config) | fresh), encoding="utf-8")
        draft.replace(path)
    except OSError:
        pass


def offers(config: str | None, kind: Kind) -> dict[str, Offers]:
    """What was listed of that kind, by server."""
    return {alias: listed[kind] for alias, listed in _listed(config).items()}


def variables(template: str) -> tuple[str, ...]:
    """The names that a template has; none if it is no template."""
    from toolbus import templates
    from toolbus.errors import ArgumentsError

    try:
        return templates.variables(template)
    except ArgumentsError:
        return ()


def _content(stock: "Inventory") -> dict[str, Offers]:
    return {
        "uris": {item.uri: list[str]() for item in stock.resources}
        | {item.uri_template: list(variables(item.uri_template)) for item in stock.templates},
        "prompts": {item.name: [argument.name for argument in item.arguments] for item in stock.prompts},
    }


def _listed(config: str | None) -> dict[str, dict[Kind, Offers]]:
    path = _file(config)
    try:
        if path.stat().st_size > LARGEST:
            return {}
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        return {
            alias: {kind: {name: _names(own) for name, own in listed[kind].items()} for kind in KINDS}
            for alias, listed in found.items()
        }
    # Damaged: as if there were none.
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}


def _names(own: Any) -> list[str]:
    if not isinstance(own, list):
        raise TypeError(own)
    return [name for name in cast(list[Any], own) if isinstance(name, str)]


def _file(config: str | None) -> Path:
    from hashlib import sha256

    key = sha256(os.path.abspath(config or "").encode()).hexdigest()[:16]
    return _cache() / "listings" / f"{key}.json"


def _cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "toolbus"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolbus"
