"""Find the servers in a document, wherever its host keeps them.

A dialect is a row in a table. The entries themselves are parsed in `toolbus.config.hosts.entry`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from toolbus.config.base import ConfigModel
from toolbus.config.hosts.entry import (
    RESTRICTION_KEYS,
    closest_restriction,
    is_server,
    promise_warnings,
    unwrapped,
)
from toolbus.config.location import Location, Mistakes, is_list, is_mapping, near_miss
from toolbus.config.settings.audit import KEPT, History, Telemetry, file_problem
from toolbus.config.settings.search import Search
from toolbus.config.settings.serve import Profile, Serve
from toolbus.config.settings.store import SCHEMES, StoreSetting
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

CONTAINERS: tuple[tuple[str, ...], ...] = (
    ("servers",),  # ours; VS Code's mcp.json
    ("mcpServers",),  # Claude Desktop, Claude Code, Cursor, Windsurf, Cline, Gemini CLI, FastMCP
    ("mcp", "servers"),  # VS Code's settings.json
    ("mcp_servers",),  # Codex, and settings in snake case
    ("tools", "mcp_servers"),  # the same, grouped
    ("services", "mcp"),  # a catalog of services
    ("config", "servers"),  # the manifest of an extension
)

SETTINGS = (
    *("naming", "timeouts", "limits", "enabled_servers", "tool_allowlist"),
    *("include", "exclude", "mark", "repair", "redact", "budget", "sandbox"),
    *("resource_tools", "prompt_tools", "skill_tools", "roots", "expose", "expose_budget", "always"),
    *("context", "context_budget", "lock", "policy", "quotas", "audit", "history", "telemetry", "tokens"),
    *("search", "serve", "code", "store", "registry", "extends", "profiles", "hooks", "tools"),
)
"""Settings for all servers; accepted beside every container."""

_OURS: Mapping[str, Callable[[JSON], bool]] = {
    "context": lambda value: is_list(value) and any(is_mapping(one) and "uri" in one for one in value),
    "tokens": lambda value: value in ("auto", "keyring", "memory") or str(value).startswith("file:"),
    "audit": lambda value: (
        isinstance(value, bool)
        or (file_problem(value) is None if isinstance(value, str) else "file" in _keys(value))
    ),
    "history": lambda value: isinstance(value, bool) or value in KEPT or _has_only(value, History),
    "telemetry": lambda value: isinstance(value, bool) or _has_only(value, Telemetry),
    "search": lambda value: _has_only(value, Search),
    "extends": lambda value: value == "user",
    "profiles": lambda value: is_mapping(value) and all(_has_only(one, Profile) for one in value.values()),
    "tools": lambda value: is_mapping(value) and all("script" in _keys(one) for one in value.values()),
    "hooks": is_list,  # Claude Code has a mapping of its own hooks
    "serve": lambda value: not _keys(value).isdisjoint(Serve.model_fields),
    "registry": lambda value: isinstance(value, str),
    "store": lambda value: (
        value.startswith((*SCHEMES, "${"))
        if isinstance(value, str)
        else "url" in _keys(value) and _has_only(value, StoreSetting)
    ),
}
"""Whether a setting is ours: Gemini CLI, Continue and others use these keys for something else."""

# In these files, every key beside the servers is ours or a mistake.
_OWN_CONTAINERS = (("servers",), ("config", "servers"))
# VS Code's own keys beside `servers`; `$schema` is for editors.
BESIDE_SERVERS = ("inputs", "$schema")
_FILES_OF_EDITORS = ("mcp.json", ".mcp.json")
_RESTRICTION_KEYS = (*RESTRICTION_KEYS, "enabled_servers", "tool_allowlist")

_OTHERS = ", ".join(".".join(path) for path in CONTAINERS[1:])
_EXPECTED = "expected 'servers: {NAME: {command: ...}}', or one of " + _OTHERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The entries of a document by alias, in order, and its settings for all servers."""

    entries: Mapping[str, JSON]
    settings: Mapping[str, JSON]
    foreign: bool = False
    """Whether the document belongs to another host, which has its own keys."""
    misnamed: Mapping[str, ConfigError] = field(default_factory=dict[str, ConfigError])
    """Entries with an invalid alias, by the name used in messages."""
    mistakes: Mistakes = field(default_factory=Mistakes)
    """Mistakes outside the entries."""
    warnings: tuple[str, ...] = ()
    """Warnings about ignored keys outside the entries."""
    local: frozenset[str] = frozenset()
    """The servers whose launch the local file sets."""


def container(document: Mapping[JSON, JSON], location: Location) -> Container:
    """The servers of the document; ConfigError when there is no container, or more than one.

    Other mistakes are collected in the result.
    """
    found = list(containers(document))
    if not found and "serverName" in document:  # the document is the one server
        return _aliased([document], "server", location)
    if not found:
        wrong = next((hint for key in document if (hint := near_miss(key, _names()))), "")
        raise location.error(f"no servers found; {_EXPECTED}{wrong}")
    if len(found) > 1:
        both = " and ".join(repr(".".join(path)) for path, _ in found)
        raise location.error(f"more than one list of servers: {both}; keep one")
    path, holder = found[0]
    settings = settings_in(document, holder)
    if path not in _OWN_CONTAINERS:
        settings = without_foreign(settings)
    foreign = path not in _OWN_CONTAINERS or _is_of_editor(document, location)
    promises = {**document, **holder}
    if foreign:
        settings.pop("sandbox", None)  # VS Code and Gemini CLI have their own
    else:
        promises.pop("sandbox", None)
    if path == ("servers",) and not foreign:
        mistakes = _unknown_keys(document, location)
    else:
        mistakes = _misspelled_restrictions((document, holder), location)
    aliased = _aliased(holder[path[-1]], ".".join(path), location)
    warnings = promise_warnings(promises)
    return replace(aliased, settings=settings, foreign=foreign, mistakes=mistakes, warnings=warnings)


