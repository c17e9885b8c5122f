"""`toolbus add`, `remove`, `enable` and `disable`: edit the servers in the config.

Keeps the file's comments, order and layout. A trusted file stays trusted; an untrusted one stays untrusted.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbus.cli.commands.safety.trust import is_trusted, trust_written
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, short_path, visible
from toolbus.cli.suggested import suggested
from toolbus.config import find_config, load_server
from toolbus.config.editing.edit import new_document, servers_in, with_servers, with_switch, without_server
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.find import DOTENV, named_config
from toolbus.config.hosts.read import document_in, read_content
from toolbus.config.load import config_in
from toolbus.config.location import is_mapping, near_miss
from toolbus.config.secrets.literals import (
    Secret,
    SecretNames,
    add_secrets,
    env_values,
    referenced_names,
    with_references,
)
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

OAUTH = "oauth"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """The arguments of `toolbus add`."""

    target: Sequence[str]
    """A URL, or a command and its arguments."""
    env: Sequence[str] = ()
    headers: Sequence[str] = ()
    auth: str | None = None
    """`oauth`, or a token."""
    transport: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The file to edit, before the change."""

    path: Path
    text: str = ""
    is_named: bool
    """Whether the user named it; such a file needs no trust."""
    is_own: bool
    """Whether all of its content is trusted or the user's own; it is then trusted after the edit, too."""

    @property
    def is_blank(self) -> bool:
        """Whether it is empty, apart from comments."""
        return all(not line.strip() or line.lstrip().startswith("#") for line in self.text.splitlines())

    def servers(self) -> Mapping[str, JSON]:
        """Its server entries by alias."""
        return {} if self.is_blank else servers_in(self.text, self.path)


def add(settings: SharedOptions, name: str, server: NewServer) -> int:
    """Add the server, move its secrets to `.env`, and print the next step."""
    screen = Screen(settings)
    plain = _entry(name, server)
    target = _target(settings)
    known = target.servers()
    if name in known:
        raise Usage(
            f"{target.path} already has a server {name!r}; to replace it, first run: toolbus remove {name}"
        )
    entry, secrets = _referring(name, plain, known, env_values(target.path.parent))
    trusted = _save(screen, target, _text_with_server(target, name, entry), secrets)
    use = "login" if entry.get("auth") == OAUTH else "tools"
    step = f"toolbus {use} {name}" if trusted or target.is_named else "toolbus trust"
    if screen.as_json:
        held = [{"key": secret.key, "name": secret.name} for secret in secrets]
        facts = {"file": str(target.path), "server": name, "entry": entry, "secrets": held}
        screen.json({**facts, "trusted": trusted})
        return 0
    screen.print(visible(f"added {name} to {target.path}; next: {suggested(step)}"))
    for secret in secrets:
        screen.note(f"{secret.key} is a secret; moved it to {DOTENV}, replaced by ${{{secret.name}}}")
    if secrets and (target.path.parent / ".git").exists():
        screen.note(f"add {DOTENV} to .gitignore to keep it out of version control")
    return 0


def remove(settings: SharedOptions, name: str) -> int:
    """Remove the server."""
    screen = Screen(settings)
    target = _target_with_server(settings, name)
    try:
        after = without_server(target.text, target.path, name)
    except NotEditable as error:
        raise Usage(f"{target.path} {error.problem}: remove the entry {name!r}") from None
    trusted = _save(screen, target, after)
    if screen.as_json:
        screen.json({"file": str(target.path), "server": name, "trusted": trusted})
    else:
        screen.print(visible(f"removed {name} from {target.path}"))
    return 0


def set_enabled(settings: SharedOptions, name: str, *, enabled: bool) -> int:
    """Enable or disable the server."""
    screen = Screen(settings)
    target = _target_with_server(settings, name)
    try:
        after = with_switch(target.text, target.path, name, on=enabled)
    except NotEditable as error:
        flag = json.dumps({"disabled": not enabled})[1:-1]
        raise Usage(f"{target.path} {error.problem}: set {flag} in the entry {name!r}") from None
    changed = after != target.text
    trusted = _save(screen, target, after) if changed else target.is_own
    word = "enabled" if enabled else "disabled"
    if screen.as_json:
        facts = {"file": str(target.path), "server": name, "enabled": enabled, "changed": changed}
        screen.json({**facts, "trusted": trusted})
    else:
        done = f"{word} {name} in {target.path}"
        screen.print(visible(done if changed else f"{name} is already {word} in {target.path}"))
    return 0


