"""Read the servers in a host's own file one by one, so that a bad entry does not hide the others.

Goose, Codex, Zed and opencode have keys of their own; each entry comes out with common keys. Claude Code
keeps servers per project; Gemini CLI and Claude Code disable servers in a list. Values that only the host
knows are noted, or left out.
"""

import os.path
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from toolbus.config.hosts.dialects import (
    alias_of,
    container,
    containers,
    has_container,
    settings_in,
    without_foreign,
)
from toolbus.config.hosts.host_auth import with_oauth_keys
from toolbus.config.hosts.read import read_document
from toolbus.config.location import Location, is_list, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

SET_IT = "set it in the environment or in a .env"
"""The next step for a name that has no value yet."""

_GOOSE_KEYS = {"cmd": "command", "uri": "url", "envs": "env", "available_tools": "include"}
_GOOSE_SERVERS = ("stdio", "sse", "streamable_http")
_GOOSE_OWN = ("name", "display_name", "bundled", "timeout", "env_keys")

_CODEX_KEYS = {"http_headers": "headers", "enabled_tools": "include", "disabled_tools": "exclude"}
_CODEX_OWN = (
    *("bearer_token_env_var", "env_http_headers", "env_vars"),
    *("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"),
    *("oauth_resource", "scopes", "oauth"),
    *("name", "supports_parallel_tool_calls", "default_tools_approval_mode", "experimental_environment"),
)
_ZED_OWN = ("source", "remote", "settings", "timeout")
_OPENCODE_OWN = ("type", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HostConfig:
    """The entries of a file in order, its settings for all servers, and the servers its host disables."""

    entries: dict[str, JSON] = field(default_factory=dict[str, JSON])
    settings: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    disabled: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list[str])
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    """The default of each input that the editor prompts for."""


Entry: TypeAlias = Mapping[JSON, JSON]
Translate: TypeAlias = Callable[[Entry, Location], dict[str, JSON]]
"""Translates an entry to common keys; ConfigError if it is invalid or cannot be used here."""


def host_of(document: Entry) -> str | None:
    """The host with its own format that the document was most likely written for."""
    if is_mapping(mcp := document.get("mcp")) and any(map(_is_opencode, _of_opencode(mcp).values())):
        return "opencode"
    # A file with settings for all servers is written for toolbus or for a host with the same keys.
    servers = document.get("mcp_servers")
    if is_mapping(servers) and any(map(_is_codex, servers.values())) and not settings_in(document):
        return "codex"
    if has_container(document):
        return None
    return "zed" if "context_servers" in document else "goose" if _is_goose(document) else None


def skipped_note(alias: str, error: ConfigError) -> str:
    """The note about an entry that cannot be used."""
    return f"server {alias!r} was skipped: {error.key + ': ' if error.key else ''}{error.problem}"


def by_alias(entries: JSON, notes: list[str]) -> dict[str, JSON]:
    """The entries by alias; those without a unique name are skipped, with a note."""
    pairs = entries.items() if is_mapping(entries) else [(alias_of(entry), entry) for entry in entries]
    result: dict[str, JSON] = {}
    for number, (alias, entry) in enumerate(pairs, start=1):
        if not isinstance(alias, str) or not alias.strip():
            notes.append(f"entry {number} was skipped: it has no name")
        elif alias in result:
            notes.append(f"entry {number} was skipped: {alias!r} is already the name of another entry")
        else:
            result[alias] = entry
    return result


def _translated(entries: Entry, location: Location, translate: Translate) -> HostConfig:
    notes: list[str] = []
    result: dict[str, JSON] = {}
    for alias, entry in by_alias(entries, notes).items():
        try:
            result[alias] = translate(entry, location) if is_mapping(entry) else entry
        except ConfigError as error:
            notes.append(skipped_note(alias, error))
    return HostConfig(entries=result, notes=notes)


def _goose(document: Entry, location: Location) -> HostConfig:
    extensions = location.mapping(document.get("extensions") or {}, "extensions")
    kinds = {str(alias): one.get("type", "stdio") for alias, one in extensions.items() if is_mapping(one)}
    own = {alias: kind for alias, kind in kinds.items() if kind not in _GOOSE_SERVERS}
    found = _translated(
        {alias: one for alias, one in extensions.items() if alias not in own}, location, _from_goose
    )
    parts = [
        f"{alias!r} was skipped: it is built into Goose ({kind}), not an MCP server"
        for alias, kind in own.items()
    ]
    kept = [
        f"server {alias!r}: Goose keeps {key} in its keyring; {SET_IT}"
        for alias in found.entries
        if is_mapping(extension := extensions[alias])
        for key in extension.get("env_keys") or ()
    ]
    return HostConfig(entries=found.entries, notes=[*parts, *kept, *found.notes])


