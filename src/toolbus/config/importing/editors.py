"""Find what other hosts have configured, and give it in our words, with no secret left in it.

Nothing is written and nothing is started. One bad entry never stops the others: it is left out, with a note.
"""

import os.path
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolbus.config.entry import IGNORED, checked_timeouts, is_switched_off, long_form
from toolbus.config.importing.hosts import FILE, host_config, switched_off_by
from toolbus.config.importing.translate import SET_IT, HostConfig, left_out
from toolbus.config.load import load_config, load_server
from toolbus.config.location import Location, is_list, is_mapping, near_miss
from toolbus.config.model import ServerConfig
from toolbus.config.read import read_document
from toolbus.config.secrets.literals import TEXTS, Secret, SecretNames, referenced_names, with_references
from toolbus.core.errors import ConfigError
from toolbus.core.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """A host and its files: below the project's folder, and below the user's home.

    `DATA` is where programs keep their data on a platform.
    """

    title: str
    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    fills_in_dollars: bool = False
    """Whether `$NAME` without braces is a reference there."""
    switches: tuple[str, ...] = ()
    """Other files, below either folder, that keep servers of the project's file from starting."""


EDITORS: dict[str, Editor] = {
    "claude": Editor(
        title="Claude Desktop",
        user=(
            "DATA/Claude/claude_desktop_config.json",
            # Where Windows keeps it when Claude came from its shop.
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
    ),
    "codex": Editor(title="Codex", project=(".codex/config.toml",), user=(".codex/config.toml",)),
    "zed": Editor(
        title="Zed",
        project=(".zed/settings.json",),
        user=(".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    ),
    "opencode": Editor(
        title="opencode",
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        user=(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
    ),
}
_DATA = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}
_DATA_ELSEWHERE = ".config"

# What an editor fills in from what is open in it.
_EDITOR_ONLY = ("workspaceFolderBasename", "pathSeparator", "fileDirname", "execPath", "selectedText")
# Keys that have been looked at when the rest of an entry is.
_SETTLED = ("enabled", "disabled", "connection")
# How hosts say that somebody signs in to a server in a browser.
_SIGN_IN = ("oauth", "authentication", "authProviderType")
_INPUT = r"(?<!\$)\$\{input:([^}:]+)\}"
_TOKEN = "set auth, or an Authorization header, to a token"
_ABSOLUTE = re.compile(r"[/\\~$]|[A-Za-z]:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFile:
    """A file to import: whose it is, and the project it is looked at from."""

    path: Path
    editor: str = FILE
    """A key of EDITORS, or `file` for a file in any dialect."""
    folder: Path = Path()
    switches: tuple[Path, ...] = ()
    """Other files of the editor that keep servers of this one from starting."""

    @property
    def is_of_project(self) -> bool:
        """Whether it was found in the project, and not named: anybody may have put it there."""
        return self.editor != FILE and self.path.is_relative_to(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The servers of a file in our words; the secrets that stood in them; what was left out or changed."""

    source: ImportFile
    servers: Mapping[str, Mapping[str, JSON]] = field(repr=False)
    secrets: tuple[Secret, ...]
    notes: tuple[str, ...]


def found_files(editor: str | None, *, home: Path, folder: Path, platform: str) -> list[ImportFile]:
    """The files of one editor, or of all, that exist; those of the project first, since they win there.

    `platform` is as `sys.platform` has it. ConfigError if nobody knows the editor.
    """
    if editor is not None and editor not in EDITORS:
        known = ", ".join(EDITORS)
        raise ConfigError(f"unknown editor {editor!r}; known are {known}{near_miss(editor, EDITORS)}")
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


def imported(source: ImportFile, *, taken: Mapping[str, str] | None = None) -> Imported:
    """The servers of the file, ready to be written; ConfigError if it cannot be read.

    `taken` are names that stand for a value already, such as those of files imported before: no reference
    gets one of them for another value.
    """
    location = Location(file=str(source.path))
    found = host_config(
        read_document(source.path), host=source.editor, folder=source.folder, location=location
    )
    notes = list(found.notes)
    found = replace(found, off=found.off | _refused(source, notes))
    plain = _converted(found, source, location, notes)
    names = SecretNames({**(taken or {})})
    referred = {alias: referenced_names(entry) for alias, entry in plain.items()}
    servers: dict[str, Mapping[str, JSON]] = {}
    secrets: list[Secret] = []
    for alias, entry in plain.items():
        others = frozenset[str]().union(*(referred[other] for other in plain if other != alias))
        servers[alias], new = with_references(alias, entry, names, avoid=others)
        secrets += new
    return Imported(source=source, servers=servers, secrets=tuple(secrets), notes=tuple(notes))


def _refused(source: ImportFile, notes: list[str]) -> frozenset[str]:
    """The servers that other files of the editor keep from starting."""
    names: set[str] = set()
    for path in source.switches:
        try:
            names |= switched_off_by(path, source.folder)
        except ConfigError as error:
            notes.append(f"which servers are switched off is not known: {error}")
    return frozenset(names)


def _paths(editor: Editor, home: Path, folder: Path, platform: str) -> Iterator[Path]:
    data = _DATA.get(platform, _DATA_ELSEWHERE)
    for base, patterns in ((folder, editor.project), (home, editor.user)):
        for pattern in patterns:
            yield from sorted(path for path in base.glob(pattern.replace("DATA", data)) if path.is_file())


def _converted(
    found: HostConfig, source: ImportFile, location: Location, notes: list[str]
) -> dict[str, dict[str, JSON]]:
    """The entries in our words; those that are wrong are left out."""
    settings = {key: value for key, value in found.settings.items() if value is not None}
    if settings.pop("naming", "auto") != "auto":
        notes.append("naming was left out: it is said once for all servers")
    if settings.pop("context", None):
        notes.append("context was left out: it names servers, which may have other names here")
    settings.pop("context_budget", None)
    checked_timeouts(settings.get("timeouts", {}), location)
    enabled = settings.pop("enabled_servers", None)
    wanted = found.entries if enabled is None else location.names(enabled, "enabled_servers")
    lists = location.mapping(settings.pop("tool_allowlist", {}), "tool_allowlist")
    for name in (*wanted, *lists):
        if name not in found.entries:  # a list that is for nobody would leave the tools of somebody open
            raise location.error(f"no server has the alias {name!r}{near_miss(name, found.entries)}")
    result: dict[str, dict[str, JSON]] = {}
    for alias, entry in found.entries.items():
        here = {**settings, "tool_allowlist": {alias: lists[alias]}} if alias in lists else settings
        try:
            flat = long_form(entry, Location())
            is_off = alias in found.off or alias not in wanted or is_switched_off(flat, Location())
            on = {
                key: value for key, value in flat.items() if key not in _SETTLED and not _signs_in(key, value)
            }
            config = load_config({**here, "servers": {alias: on}}).servers[alias]
        except ConfigError as error:
            notes.append(left_out(alias, error))
            continue
        result[alias] = _plain(config, source, found.defaults, notes)
        notes += _asked(alias, config, found.defaults)
        notes += _remarks(alias, flat, config, source)
        if is_off:
            result[alias]["enabled"] = False
            notes.append(f"server {alias!r} is switched off, and stays so: enabled is false")
    return result


def _plain(
    config: ServerConfig, source: ImportFile, defaults: Mapping[str, str], notes: list[str]
) -> dict[str, JSON]:
    """The server as a person would write it: what follows from the rest, or is the default, is not said."""
    dumped = config.model_dump(mode="json", exclude_defaults=True, exclude={"alias", "server"})
    entry: dict[str, JSON] = {key: _whole_numbers(value) for key, value in dumped.items()}
    said = entry.pop("transport")
    if load_server(entry, alias=config.alias).transport != said:
        entry = {"transport": said, **entry}
    if isinstance(verify := entry.get("verify"), str):
        entry["verify"] = os.path.join(source.path.absolute().parent, verify)
    if source.editor in EDITORS and EDITORS[source.editor].fills_in_dollars:
        braced = {key: _mapped(entry[key], _braced) for key in TEXTS if key in entry}
        if any(braced[key] != entry[key] for key in braced):
            notes.append(f"server {config.alias!r}: $NAME became ${{NAME}}, as it is written here")
        entry |= braced
    return {**entry, **{key: _mapped(entry[key], _defaulting(defaults)) for key in TEXTS if key in entry}}


def _remarks(
    alias: str, entry: Mapping[JSON, JSON], config: ServerConfig, source: ImportFile
) -> Iterator[str]:
    """What somebody should know about a server that comes over."""
    if unused := [key for key, value in entry.items() if key in IGNORED - {*_SIGN_IN} and value]:
        yield f"server {alias!r}: left out what has no meaning here: {', '.join(unused)}"
    has_token = config.auth is not None or any(name.lower() == "authorization" for name in config.headers)
    if not has_token and any(_signs_in(key, value) for key, value in entry.items()):
        yield f"server {alias!r}: its sign-in in the browser does not come over; {_TOKEN}"
    texts = " ".join(text for _, text in config.texts())
    for name in dict.fromkeys(re.findall(r"(?<!\$)\$\{(\w+)\}", texts)):
        if name in _EDITOR_ONLY:
            yield f"server {alias!r}: only an editor knows ${{{name}}}; write its value in its location"
    for key, path in (("cwd", config.cwd), ("env_file", config.env_file)):
        if source.editor == FILE and path and not _ABSOLUTE.match(path):
            yield f"server {alias!r}: {key} is a relative path; it now starts at the folder of the new file"


def _whole_numbers(value: JSON) -> JSON:
    """30 for 30.0, also one level below."""
    if is_mapping(value):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _signs_in(key: JSON, value: JSON) -> bool:
    """Whether the key of an entry says that somebody signs in to the server in a browser."""
    if key == "auth":  # Cursor has a mapping with CLIENT_ID, FastMCP the word
        return value == "oauth" or (is_mapping(value) and not {"type", "token"} & value.keys())
    return key in _SIGN_IN and bool(value)


def _asked(alias: str, config: ServerConfig, defaults: Mapping[str, str]) -> Iterator[str]:
    """What the editor asked its user for."""
    texts = " ".join(text for _, text in config.texts())
    for name in dict.fromkeys(re.findall(_INPUT, texts)):
        otherwise = ", or its default is used" if _is_usable(defaults.get(name)) else ""
        yield f"server {alias!r}: the editor asked for {name!r}; {SET_IT}{otherwise}"


def _is_usable(default: str | None) -> bool:
    """Whether it can stand in a reference, which ends at the first brace."""
    return bool(default) and not re.search(r"\}|\$\{", default)


def _defaulting(defaults: Mapping[str, str]) -> Callable[[str], str]:
    """Fills the defaults of the editor into the references to its inputs."""

    def filled(found: re.Match[str]) -> str:
        default = defaults.get(found[1])
        return f"${{input:{found[1]}:-{default}}}" if _is_usable(default) else found[0]

    return lambda text: re.sub(_INPUT, filled, text)


def _mapped(value: JSON, change: Callable[[str], str]) -> JSON:
    """The value with every text in it changed."""
    if is_mapping(value):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    return [_mapped(inner, change) for inner in value] if is_list(value) else change(value)


def _braced(text: str) -> str:
    """The text with `${NAME}` for `$NAME`."""
    return re.sub(
        r"\$\$\{|\$\{[^}]*\}|(?<!\$)\$([A-Za-z_]\w*)", lambda m: f"${{{m[1]}}}" if m[1] else m[0], text
    )
