"""Write a server the way each host does: the other direction of `translate`, for one entry of ours."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from toolbus.config.editing.yaml_json import Steps
from toolbus.config.hosts.translate import opencode_container
from toolbus.config.location import is_list, is_mapping
from toolbus.config.secrets.redact import shown_url
from toolbus.core.values.records import JSON

Entry: TypeAlias = dict[str, JSON]
_URL_KEYS = ("url", "serverUrl", "httpUrl", "uri")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_GOOSE_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that the host starts."""

    name: str
    """The name of the entry."""
    words: tuple[str, ...]
    """The program and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A URL that the host connects to."""

    name: str
    url: str
    key: str | None = None
    """Sent as a bearer token: the key itself, or `${NAME}` for a variable in the host's environment."""

    @property
    def variable(self) -> str | None:
        """The name of the variable that the key is in."""
        found = _VARIABLE.fullmatch(self.key or "")
        return found[1] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostForm:
    """Where a host keeps its servers, and how it spells them."""

    container: Steps = ("mcpServers",)
    program: Callable[[Program], Entry]
    remote: Callable[[Remote, Mapping[str, str]], Entry] | None = None
    """Takes the headers, too; None if the host's file cannot have a URL."""
    variable: str | None = None
    """How the host spells the variable NAME in a header; None if it has no variables."""


def _plain(program: Program) -> Entry:
    return {"command": program.words[0], "args": list(program.words[1:])}


def _stdio(program: Program) -> Entry:
    return {"type": "stdio", **_plain(program)}


def _url(key: str, **more: JSON) -> Callable[[Remote, Mapping[str, str]], Entry]:
    """An entry with the URL under this key."""

    def entry(remote: Remote, headers: Mapping[str, str]) -> Entry:
        return {**more, key: remote.url} | ({"headers": dict(headers)} if headers else {})

    return entry


def _goose_program(program: Program) -> Entry:
    return _of_goose(program.name, "stdio", cmd=program.words[0], args=list(program.words[1:]))


def _goose_remote(remote: Remote, headers: Mapping[str, str]) -> Entry:
    entry = _of_goose(remote.name, "streamable_http", uri=remote.url)
    entry |= {"headers": dict(headers)} if headers else {}
    return entry | ({"env_keys": [remote.variable]} if remote.variable else {})


def _of_goose(name: str, kind: str, **more: JSON) -> Entry:
    about = {"name": name, "description": "The tools of toolbus"}
    return {"enabled": True, "type": kind, **about, **more, "timeout": _GOOSE_SECONDS}


def _codex_remote(remote: Remote, headers: Mapping[str, str]) -> Entry:
    if remote.variable:
        return {"url": remote.url, "bearer_token_env_var": remote.variable}
    return {"url": remote.url} | ({"http_headers": dict(headers)} if headers else {})


def _opencode_program(program: Program) -> Entry:
    return {"type": "local", "command": list(program.words), "enabled": True}


FORMS: dict[str, HostForm] = {
    "claude": HostForm(program=_plain),
    "claude-code": HostForm(program=_stdio, remote=_url("url", type="http"), variable="${NAME}"),
    "cursor": HostForm(program=_plain, remote=_url("url"), variable="${env:NAME}"),
    "vscode": HostForm(
        container=("servers",), program=_stdio, remote=_url("url", type="http"), variable="${env:NAME}"
    ),
    "windsurf": HostForm(program=_plain, remote=_url("serverUrl"), variable="${env:NAME}"),
    "gemini": HostForm(program=_plain, remote=_url("httpUrl"), variable="${NAME}"),
    "goose": HostForm(
        container=("extensions",), program=_goose_program, remote=_goose_remote, variable="${NAME}"
    ),
    "codex": HostForm(container=("mcp_servers",), program=_plain, remote=_codex_remote, variable="NAME"),
    "zed": HostForm(container=("context_servers",), program=_plain, remote=_url("url")),
    "opencode": HostForm(
        container=("mcp",),
        program=_opencode_program,
        remote=_url("url", type="remote", enabled=True),
        variable="{env:NAME}",
    ),
}
"""How each of `EDITORS` spells a server."""


def container_in(editor: str, document: Mapping[JSON, JSON]) -> Steps:
    """The path to the servers in this document of the editor."""
    return opencode_container(document) if editor == "opencode" else FORMS[editor].container


def entry_for(editor: str, server: Program | Remote) -> Entry | None:
    """The entry in the editor's spelling; None if its file cannot express it."""
    form = FORMS[editor]
    if isinstance(server, Program):
        return form.program(server)
    if form.remote is None or (server.variable and form.variable is None):
        return None
    key = server.key
    if server.variable and form.variable:
        key = form.variable.replace("NAME", server.variable)
    return form.remote(server, {"Authorization": f"Bearer {key}"} if key else {})


def words_of(entry: JSON) -> list[str]:
    """The program and the arguments of an entry, whatever host it is for; empty if it has no program."""
    if not is_mapping(entry):
        return []
    command = entry.get("command", entry.get("cmd"))
    if is_mapping(command):  # Zed, until 2025
        entry, command = command, command.get("path")
    first = list(command) if is_list(command) else [command] if command else []
    args = entry.get("args")
    return [str(word) for word in [*first, *(args if is_list(args) else ())]]


def url_of(entry: JSON) -> str | None:
    """The URL of an entry, whatever host it is for, without credentials."""
    found = (entry.get(key) for key in _URL_KEYS) if is_mapping(entry) else ()
    return next((shown_url(url) for url in found if isinstance(url, str)), None)


def is_toolbus(entry: JSON) -> bool:
    """Whether the entry starts `toolbus serve`."""
    words = words_of(entry)
    if "serve" not in words[1:]:
        return False
    return PurePath(words[0].replace("\\", "/")).stem == "toolbus" or words[1:3] == ["-m", "toolbus"]
