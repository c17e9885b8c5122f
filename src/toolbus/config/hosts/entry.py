"""Convert one server entry, with the keys of any host, to a ServerConfig.

Each host's keys are rows in a table. An unknown key is an error that suggests the closest known one. In
another host's file it is only a warning, unless it may be a misspelled restriction.
"""

import os.path
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from difflib import get_close_matches
from enum import Enum
from pathlib import Path, PurePath
from typing import cast
from urllib.parse import urlsplit

from pydantic import AnyUrl, BaseModel, SecretStr

from toolbus.config.base import overriding
from toolbus.config.hosts.host_auth import with_auth
from toolbus.config.location import Location, Mistakes, is_list, is_mapping, near_miss
from toolbus.config.model import ServerConfig, Timeouts, Transport, check_alias
from toolbus.config.secrets.reference import masked
from toolbus.config.settings.auth import auth_warnings
from toolbus.config.settings.limits import ServerLimits
from toolbus.config.settings.sandbox import Sandbox
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import DEFAULT_BUDGET, JSON, Budget

RESTRICTION_KEYS = (
    *("include", "exclude", "enabled", "disabled", "sandbox"),
    *("policy", "lock", "trust", "trust_annotations"),
)
"""Keys that restrict in some host's dialect, even if they have no meaning here."""

_NO_SANDBOX = "it is another host's key, so the server is not in a sandbox; set sandbox in a toolbus.yaml"
_PROMISES = {
    "trust": "in this file it is another host's key; only a toolbus.yaml can trust a server's annotations",
    "trust_annotations": "only a toolbus.yaml can trust a server's annotations",
    "sandbox": _NO_SANDBOX,
    "sandboxEnabled": _NO_SANDBOX,
}

# Stricter than for a suggestion: a host's `excludeTools` is not a misspelled `exclude`.
_CLOSE = 0.8
_LONGER_BY = 2


def closest_restriction(key: object, words: Iterable[str]) -> str | None:
    """The restricting key that was most likely meant, if any."""
    plain = {_bare(word): word for word in words}
    given = _bare(str(key))
    alike = [word for word in plain if abs(len(word) - len(given)) <= _LONGER_BY]
    close = get_close_matches(given, alike, n=1, cutoff=_CLOSE)
    return plain[close[0]] if close else None


def promise_warnings(keys: Mapping[JSON, JSON]) -> tuple[str, ...]:
    """A warning about each key on which a user of another host relies, and which has no effect here."""
    return tuple(
        f"{key} is ignored: {_PROMISES[key]}" for key, value in keys.items() if key in _PROMISES and value
    )


def _bare(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "streamable-http": "streamable-http",
    "http": "streamable-http",
    "streamable_http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamablehttp": "streamable-http",
    "websocket": "streamable-http",  # another name for it
    "sse": "sse",
}

SPELLINGS = {
    "type": "transport",  # VS Code, Claude Code, Cline, FastMCP
    "transportType": "transport",  # Cline, older
    "serverUrl": "url",  # Windsurf
    "httpUrl": "url",  # Gemini CLI
    "workingDirectory": "cwd",
    "envFile": "env_file",  # VS Code, Cursor
    "includeTools": "include",  # Gemini CLI
    "tool_allowlist": "include",  # in manifests of extensions
    "tools": "include",  # GitHub Copilot
    "excludeTools": "exclude",  # Gemini CLI
    "disabledTools": "exclude",  # Windsurf, Roo Code
}
# An empty list here means "no tools", but an empty `include` means "all", so it is refused.
ALLOWLISTS = ("includeTools", "tool_allowlist", "tools")

TRANSLATED = ("connection", "disabled", "timeout", "name", "serverName")
"""Keys that do not map to a single field."""

IGNORED = frozenset(
    {
        *("description", "title", "icon", "icons", "note", "comment"),  # for people
        *("version", "gallery", "metadata", "tags"),  # for marketplaces
        *("autoApprove", "alwaysAllow", "alwaysLoad"),  # approval belongs to the host
        *("dev", "sandboxEnabled", "watchPaths", "keep_alive", "extension", "extensionName"),
        *("targetAudience", "targetServiceAccount"),
        *("sse_read_timeout", "headersHelper", "include_tags", "exclude_tags"),
    }
)
"""Keys of known hosts that have no meaning here; they are ignored."""