def _entry(name: str, server: NewServer) -> dict[str, JSON]:
    """The server's config entry; raises `Usage` or `ConfigError` if it is invalid."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise Usage(f"invalid server name {name!r}; use letters, digits, '_', '-' and '.'")
    if not server.target:
        raise Usage(
            f"missing a URL or a command for {name!r}; run toolbus add {name} https://..., "
            f"or toolbus add {name} -- COMMAND"
        )
    first, *rest = server.target
    entry = _remote(name, first, rest, server) if "://" in first else _local(first, rest, server)
    load_server(entry, alias=name)
    return entry


def _referring(
    name: str, plain: Mapping[str, JSON], known: Mapping[str, JSON], env: dict[str, str]
) -> tuple[dict[str, JSON], Sequence[Secret]]:
    """The entry with references for its secrets, under names that the other entries do not use."""
    referred = (referenced_names(entry) for entry in known.values() if is_mapping(entry))
    token = plain.get("auth")
    is_token = token not in (None, OAUTH)
    entry, secrets = with_references(
        name,
        {key: value for key, value in plain.items() if key != "auth"}
        | ({"auth": {"token": token}} if is_token else {}),
        SecretNames(env),
        avoid=frozenset[str]().union(*referred),
    )
    if token is not None:
        entry["auth"] = entry["auth"]["token"] if is_token else token
    return entry, secrets


def _remote(name: str, url: str, rest: Sequence[str], server: NewServer) -> dict[str, JSON]:
    if rest:
        raise Usage(
            f"unexpected {rest[0]!r} after the URL; to add a command, run toolbus add {name} -- COMMAND"
        )
    if server.env or server.cwd:
        raise Usage(f"{'--env' if server.env else '--cwd'} is for a command, not for a URL")
    entry: dict[str, JSON] = {"transport": server.transport} if server.transport else {}
    entry["url"] = url
    if server.auth is not None:
        entry["auth"] = OAUTH if server.auth.lower() == OAUTH else server.auth
    if server.headers:
        # Also `:`, as in curl.
        entry["headers"] = _pairs(server.headers, "--header", r"\s*[:=]\s*")
    return entry


def _local(command: str, args: Sequence[str], server: NewServer) -> dict[str, JSON]:
    if server.headers or server.auth is not None or server.transport not in (None, "stdio"):
        option = "--header" if server.headers else "--transport" if server.auth is None else "--auth"
        raise Usage(f"{option} is for a URL, and {command!r} is not one; a URL starts with https://")
    is_host = not args and re.match(r"(?:[\w-]+(?:\.[\w-]+)+(?::\d+)?|[\w-]+:\d+)(?:/|$)", command)
    if is_host and shutil.which(command) is None and not Path(command).exists():
        raise Usage(f"{command!r} is not a command on this machine; a URL starts with http:// or https://")
    entry: dict[str, JSON] = {"command": command}
    if args:
        entry["args"] = list(args)
    if server.env:
        entry["env"] = _pairs(server.env, "--env", "=")
    return {**entry, "cwd": server.cwd} if server.cwd else entry


def _pairs(given: Sequence[str], option: str, separator: str) -> dict[str, JSON]:
    pairs: dict[str, JSON] = {}
    for text in given:
        key, *value = re.split(separator, text, maxsplit=1)
        if not key or not value:
            raise Usage(f"{option} takes KEY=VALUE, not {text.partition('=')[0]!r}")
        pairs[key] = value[0]
    return pairs


def _target(settings: SharedOptions) -> _Target:
    """The config in use, or a new file."""
    named = settings.config or named_config()
    path = named
    if path is None:
        try:
            path = find_config()
        except ConfigError:
            path = Path("toolbus.yaml")
    if path.exists():
        content = read_content(path)
        text = content.decode("utf-8", errors="replace")
        target = _Target(
            path=Path(short_path(path)), text=text, is_named=named is not None, is_own=is_trusted(path)
        )
        if not target.is_blank:
            document_in(content, path)
        return target
    is_own = not (path.parent / DOTENV).exists()
    return _Target(path=Path(short_path(path)), is_named=named is not None, is_own=is_own)


def _target_with_server(settings: SharedOptions, name: str) -> _Target:
    """The config in use; raises `Usage` if it has no such server."""
    path = settings.config or find_config()
    if not path.is_file():
        raise Usage(f"{str(path)!r}: no such file; check the path")
    target = _target(settings)
    servers = target.servers()
    if name not in servers:
        close = near_miss(name, servers)
        listed = f"; known servers: {', '.join(servers) or 'none'}"
        raise Usage(f"no server {name!r} in {target.path}{close or listed}")
    return target


def _text_with_server(target: _Target, name: str, entry: Mapping[str, JSON]) -> str:
    """The file's text with the server; if it cannot be edited, `Usage` shows what to paste."""
    if target.is_blank:
        gap = "" if not target.text or target.text.endswith("\n") else "\n"
        return target.text + gap + new_document(target.path, {name: entry})
    try:
        return with_servers(target.text, target.path, {name: entry})
    except NotEditable as error:
        shown = new_document(target.path, {name: entry}).splitlines()
        raise Usage(f"{target.path} {error.problem}:", tuple(shown)) from None


def _save(screen: Screen, target: _Target, after: str, secrets: Sequence[Secret] = ()) -> bool:
    """Write the file and the secrets; return whether the file is trusted afterwards."""
    if (
        _config_error(target.text, target.path) is None
        and (problem := _config_error(after, target.path)) is not None
    ):
        raise Usage(f"the change would make {target.path} invalid: {problem}")
    add_secrets(target.path.parent, secrets)
    save_in_project(target.path, after.encode())
    return target.is_own and trust_written(screen, target.path, after.encode())


def _config_error(text: str, path: Path) -> str | None:
    """The error in the config, if any."""
    try:
        config_in(document_in(text.encode(), path), path)
    except ConfigError as error:
        return ": ".join(
            filter(None, (error.server and f"server {error.server!r}", error.key, error.problem))
        )
    return None
