"""What the shell completes: servers of the config, tools and arguments of the last listing.

Nothing is started for it: a listing leaves the names in a file, and the next Tab reads that.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from toolbus.records import ToolSpec

Choices = list[tuple[str, str]]
Known = dict[str, dict[str, Any]]
KEYS = {"server", "description", "arguments"}


def remember(config: str | None, tools: Iterable[ToolSpec], servers: Iterable[str]) -> None:
    """Leave the tools of these servers for the shell; a disk that refuses is no failure."""
    listed = set(servers)
    others = {name: tool for name, tool in _known(config).items() if tool["server"] not in listed}
    fresh = {
        tool.name: {
            "server": tool.origin.server,
            "description": tool.description.strip().partition("\n")[0][:100],
            "arguments": list(tool.input_schema.get("properties") or {}),
        }
        for tool in tools
        if tool.origin.server in listed
    }
    path = _file(config)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step: two commands may end at the same moment.
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(others | fresh), encoding="utf-8")
        draft.replace(path)
    except OSError:
        pass


def tool_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Public names that begin so."""
    known = _known(_config_of(ctx))
    return [(name, tool["description"]) for name, tool in known.items() if name.startswith(incomplete)]


def argument_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Arguments of the tool on the line, as far as they are not given yet."""
    tool: dict[str, Any] = _known(_config_of(ctx)).get(ctx.params.get("name") or "", {})
    given = {value.partition("=")[0] for value in ctx.params.get("words") or ()}
    return [
        (f"{name}=", "")
        for name in tool.get("arguments", ())
        if name.startswith(incomplete) and name not in given
    ]


def server_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Servers of the config that begin so."""
    from toolbus.config import find_config, load_config
    from toolbus.errors import ConfigError

    try:
        config = load_config(_config_of(ctx) or find_config())
    except ConfigError:
        return []
    return [
        (alias, server.transport) for alias, server in config.servers.items() if alias.startswith(incomplete)
    ]


def editor_names(incomplete: str) -> Choices:
    """Whose config can be taken over."""
    from toolbus.config.editors import EDITORS

    return [(name, "") for name in EDITORS if name.startswith(incomplete)]


def _config_of(ctx: typer.Context) -> str | None:
    """The config of the line that is being completed."""
    own: Path | None = ctx.params.get("config")
    outer: Path | None = ctx.parent.params.get("config") if ctx.parent else None
    if named := own or outer:
        return str(named)
    from toolbus.config import find_config
    from toolbus.errors import ConfigError

    try:
        return str(find_config())
    except ConfigError:
        return None


def _known(config: str | None) -> Known:
    try:
        tools: Known = json.loads(_file(config).read_text(encoding="utf-8"))
        return {name: tool for name, tool in tools.items() if set(tool) >= KEYS}
    except (OSError, ValueError, AttributeError, TypeError):  # damaged: as if there were none
        return {}


def _file(config: str | None) -> Path:
    from hashlib import sha256

    key = sha256(os.path.abspath(config or "").encode()).hexdigest()[:16]
    return _cache() / "listings" / f"{key}.json"


def _cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "toolbus"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolbus"