KEYS = (
    *(name for name, field in ServerConfig.model_fields.items() if not field.exclude),
    *SPELLINGS,
    *TRANSLATED,
)
"""Every key that has a meaning in an entry."""
_RESTRICTION_KEYS = (
    *RESTRICTION_KEYS,
    *(key for key, name in SPELLINGS.items() if name in RESTRICTION_KEYS),
)
_KEYED: tuple[tuple[Transport, str], ...] = (("memory", "server"), ("openapi", "openapi"))
"""Transports that follow from a key, and need not be written."""
_TARGETS = ("command", "url", "transport", "server", "openapi")
_PLAIN = (str, bytes, int, float, list, tuple, set, date, time, PurePath, ServerConfig)
_MILLISECONDS_FROM = 1000
# A mapping with one of these keys is a server.
_SERVER_KEYS = {"connection", *(key for key in KEYS if SPELLINGS.get(key, key) in _TARGETS)}


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A ServerConfig being built: the fields so far, and the key the user wrote for each."""

    fields: dict[str, JSON] = field(default_factory=dict[str, JSON])
    written: dict[str, str] = field(default_factory=dict[str, str])
    mistakes: Mistakes = field(default_factory=Mistakes)
    warnings: list[str] = field(default_factory=list[str])

    def put(self, key: str, name: str, value: JSON, location: Location) -> None:
        if name in self.fields and self.fields[name] != value:
            raise location.error(f"{self.written[name]} and {key} conflict; keep one", key)
        self.fields[name] = value
        self.written.setdefault(name, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Settings for all servers, used where a server does not set its own."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: ServerLimits = field(default_factory=ServerLimits)
    mark: bool = False
    repair: bool = True
    redact: bool = True
    sandbox: Sandbox | None = None
    """The default sandbox of servers with a command."""
    budget: Budget = DEFAULT_BUDGET
    folder: Path | None = None
    """The folder that relative paths are relative to."""
    foreign: bool = False
    """Whether the file belongs to another host, which may have its own keys."""
    warnings: tuple[str, ...] = ()
    """Warnings about keys beside the servers."""


def server_config(
    alias: str, entry: JSON, *, location: Location, defaults: Defaults | None = None
) -> ServerConfig:
    """The entry as a ServerConfig, with defaults applied; ConfigError lists the mistakes."""
    if isinstance(entry, ServerConfig):
        check_alias(alias)
        is_open = entry.command is not None and "sandbox" not in entry.model_fields_set
        confined = {"sandbox": defaults.sandbox} if is_open and defaults and defaults.sandbox else {}
        return entry.model_copy(update={"alias": alias, **confined})
    defaults = defaults or Defaults()
    draft = _draft(long_form(entry, location), location, foreign=defaults.foreign)
    config: ServerConfig | None = None
    with draft.mistakes.collected():
        config = _built(alias, draft, location, defaults)
    # A missing command is only the consequence of a misspelled key.
    keyed = Mistakes(mistake for mistake in draft.mistakes if mistake.key is not None)
    (keyed or draft.mistakes).raise_any()
    assert config is not None, "no mistakes"
    return config


def invalid_config(alias: str, entry: JSON, mistake: ConfigError) -> ServerConfig:
    """A server with an invalid entry: it stays on the bus, and connecting fails with the mistake."""
    said: Mapping[JSON, JSON] = entry if is_mapping(entry) else {}
    prefix = said.get("prefix")
    return ServerConfig(
        alias=alias,
        transport="stdio",
        required=said.get("required") is True,
        prefix=prefix if isinstance(prefix, str) else None,  # names of other tools may depend on it
        # The traceback's frames hold the values of the entry.
        mistake=mistake.with_traceback(None),
    )


def _built(alias: str, draft: _Draft, location: Location, defaults: Defaults) -> ServerConfig:
    fields: dict[str, JSON] = {
        "alias": alias,
        "mark": defaults.mark,
        "repair": defaults.repair,
        "redact": defaults.redact,
        "budget": defaults.budget,
        **({"sandbox": defaults.sandbox} if defaults.sandbox and "command" in draft.fields else {}),
        **draft.fields,
    }
    mistakes = draft.mistakes
    with mistakes.collected():
        _normalize_command(fields, location)
    with mistakes.collected():
        _normalize_transport(fields, location, draft.written.get("transport", "transport"))
    for name, usual in (("timeouts", defaults.timeouts), ("limits", defaults.limits)):
        fields[name] = overriding(usual, fields[name]) if name in fields else usual
    for key in ("verify", "client_cert", "client_key"):
        if isinstance(path := fields.get(key), str):
            fields[key] = os.path.join(defaults.folder or "", os.path.expanduser(path))
    try:
        config = ServerConfig(**fields)
    except ConfigError as error:
        raise location.relocated(error, lambda key: _as_written(key, draft.written)) from None
    warnings = tuple(dict.fromkeys((*defaults.warnings, *draft.warnings, *auth_warnings(config.auth))))
    return config.model_copy(update={"warnings": warnings}) if warnings else config


def is_switched_off(entry: JSON, location: Location) -> bool:
    """Whether the entry sets `enabled: false` or `disabled: true`."""
    if isinstance(entry, ServerConfig):
        return not entry.enabled
    if not is_mapping(entry):
        return False
    flags = {key: entry[key] for key in ("enabled", "disabled") if entry.get(key) is not None}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise location.error("expected true or false", key)
    return flags.get("enabled") is False or flags.get("disabled") is True


def is_server_object(value: object) -> bool:
    """Whether the value is an in-process server: anything that a file cannot contain."""
    return value is not None and not isinstance(value, _PLAIN) and not is_mapping(value)


def is_server(entry: JSON) -> bool:
    """Whether the value is clearly a server: a URL, an object, or a mapping with a command or a URL."""
    entry = unwrapped(entry)
    if isinstance(entry, str):
        return entry.lower().startswith(("http://", "https://", "http+unix://", "${"))
    if is_mapping(entry):
        return not _SERVER_KEYS.isdisjoint(entry)
    return isinstance(entry, ServerConfig) or is_server_object(entry)


def unwrapped(entry: JSON) -> JSON:
    """The entry as a file would contain it: a pydantic model becomes a mapping, unless it is ours."""
    if not isinstance(entry, BaseModel) or isinstance(entry, ServerConfig):
        return entry
    # Defaults of unknown fields are dropped; a value that was set explicitly must be understood.
    return {
        key: _plain(value)
        for key, value in entry.model_dump().items()
        if key in KEYS or key in entry.model_fields_set
    }


def _plain(value: JSON) -> JSON:
    """The value converted to types that a file can contain."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Enum():
            return value.value
        case PurePath() | AnyUrl():
            return str(value)
        case dict():
            return {key: _plain(inner) for key, inner in cast(dict[JSON, JSON], value).items()}
        case list() | tuple():
            return [_plain(inner) for inner in cast(list[JSON], value)]
        case _:
            return value