def _is_goose(document: Entry) -> bool:
    extensions = document.get("extensions")
    return is_mapping(extensions) and all(is_mapping(one) and "type" in one for one in extensions.values())


def _from_goose(extension: Entry, location: Location) -> dict[str, JSON]:
    kept = location.names(extension.get("env_keys") or [], "env_keys")
    entry = _rest(extension, _GOOSE_OWN, _GOOSE_KEYS)
    if (seconds := extension.get("timeout")) is not None:
        # A bare `timeout` of 1000 or more would count as milliseconds.
        entry["timeouts"] = {"call": seconds}
    env = {**{name: f"${{{name}}}" for name in kept}, **location.mapping(entry.pop("env", {}), "envs")}
    if "url" not in entry:
        return {**entry, "env": env}
    headers = location.mapping(entry.get("headers", {}), "headers")
    return {**entry, "headers": {name: _filled(value, env) for name, value in headers.items()}}


def _filled(text: JSON, env: Entry) -> JSON:
    """A header with the extension's variables filled in, since there is no program to pass them to."""
    if not isinstance(text, str):
        return text
    return re.sub(
        r"\$(?:\{\s*(\w+)\s*\}|(\w+))", lambda name: str(env.get(name[1] or name[2], name[0])), text
    )


def _is_codex(entry: JSON) -> bool:
    own = {*_CODEX_KEYS, *_CODEX_OWN} - {"name"}
    return is_mapping(entry) and (not own.isdisjoint(entry) or is_mapping(entry.get("tools")))


def _from_codex(server: Entry, location: Location) -> dict[str, JSON]:
    if server.get("enabled_tools") == []:  # an empty `include` would allow all tools
        raise location.error("is empty, which allows no tools; list at least one", "enabled_tools")
    entry = _rest(server, _CODEX_OWN, _CODEX_KEYS)
    if is_mapping(entry.get("tools")):  # approval per tool
        del entry["tools"]
    if oauth := with_oauth_keys(server).get("oauth"):
        entry["oauth"] = oauth
    if token := server.get("bearer_token_env_var"):
        entry["auth"] = {"type": "bearer", "token": f"${{{token}}}"}
    if by_variable := location.mapping(server.get("env_http_headers") or {}, "env_http_headers"):
        headers = location.mapping(entry.get("headers", {}), "http_headers")
        entry["headers"] = {**headers, **{name: f"${{{key}}}" for name, key in by_variable.items()}}
    if variables := server.get("env_vars"):
        names = [one.get("name") if is_mapping(one) else one for one in variables if is_list(variables)]
        entry["inherit_env"] = list(location.names(names, "env_vars"))
    milliseconds = server.get("startup_timeout_ms")
    timeouts = {
        "connect": server.get("startup_timeout_sec", milliseconds and milliseconds / 1000),
        "call": server.get("tool_timeout_sec"),
    }
    return _with_timeouts(entry, timeouts)


def _from_zed(server: Entry, location: Location) -> dict[str, JSON]:
    entry = _rest(server, _ZED_OWN)
    if not {"command", "url"} & entry.keys():
        raise location.error("it is a Zed extension; only Zed knows its command")
    if is_mapping(command := entry.get("command")):  # the format until 2025
        entry |= {key: value for key, value in command.items() if key != "path"}
        entry["command"] = command.get("path")
    return _with_timeouts(entry, {"call": server.get("timeout")})


def _of_opencode(mcp: Entry) -> Entry:
    """The servers under `mcp`, or since version 2 under `mcp.servers`."""
    inner = mcp.get("servers")
    return inner if is_mapping(inner) and not _is_opencode(inner) else mcp


def opencode_container(document: Entry) -> tuple[str, ...]:
    """The path to the servers in a document of opencode."""
    mcp = document.get("mcp")
    return ("mcp", "servers") if is_mapping(mcp) and _of_opencode(mcp) is not mcp else ("mcp",)


def _is_opencode(entry: JSON) -> bool:
    return is_mapping(entry) and entry.get("type") in ("local", "remote")


def _from_opencode(server: Entry, location: Location) -> dict[str, JSON]:
    entry = _rest(server, _OPENCODE_OWN, {"environment": "env"})
    folder = os.path.dirname(os.path.abspath(location.file or ""))
    entry = {key: _with_references(value, folder) for key, value in entry.items()}
    oauth = entry.get("oauth")
    if is_mapping(oauth) and isinstance(port := oauth.get("callbackPort"), int):
        rest = {key: value for key, value in oauth.items() if key != "callbackPort"}
        entry["oauth"] = {"redirectUri": f"http://127.0.0.1:{port}/mcp/oauth/callback", **rest}
    milliseconds = server.get("timeout")
    is_number = isinstance(milliseconds, int | float)  # version 2 has a mapping with its own steps
    return _with_timeouts(entry, {"call": milliseconds / 1000} if is_number else {})


