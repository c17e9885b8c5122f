"""An extension's manifest: its own fields, and the servers under its `config`.

    id: mcp
    entrypoint: main:McpBridgeExtension     # optional
    config:
      servers: [{alias: files, transport: stdio, command: ...}]
      context: [{server: files, uri: "file:///today.md"}]
    enabled: true

Errors are ConfigErrors that name file, server and key, and suggest a known name for an unknown one. Keys that
start with `x-` are ignored.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, Strict

from toolbus.config import BusConfig
from toolbus.config.base import ConfigModel
from toolbus.config.hosts.dialects import SETTINGS
from toolbus.config.hosts.read import read_document
from toolbus.config.load import config_in, require_valid
from toolbus.config.location import Location, Mistakes
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

NAMING = "mcp_{server}_{tool}"
"""The default for `naming` in the manifest."""
FILE_NAMES = ("manifest.yaml", "manifest.yml", "manifest.json")
_CONFIG_KEYS = ("servers", *SETTINGS)


class Manifest(ConfigModel):
    """A manifest; its `config` is kept as written, and checked by `bridge_config`."""

    id: str = "mcp"
    name: str = ""
    version: str = ""
    description: str = ""
    entrypoint: str | None = None
    """`module:Class`; None for the built-in extension."""
    depends_on: Annotated[tuple[str, ...], Strict(False)] = ()
    uses_tools: Annotated[tuple[str, ...], Strict(False)] = ()
    setup_instructions: str = ""
    enabled: bool = True
    config: Mapping[str, JSON] = Field(default={}, repr=False)
    path: Path | None = None
    """The file it was read from."""


ManifestSource: TypeAlias = str | Path | Mapping[str, JSON] | Manifest
"""The file of a manifest, its folder, or its content."""


def load_manifest(source: ManifestSource) -> Manifest:
    """Read a manifest and check its own keys; raises ConfigError."""
    if isinstance(source, Manifest):
        return source
    path = None
    if isinstance(source, str | Path):
        path = _file(Path(os.path.expanduser(source)))
        source = read_document(path)
    return _manifest(source, path)


def bridge_config(manifest: Manifest) -> BusConfig:
    """The bus config of the manifest; raises ConfigError."""
    place = Location(file=None if manifest.path is None else str(manifest.path))
    config = manifest.config
    unknown = (key for key in config if key not in _CONFIG_KEYS and not str(key).startswith("x-"))
    Mistakes(place.unknown_key(key, _CONFIG_KEYS, "config") for key in unknown).raise_any()
    if config.get("servers") is None:
        raise place.error("is missing; list your servers there: {alias, transport, ...}", "config.servers")
    bus = require_valid(config_in({"config": config}, manifest.path))
    return bus if config.get("naming") is not None else bus.model_copy(update={"naming": NAMING})


def _file(path: Path) -> Path:
    if not path.exists():
        raise ConfigError("no such file or folder", file=str(path))
    if not path.is_dir():
        return path
    found = next((path / name for name in FILE_NAMES if (path / name).is_file()), None)
    if found is None:
        raise ConfigError(f"no manifest in this folder: looked for {', '.join(FILE_NAMES)}", file=str(path))
    return found


def _manifest(document: Mapping[JSON, JSON], path: Path | None) -> Manifest:
    place = Location(file=None if path is None else str(path))
    known = [name for name in Manifest.model_fields if name != "path"]
    # A common mistake is a key that belongs one level lower.
    suggestions = [*known, *(f"config.{key}" for key in _CONFIG_KEYS)]
    fields: dict[str, JSON] = {}
    for key, value in document.items():
        if str(key).startswith("x-") or value is None:
            continue
        if key not in known:
            raise place.unknown_key(key, suggestions)
        fields[str(key)] = place.mapping(value, "config") if key == "config" else value
    try:
        return Manifest(**fields, path=path)
    except ConfigError as error:
        raise place.error(error.problem, error.key) from None