def long_form(entry: JSON, location: Location) -> Mapping[JSON, JSON]:
    """The entry as a mapping: a string is a URL, an object is a server, a `connection` is flattened."""
    if isinstance(entry, str):
        return {"url": entry}
    if is_server_object(entry):
        return {"server": entry}
    if not is_mapping(entry):
        raise location.error("expected a mapping with command or url, or a URL")
    connection = entry.get("connection")
    if connection is None:
        return entry
    inner = location.mapping(connection, "connection")
    for key in inner:
        if key in entry:
            raise location.error("is set in connection and beside it; keep one", str(key))
    return {**entry, **inner}


def _draft(entry: Mapping[JSON, JSON], location: Location, *, foreign: bool) -> _Draft:
    """The entry with every key translated; null is treated as not set."""
    entry, warnings = with_auth(entry, location, foreign=foreign)
    draft = _Draft(warnings=warnings)
    unused = {*IGNORED, *(_PROMISES if foreign or "serverName" in entry else ())}
    draft.warnings += promise_warnings({key: value for key, value in entry.items() if key in unused})
    entry = {key: value for key, value in entry.items() if key not in unused and value is not None}
    try:
        entry, notes = ServerConfig.renamed(entry)
    except ConfigError as error:
        raise location.relocated(error, lambda key: key) from None
    draft.warnings += notes
    for key, value in entry.items():
        with draft.mistakes.collected():
            if key in KEYS:
                _put(draft, key, value, entry, location)
            elif foreign and (meant := closest_restriction(key, _RESTRICTION_KEYS)):
                raise location.unknown_restriction(key, meant)
            elif foreign:
                draft.warnings.append(f"unknown key {str(key)!r} is ignored{near_miss(key, KEYS)}")
            else:
                raise location.unknown_key(key, KEYS)
    if (call := draft.fields.pop("call", None)) is not None:
        own = draft.fields.get("timeouts", {})
        if is_mapping(own):
            draft.fields["timeouts"] = {"call": call, **own}
    return draft


