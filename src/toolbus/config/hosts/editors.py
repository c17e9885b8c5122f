"""Other hosts, such as editors and command-line agents: their files, and their way to spell a server."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TypeAlias

from toolbus.config.editing.yaml_json import Steps
from toolbus.config.hosts.translate import FILE, opencode_container
from toolbus.config.location import is_list, is_mapping, near_miss
from toolbus.config.secrets.redact import shown_url
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """A host and its files: in the project's folder, and in the user's home.

    `DATA` is the platform's folder for application data.
    """

    title: str
    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    fills_in_dollars: bool = False
    """Whether the host expands `$NAME` without braces."""
    switches: tuple[str, ...] = ()
    """Other files, in either folder, that disable servers of the project's file."""
    windows: str = ""
    """The user's file on Windows, if it is not the first one of `user`."""


EDITORS: dict[str, Editor] = {
    "claude": Editor(
        title="Claude Desktop",
        user=(
            "DATA/Claude/claude_desktop_config.json",
            # The location on Windows if Claude was installed from the Microsoft Store.
            "AppData/Local/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
    ),
    "claude-code": Editor(
        title="Claude Code",
        project=(".mcp.json",),
        user=(".claude.json",),
        switches=(".claude/settings.json", ".claude/settings.local.json", ".claude.json"),
    ),
    "cursor": Editor(title="Cursor", project=(".cursor/mcp.json",), user=(".cursor/mcp.json",)),
    "vscode": Editor(
        title="VS Code",
        project=(".vscode/mcp.json", ".vscode/settings.json"),
        user=("DATA/Code/User/mcp.json", "DATA/Code/User/settings.json"),
    ),
    "windsurf": Editor(title="Windsurf", user=(".codeium/windsurf/mcp_config.json",)),
    "gemini": Editor(
        title="Gemini CLI",
        project=(".gemini/settings.json",),
        user=(".gemini/settings.json",),
        fills_in_dollars=True,
    ),
    "goose": Editor(
        title="Goose",
        user=(".config/goose/config.yaml", "DATA/Block/goose/config/config.yaml"),
        windows="DATA/Block/goose/config/config.yaml",
    ),
    "codex": Editor(title="Codex", project=(".codex/config.toml",), user=(".codex/config.toml",)),
    "zed": Editor(
        title="Zed",
        project=(".zed/settings.json",),
        user=(".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
        windows="AppData/Roaming/Zed/settings.json",
    ),
    "opencode": Editor(
        title="opencode",
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        user=(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
    ),
}
_DATA = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}
_DATA_ELSEWHERE = ".config"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFile:
    """A file to import: its editor, and the project folder."""

    path: Path
    editor: str = FILE
    """A key of EDITORS, or `file` for a file in any dialect."""
    folder: Path = Path()
    switches: tuple[Path, ...] = ()
    """Other files of the editor that disable servers of this one."""

    @property
    def is_of_project(self) -> bool:
        """Whether it was found in the project, not named by the user; anyone may have put it there."""
        return self.editor != FILE and self.path.is_relative_to(self.folder)


def found_files(editor: str | None, *, home: Path, folder: Path, platform: str) -> list[ImportFile]:
    """The existing files of one editor, or of all; project files first, because they take precedence.

    `platform` is a value of `sys.platform`. ConfigError if the editor is unknown.
    """
    if editor is not None:
        _known(editor)
    found: dict[Path, ImportFile] = {}
    for name in EDITORS if editor is None else (editor,):
        for path in _paths(EDITORS[name], home, folder, platform):
            found.setdefault(path, ImportFile(editor=name, path=path, folder=folder))
        for pattern in EDITORS[name].project if EDITORS[name].switches else ():
            if (source := found.get(folder / pattern)) is not None:
                beside = (base / switch for base in (folder, home) for switch in EDITORS[name].switches)
                switches = tuple(path for path in dict.fromkeys(beside) if path.is_file())
                found[source.path] = replace(source, switches=switches)
    return list(found.values())


def files_here(editor: str | None = None) -> list[ImportFile]:
    """The existing files of one editor, or of all, for this folder and the user's home."""
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():
        home = Path(os.devnull)  # there is no home, and nothing below this
    return found_files(editor, home=home, folder=Path.cwd(), platform=sys.platform)


def user_file(editor: str, *, home: Path, platform: str) -> Path:
    """The editor's file in the user's home that new servers go into; it need not exist.

    ConfigError if the editor is unknown.
    """
    known = _known(editor)
    own = known.windows if platform == "win32" and known.windows else known.user[0]
    # Not a file with another purpose that may have servers, such as VS Code's settings.
    same = [pattern for pattern in known.user if PurePath(pattern).stem == PurePath(own).stem]
    found = (path for pattern in (own, *same) for path in _matching(home, pattern, platform))
    return next(found, home / _on(platform, own))


def is_there(file: Path, home: Path) -> bool:
    """Whether the editor of that file seems to be on this machine: it has the file, or a folder for it."""
    return file.is_file() or (file.parent != home and file.parent.is_dir())


def _known(editor: str) -> Editor:
    if editor not in EDITORS:
        known = ", ".join(EDITORS)
        raise ConfigError(f"unknown editor {editor!r}; known: {known}{near_miss(editor, EDITORS)}")
    return EDITORS[editor]


def _paths(editor: Editor, home: Path, folder: Path, platform: str) -> Iterator[Path]:
    for base, patterns in ((folder, editor.project), (home, editor.user)):
        for pattern in patterns:
            yield from _matching(base, pattern, platform)


def _matching(base: Path, pattern: str, platform: str) -> list[Path]:
    return sorted(path for path in base.glob(_on(platform, pattern)) if path.is_file())


def _on(platform: str, pattern: str) -> str:
    return pattern.replace("DATA", _DATA.get(platform, _DATA_ELSEWHERE))


Entry: TypeAlias = dict[str, JSON]
_URL_KEYS = ("url", "serverUrl", "httpUrl", "uri")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_GOOSE_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgram:
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
    """The place where a host keeps its servers, and the format of an entry there."""

    container: Steps = ("mcpServers",)
    program: Callable[[HostProgram], Entry]
    remote: Callable[[Remote, Mapping[str, str]], Entry] | None = None
    """Takes the URL and the headers; None if the host's file cannot have a URL."""
    variable: str | None = None
    """The host's notation for the variable NAME in a header; None if it has no variables."""


def _plain(program: HostProgram) -> Entry:
    return {"command": program.words[0], "args": list(program.words[1:])}


def _stdio(program: HostProgram) -> Entry:
    return {"type": "stdio", **_plain(program)}


def _url(key: str, **more: JSON) -> Callable[[Remote, Mapping[str, str]], Entry]:

    def entry(remote: Remote, headers: Mapping[str, str]) -> Entry:
        return {**more, key: remote.url} | ({"headers": dict(headers)} if headers else {})

    return entry


def _goose_program(program: HostProgram) -> Entry:
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


def _opencode_program(program: HostProgram) -> Entry:
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
"""The format of a server entry in each of `EDITORS`."""


def container_in(editor: str, document: Mapping[JSON, JSON]) -> Steps:
    """The path to the servers in this document of the editor."""
    return opencode_container(document) if editor == "opencode" else FORMS[editor].container


def entry_for(editor: str, server: HostProgram | Remote) -> Entry | None:
    """The entry in the editor's spelling; None if its file cannot express it."""
    form = FORMS[editor]
    if isinstance(server, HostProgram):
        return form.program(server)
    if form.remote is None or (server.variable and form.variable is None):
        return None
    key = server.key
    if server.variable and form.variable:
        key = form.variable.replace("NAME", server.variable)
    return form.remote(server, {"Authorization": f"Bearer {key}"} if key else {})


def words_of(entry: JSON) -> list[str]:
    """The program and the arguments of an entry of any host; empty if it has no program."""
    if not is_mapping(entry):
        return []
    command = entry.get("command", entry.get("cmd"))
    if is_mapping(command):  # Zed, until 2025
        entry, command = command, command.get("path")
    first = list(command) if is_list(command) else [command] if command else []
    args = entry.get("args")
    return [str(word) for word in [*first, *(args if is_list(args) else ())]]


def url_of(entry: JSON) -> str | None:
    """The URL of an entry of any host, without credentials."""
    found = (entry.get(key) for key in _URL_KEYS) if is_mapping(entry) else ()
    return next((shown_url(url) for url in found if isinstance(url, str)), None)


def is_toolbus(entry: JSON) -> bool:
    """Whether the entry starts `toolbus serve`."""
    words = words_of(entry)
    if "serve" not in words[1:]:
        return False
    return PurePath(words[0].replace("\\", "/")).stem == "toolbus" or words[1:3] == ["-m", "toolbus"]
