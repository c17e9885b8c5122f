"""Read the sign-in settings of other hosts as our `auth`: `oauth: {clientId: ...}`, `auth: {CLIENT_ID: ...}`.

A setting without a counterpart here is reported in a warning, and never dropped silently.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from toolbus.config.location import Location, is_mapping
from toolbus.config.settings.auth import text_problem
from toolbus.core.values.records import JSON

SIGN_IN = ("oauth", "authProviderType", "authentication")
"""Keys of other hosts about the sign-in to a server."""

_KEYS = {
    "clientId": "client_id",  # Claude Code, VS Code, Gemini CLI, opencode
    "client_id": "client_id",  # Codex, Zed
    "CLIENT_ID": "client_id",  # Cursor
    "clientSecret": "client_secret",  # Gemini CLI, opencode
    "client_secret": "client_secret",  # Zed
    "CLIENT_SECRET": "client_secret",  # Cursor
    "scopes": "scopes",  # Claude Code, Cursor, Gemini CLI
    "scope": "scopes",  # opencode
    "issuer": "issuer",  # Gemini CLI
    "redirectUri": "callback",  # Gemini CLI, opencode
    "callback_url": "callback",  # Codex
    "resource": "resource",
}
# Keys of a mapping under `auth` that is written for Cursor; ours has a type.
_OF_CURSOR = ("CLIENT_ID", "CLIENT_SECRET")
# Keys of Codex beside `oauth`.
_BESIDE = {"scopes": "scopes", "oauth_resource": "resource"}
_ENDPOINTS = ("authorizationUrl", "tokenUrl", "registrationUrl")
_WELL_KNOWN = r"/\.well-known/(?:oauth-authorization-server|openid-configuration)"
_LAST_PORT = 65535


def with_auth(
    entry: Mapping[JSON, JSON], location: Location, *, foreign: bool
) -> tuple[Mapping[JSON, JSON], list[str]]:
    """The entry with our `auth` for another host's sign-in settings, and warnings.

    `foreign`: the entry is in another host's file, so Codex's keys beside `oauth` are also read.
    """
    entry = with_oauth_keys(entry) if foreign else entry
    key = next((key for key in ("oauth", "auth") if _is_of_host(key, entry.get(key))), None)
    rest = {name: value for name, value in entry.items() if name not in SIGN_IN and name != key}
    warnings = [f"{name} is ignored: it has no counterpart here; set auth" for name in _unusable(entry)]
    if key is None:
        return rest, warnings
    if reason := _superfluous(rest):
        return rest, [*warnings, f"{key} is ignored: {reason}"]
    return {**rest, "auth": {"type": "oauth", **_keys(key, entry[key], location, warnings)}}, warnings


def with_oauth_keys(entry: Mapping[JSON, JSON]) -> Mapping[JSON, JSON]:
    """The entry with Codex's keys beside `oauth` moved into it."""
    beside = {ours: entry[key] for key, ours in _BESIDE.items() if entry.get(key)}
    if not beside:
        return entry
    block = entry.get("oauth")
    rest = {key: value for key, value in entry.items() if key not in _BESIDE}
    return {**rest, "oauth": {**(block if is_mapping(block) else {}), **beside}}


def _is_of_host(key: str, value: JSON) -> bool:
    """Whether the value asks for a sign-in; `oauth: false` and `enabled: false` forbid it."""
    if key == "auth":
        return is_mapping(value) and "type" not in value and any(name in value for name in _OF_CURSOR)
    return (is_mapping(value) and bool(value) and value.get("enabled") is not False) or value is True


def _unusable(entry: Mapping[JSON, JSON]) -> list[str]:
    """The keys that ask for a sign-in that does not exist here."""
    provider = entry.get("authProviderType")
    wrong = {
        "oauth": entry.get("oauth") and not isinstance(entry["oauth"], bool | Mapping),
        "authentication": entry.get("authentication"),
        "authProviderType": provider and provider != "dynamic_discovery",  # which is Gemini CLI's default
    }
    return [key for key, is_wrong in wrong.items() if is_wrong]


def _superfluous(entry: Mapping[JSON, JSON]) -> str | None:
    """The reason why the entry needs no sign-in."""
    headers = entry.get("headers")
    names = map(str, headers) if is_mapping(headers) else ()
    if any(name.lower() == "authorization" for name in names):
        return "the entry has an Authorization header"
    if entry.get("auth") is not None:
        return "the entry has auth"
    return "it is for servers with a url" if entry.get("command") else None


def _keys(key: str, block: JSON, location: Location, warnings: list[str]) -> dict[str, JSON]:
    """The keys of a host's block under our names."""
    found: dict[str, JSON] = {}
    for name, value in block.items() if is_mapping(block) else ():
        if value in (None, "", []) or name == "enabled":
            continue
        where = f"{key}.{name}"
        ours, problem = _KEYS.get(str(name)), None
        if name == "callbackPort":
            ours, value = "callback", _loopback(value, where, location)
        elif name == "authServerMetadataUrl":
            ours, value = "issuer", _issuer(value)
            problem = None if value else "it is not at a well-known place; set auth.issuer"
        elif name in _ENDPOINTS:
            problem = "endpoints are found in the metadata of the authorization server"
        elif ours is None:
            problem = "it has no counterpart here"
        elif isinstance(value, str) and "${" not in value:
            problem = text_problem(ours, value)
        if problem or ours is None:
            warnings.append(f"{where} is ignored: {problem}")
        elif found.setdefault(ours, value) != value:
            raise location.error(f"{ours} is already set by another key; keep one", where)
    return found


def _loopback(port: JSON, where: str, location: Location) -> str:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= _LAST_PORT:
        raise location.error("expected a port", where)
    return f"http://localhost:{port}/callback"


def _issuer(url: JSON) -> str | None:
    """The authorization server whose metadata is at that URL."""
    if not isinstance(url, str) or text_problem("issuer", url):
        return None
    parts = urlsplit(url)
    found = re.fullmatch(rf"(?P<before>.*){_WELL_KNOWN}(?P<after>.*)", parts.path)
    if found is None or (found["before"] and found["after"]):
        return None
    return f"{parts.scheme}://{parts.netloc}{found['before']}{found['after']}"