def _put(draft: _Draft, key: str, value: JSON, entry: Mapping[JSON, JSON], location: Location) -> None:
    """Add a known key to the draft, under our name for it."""
    if key in ALLOWLISTS and not location.names(value, key):
        raise location.error("is empty; name the tools, or leave it out to allow all", key)
    if key == "disabled":
        draft.put(key, "enabled", not is_switched_off(entry, location), location)
    elif key == "timeout":
        draft.put(key, "call", _seconds(value, location), location)
    elif key not in TRANSLATED:
        name = SPELLINGS.get(key, key)
        if name == "transport" and isinstance(value, str):
            value = TRANSPORTS.get(value, value)  # an unknown one is left for validation
        # A host may have written its empty default; an empty `prefix` has a meaning.
        if name not in ("command", "url", "cwd") or not isinstance(value, str) or value.strip():
            draft.put(key, name, value, location)


def _seconds(value: JSON, location: Location) -> float:
    """A bare `timeout`: Cline means seconds, Claude Code, Gemini CLI and FastMCP mean milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise location.error("expected a number above 0", "timeout")
    return value / 1000 if value >= _MILLISECONDS_FROM else float(value)


def _normalize_command(fields: dict[str, JSON], location: Location) -> None:
    """Split a command given as a list into the command and its arguments."""
    if is_list(fields.get("command")):
        words = location.names(fields.pop("command"), "command")
        fields["args"] = (*words[1:], *location.names(fields.get("args", ()), "args"))
        if words:
            fields["command"] = words[0]


def _normalize_transport(fields: dict[str, JSON], location: Location, key: str) -> None:
    """Set the transport: the given one under our name, or the one inferred from the other fields."""
    if "server" in fields and not is_server_object(fields["server"]):
        del fields["server"]
        fields["transport"] = _inferred_transport(fields)
        raise location.error("expected an MCP server object; a file cannot contain one", "server")
    said = fields.get("transport")
    if said is None:
        fields["transport"] = _inferred_transport(fields)
    elif said not in TRANSPORTS.values() and said not in _keyed(fields):
        fields["transport"] = _inferred_transport(fields)
        allowed = "stdio, streamable-http (http, websocket), sse"
        raise location.error(f"unknown transport {said!r}; allowed: {allowed}", key)


def _keyed(fields: Mapping[str, JSON]) -> list[Transport]:
    """The transports that follow from the keys of an entry."""
    return [name for name, key in _KEYED if key in fields]


def _inferred_transport(fields: Mapping[str, JSON]) -> Transport:
    if keyed := _keyed(fields):
        return keyed[0]
    url = fields.get("url")
    if not isinstance(url, str):
        return "stdio"
    try:
        path = urlsplit(masked(url)).path
    except ValueError:  # an invalid host; connecting reports it
        path = ""
    return "sse" if path.rstrip("/").endswith("/sse") else "streamable-http"


def _as_written(key: str | None, written: Mapping[str, str]) -> str | None:
    """The key as the user wrote it: `serverUrl` for our `url`."""
    if key is None:
        return None
    name = key.partition(".")[0].partition("[")[0]
    return written.get(name, name) + key[len(name) :]
