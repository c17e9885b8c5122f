"""The servers in a host's own file, one by one, so that a bad one does not hide the others.

Beside the dialects there is what only one host does: Claude Code keeps servers for each project, Gemini CLI
and Claude Code switch servers off in a list, Goose calls them extensions.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolbus.config.dialects import (
    CONTAINERS,
    alias_of,
    container,
    has_container,
    settings_in,
    without_foreign,
)
from toolbus.config.place import Place, is_list, is_mapping
from toolbus.errors import ConfigError
from toolbus.records import JSON

FILE = "file"
"""The host of a file that somebody named: any dialect."""

SET_IT = "set it in the environment or in a .env"
"""The next step for a name that has no value yet."""

_GOOSE_WORDS = {"cmd": "command", "uri": "url", "envs": "env", "available_tools": "include"}
_GOOSE_SERVERS = ("stdio", "sse", "streamable_http")
_GOOSE_OWN = ("name", "display_name", "bundled", "timeout", "env_keys")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Listing:
    """The entries of a file in their order, what it says for all, and which ones its host does not start."""

    entries: dict[str, JSON] = field(default_factory=dict[str, JSON])
    settings: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    off: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list[str])


def listing(document: Mapping[JSON, JSON], *, host: str, folder: Path, place: Place) -> Listing:
    """What the document lists; nothing if a host's own file lists none, ConfigError if another does."""
    if host == "goose" or (host == FILE and not has_container(document) and _is_goose(document)):
        return _of_goose(document, place)
    project = _of_project(document, folder)
    if is_mapping(local := project.get("mcpServers")):
        of_user = document.get("mcpServers")
        document = {**document, "mcpServers": {**(of_user if is_mapping(of_user) else {}), **local}}
    if host != FILE and not has_container(document):
        return Listing()
    holders = list(_holders(document))
    entries = holders[0][1] if len(holders) == 1 else None
    if not (is_mapping(entries) or is_list(entries)):
        # One server that is a document, or an error that is told there.
        return Listing(entries=dict(container(document, place).entries))
    settings = without_foreign(settings_in(document, holders[0][0]))
    notes: list[str] = []
    named = _named(entries, notes)
    off = _switched_off(document, project, host, named)
    return Listing(entries=named, settings=settings, off=off, notes=notes)


def left_out(alias: str, error: ConfigError) -> str:
    """The note on an entry that cannot be used."""
    return f"server {alias!r} was left out: {error.key + ': ' if error.key else ''}{error.problem}"


def _holders(document: Mapping[JSON, JSON]) -> Iterator[tuple[Mapping[JSON, JSON], JSON]]:
    """Each mapping that holds a container, and what the container holds."""
    for path in CONTAINERS:
        holder: JSON = document
        for step in path[:-1]:
            holder = holder.get(step) if is_mapping(holder) else None
        if is_mapping(holder) and path[-1] in holder:
            yield holder, holder[path[-1]]


def _named(entries: JSON, notes: list[str]) -> dict[str, JSON]:
    pairs = entries.items() if is_mapping(entries) else [(alias_of(entry), entry) for entry in entries]
    result: dict[str, JSON] = {}
    for number, (alias, entry) in enumerate(pairs, start=1):
        if not isinstance(alias, str) or not alias.strip():
            notes.append(f"entry {number} was left out: it has no name")
        elif alias in result:
            notes.append(f"entry {number} was left out: {alias!r} is the name of another one")
        else:
            result[alias] = entry
    return result


def _of_project(document: Mapping[JSON, JSON], folder: Path) -> Mapping[str, JSON]:
    """What Claude Code keeps for the project in this folder."""
    projects = document.get("projects")
    if not is_mapping(projects):
        return {}
    # Windows users find both kinds of slash there; macOS has /tmp as a link to /private/tmp.
    here = {folder.absolute().as_posix(), folder.resolve().as_posix()}
    found: dict[str, JSON] = {}
    for path, project in projects.items():
        if is_mapping(project) and str(path).replace("\\", "/").rstrip("/") in here:
            found |= {str(key): value for key, value in project.items()}
    return found


def _switched_off(
    document: Mapping[JSON, JSON], project: Mapping[str, JSON], host: str, entries: Mapping[str, JSON]
) -> frozenset[str]:
    """The servers that the lists of their host keep from starting."""
    if host == "claude-code":
        disabled = project.get("disabledMcpServers")
        return frozenset(alias for alias in entries if is_list(disabled) and alias in disabled)
    if host == "gemini" and is_mapping(lists := document.get("mcp")):
        allowed, excluded = lists.get("allowed"), lists.get("excluded")
        return frozenset(
            alias
            for alias in entries
            if (is_list(allowed) and alias not in allowed) or (is_list(excluded) and alias in excluded)
        )
    return frozenset()


def _is_goose(document: Mapping[JSON, JSON]) -> bool:
    extensions = document.get("extensions")
    return is_mapping(extensions) and all(is_mapping(one) and "type" in one for one in extensions.values())


def _of_goose(document: Mapping[JSON, JSON], place: Place) -> Listing:
    notes: list[str] = []
    entries: dict[str, JSON] = {}
    for alias, extension in _named(
        place.mapping(document.get("extensions") or {}, "extensions"), notes
    ).items():
        if not is_mapping(extension):
            entries[alias] = extension
            continue
        kind = extension.get("type", "stdio")
        if kind not in _GOOSE_SERVERS:
            notes.append(f"{alias!r} was left out: it is a part of Goose ({kind}), not an MCP server")
            continue
        try:
            kept = place.names(extension.get("env_keys") or [], "env_keys")
            entries[alias] = _from_goose(extension, kept, place)
        except ConfigError as error:
            notes.append(left_out(alias, error))
            continue
        notes += [f"server {alias!r}: Goose keeps {key} in its keyring; {SET_IT}" for key in kept]
    return Listing(entries=entries, notes=notes)


def _from_goose(extension: Mapping[JSON, JSON], kept: tuple[str, ...], place: Place) -> dict[str, JSON]:
    """An extension in words that every entry may use."""
    entry: dict[str, JSON] = {
        _GOOSE_WORDS.get(str(key), str(key)): value
        for key, value in extension.items()
        if key not in _GOOSE_OWN and value not in (None, "", [], {})
    }
    if (
        seconds := extension.get("timeout")
    ) is not None:  # a bare `timeout` from 1000 on would be milliseconds
        entry["timeouts"] = {"call": seconds}
    env = {**{name: f"${{{name}}}" for name in kept}, **place.mapping(entry.pop("env", {}), "envs")}
    if "url" not in entry:
        return {**entry, "env": env}
    headers = place.mapping(entry.get("headers", {}), "headers")
    return {**entry, "headers": {name: _filled(value, env) for name, value in headers.items()}}


def _filled(text: JSON, env: Mapping[JSON, JSON]) -> JSON:
    """A header with the variables of its extension: there is no program that could get them."""
    if not isinstance(text, str):
        return text
    return re.sub(
        r"\$(?:\{\s*(\w+)\s*\}|(\w+))", lambda name: str(env.get(name[1] or name[2], name[0])), text
    )
