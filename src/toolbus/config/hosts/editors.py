"""Find the config files of other hosts: editors, desktop apps and command-line agents."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from toolbus.config.hosts.host_files import FILE
from toolbus.config.location import near_miss
from toolbus.core.values.errors import ConfigError


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
    """The files that exist."""
    return sorted(path for path in base.glob(_on(platform, pattern)) if path.is_file())


def _on(platform: str, pattern: str) -> str:
    return pattern.replace("DATA", _DATA.get(platform, _DATA_ELSEWHERE))