def with_container(document: Mapping[JSON, JSON]) -> Mapping[JSON, JSON]:
    """The document, with a container added if code passed bare servers, or none at all."""
    settings = {key: value for key, value in document.items() if _is_setting(key, value)}
    entries = {alias: entry for alias, entry in document.items() if alias not in settings}
    # If one entry is a server, treat the others as servers too, so that mistakes in them are reported.
    is_bare = any(_is_aliased(*pair) for pair in entries.items()) or not document
    if has_container(document) or is_server(document) or not is_bare:
        return document
    return {"servers": entries, **settings}


def _is_setting(key: JSON, value: JSON) -> bool:
    """Whether it is ours and not a server: one named `search` or `profiles` is common."""
    is_common = key in ("search", "extends", "profiles", "hooks", "tools")
    return key in SETTINGS and (not is_common or _is_ours(str(key), value))


def _is_ours(key: str, value: JSON) -> bool:
    return key not in _OURS or isinstance(value, ConfigModel) or _OURS[key](value)


def _keys(value: JSON) -> frozenset[JSON]:
    return frozenset(value) if is_mapping(value) else frozenset()


def _has_only(value: JSON, model: type[ConfigModel]) -> bool:
    return is_mapping(value) and value.keys() <= model.model_fields.keys()


def settings_in(*levels: Mapping[JSON, JSON]) -> dict[str, JSON]:
    """The settings for all servers in these mappings; later ones take precedence."""
    return {name: level[name] for level in levels for name in SETTINGS if name in level}


def without_foreign(settings: Mapping[str, JSON]) -> dict[str, JSON]:
    """The settings without keys of other hosts."""
    return {key: value for key, value in settings.items() if _is_ours(key, value)}


def entry_list(entries: JSON, location: Location) -> Container:
    """The servers of a bare list of entries."""
    return _aliased(entries, "servers", location)


def has_container(document: Mapping[JSON, JSON]) -> bool:
    """Whether servers are listed somewhere in the document."""
    return any(True for _ in containers(document))


def alias_of(entry: JSON) -> JSON:
    """The name in the entry itself, or None."""
    if not is_mapping(entry):
        return None
    return next((entry[key] for key in ("alias", "name", "serverName") if entry.get(key) is not None), None)


def containers(document: Mapping[JSON, JSON]) -> Iterator[tuple[tuple[str, ...], Mapping[JSON, JSON]]]:
    """Each container in the document, with the mapping that contains it."""
    for path in CONTAINERS:
        holder: JSON = document
        for step in path[:-1]:
            holder = holder.get(step) if is_mapping(holder) else None
        if is_mapping(holder) and path[-1] in holder:
            yield path, holder


def _is_aliased(alias: JSON, entry: JSON) -> bool:
    # A URL under the key `url` is one server without an alias.
    return is_server(entry) and not (isinstance(entry, str) and is_server({alias: entry}))


def _names() -> list[str]:
    return [path[-1] for path in CONTAINERS if len(path) == 1]


def _is_of_editor(document: Mapping[JSON, JSON], location: Location) -> bool:
    """Whether a document with `servers` belongs to VS Code, whose files have the same shape as ours."""
    return "inputs" in document or PurePath(location.file or "").name in _FILES_OF_EDITORS


def _unknown_keys(document: Mapping[JSON, JSON], location: Location) -> Mistakes:
    """In our own file, an unknown key is a typo."""
    known = ("servers", *SETTINGS, *BESIDE_SERVERS)
    # `x-` is the usual prefix for custom keys, such as YAML anchors.
    unknown = (key for key in document if key not in known and not str(key).startswith("x-"))
    return Mistakes(location.unknown_key(key, known) for key in unknown)


def _misspelled_restrictions(levels: Iterable[Mapping[JSON, JSON]], location: Location) -> Mistakes:
    """Another host's file may have its own keys, but a possibly misspelled restriction is not ignored."""
    keys = {str(key) for level in levels for key in level} - {*SETTINGS, *RESTRICTION_KEYS}
    meant = {key: closest_restriction(key, _RESTRICTION_KEYS) for key in sorted(keys)}
    return Mistakes(location.unknown_restriction(key, word) for key, word in meant.items() if word)


def _aliased(entries: JSON, key: str, location: Location) -> Container:
    """The entries by alias; ConfigError if they are neither a mapping nor a list."""
    if is_mapping(entries):
        pairs = [(alias, unwrapped(entry)) for alias, entry in entries.items()]
    elif is_list(entries):
        pairs = [(alias_of(entry), entry) for entry in map(unwrapped, entries)]
    else:
        raise location.error("expected a mapping of servers, or a list of servers with an alias or name", key)
    result: dict[str, JSON] = {}
    misnamed: dict[str, ConfigError] = {}
    for index, (alias, entry) in enumerate(pairs):
        own = entry.get("alias") if is_mapping(entry) else None
        position = f"{key}[{index}]"
        if not isinstance(alias, str) or not alias.strip():
            where = position if is_list(entries) else key
            misnamed[position] = location.error("a server needs an alias: a non-empty string", where)
        elif alias in result:
            misnamed[position] = location.error(f"two servers have the alias {alias!r}; rename one", key)
        elif own is not None and own != alias:
            problem = f"{alias!r} has a different alias; keep one"
            misnamed[alias] = location.error(problem, f"{key}.{alias}.alias")
        else:
            result[alias] = entry
    return Container(entries=result, settings={}, misnamed=misnamed)