def _with_references(value: JSON, folder: str) -> JSON:
    """The value with `{env:NAME}` and `{file:PATH}` in our syntax; paths are relative to the folder."""
    if is_mapping(value):
        return {key: _with_references(inner, folder) for key, inner in value.items()}
    if is_list(value):
        return [_with_references(inner, folder) for inner in value]
    if not isinstance(value, str):
        return value
    named = re.sub(r"(?<!\$)\{env:([^{}]+)\}", r"${\1}", value)
    return re.sub(
        r"(?<!\$)\{file:([^{}]+)\}",
        lambda path: f"${{file:{os.path.join(folder, os.path.expanduser(path[1]))}}}",
        named,
    )


def _rest(entry: Entry, own: tuple[str, ...], renamed: Mapping[str, str] | None = None) -> dict[str, JSON]:
    """The entry without the host's own keys, and without empty values."""
    return {
        (renamed or {}).get(str(key), str(key)): value
        for key, value in entry.items()
        if key not in own and value not in (None, "", [], {})
    }


def _with_timeouts(entry: dict[str, JSON], seconds: Mapping[str, JSON]) -> dict[str, JSON]:
    given = {name: value for name, value in seconds.items() if value is not None}
    return {**entry, "timeouts": given} if given else entry


def _of_key(key: str, translate: Translate) -> Callable[[Entry, Location], HostConfig]:
    """Reads the servers under one key."""

    def read(document: Entry, location: Location) -> HostConfig:
        servers = location.mapping(document.get(key) or {}, key)
        return _translated(_of_opencode(servers) if key == "mcp" else servers, location, translate)

    return read


HOSTS: dict[str, Callable[[Entry, Location], HostConfig]] = {
    "goose": _goose,
    "codex": _of_key("mcp_servers", _from_codex),
    "zed": _of_key("context_servers", _from_zed),
    "opencode": _of_key("mcp", _from_opencode),
}
"""Reads a document of each host."""


FILE = "file"
"""The `host` of a file that the user named: any dialect."""


def host_config(document: Mapping[JSON, JSON], *, host: str, folder: Path, location: Location) -> HostConfig:
    """The servers in the document; ConfigError if a named file has none, a host's own file may be empty."""
    own = host_of(document) if host == FILE else host
    if own in HOSTS:
        return HOSTS[own](document, location)
    project = _project_settings(document, folder)
    if is_mapping(local := project.get("mcpServers")):
        of_user = document.get("mcpServers")
        document = {**document, "mcpServers": {**(of_user if is_mapping(of_user) else {}), **local}}
    if host != FILE and not has_container(document):
        return HostConfig()
    holders = [(holder, holder[path[-1]]) for path, holder in containers(document)]
    entries = holders[0][1] if len(holders) == 1 else None
    if not (is_mapping(entries) or is_list(entries)):
        # The document is one server, or `container` raises the error.
        return HostConfig(entries=dict(container(document, location).entries))
    settings = without_foreign(settings_in(document, holders[0][0]))
    notes: list[str] = []
    aliased = by_alias(entries, notes)
    disabled = _disabled(document, project, host, aliased)
    defaults = _defaults(holders[0][0].get("inputs"))
    return HostConfig(entries=aliased, settings=settings, disabled=disabled, notes=notes, defaults=defaults)


def disabled_by(path: Path, folder: Path) -> frozenset[str]:
    """The servers of a project's `.mcp.json` that another file of Claude Code disables.

    The user refused or disabled them. Servers that the user was never asked about are treated as enabled.
    """
    document = read_document(path)
    levels = (document, _project_settings(document, folder))
    lists = [level.get(key) for level in levels for key in ("disabledMcpjsonServers", "disabledMcpServers")]
    return frozenset(name for names in lists if is_list(names) for name in names if isinstance(name, str))


def _project_settings(document: Mapping[JSON, JSON], folder: Path) -> Mapping[str, JSON]:
    projects = document.get("projects")
    if not is_mapping(projects):
        return {}
    # On Windows both kinds of slash occur; on macOS /tmp is a link to /private/tmp.
    here = {folder.absolute().as_posix(), folder.resolve().as_posix()}
    found: dict[str, JSON] = {}
    for path, project in projects.items():
        if is_mapping(project) and str(path).replace("\\", "/").rstrip("/") in here:
            found |= {str(key): value for key, value in project.items()}
    return found


def _disabled(
    document: Mapping[JSON, JSON], project: Mapping[str, JSON], host: str, entries: Mapping[str, JSON]
) -> frozenset[str]:
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


def _defaults(inputs: JSON) -> dict[str, str]:
    """The default of each VS Code input; passwords have none."""
    found: dict[str, str] = {}
    for one in inputs if is_list(inputs) else ():
        if is_mapping(one) and not one.get("password") and isinstance(default := one.get("default"), str):
            found[str(one.get("id"))] = default
    return found
