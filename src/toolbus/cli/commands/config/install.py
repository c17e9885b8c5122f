"""`toolbus install`: put `toolbus serve` into the config of an editor or agent, and take it out again."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.commands.config.editor_backups import EditorBackups
from toolbus.cli.completion import editor_names
from toolbus.cli.errors import Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import code_if_unwritten, confirm
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.parameters import WriteUnasked
from toolbus.config.editing.edit import entry_text, host_document, value_at, with_entry, without_entry
from toolbus.config.editing.yaml_json import NotEditable, Steps
from toolbus.config.hosts.editors import (
    EDITORS,
    FORMS,
    Entry,
    HostProgram,
    Remote,
    container_in,
    entry_for,
    is_there,
    is_toolbus,
    url_of,
    user_file,
    words_of,
)
from toolbus.config.hosts.read import read_content
from toolbus.config.secrets.reference import MASK
from toolbus.core.text.text import exact
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

OWNER_ONLY = 0o600
MANY = 3
"""From this many servers on, lazy ones are suggested."""
STATE_STYLES = {"installed": "green", "other": "yellow", "unreadable": "red"}


@command
def install(
    own: Invocation,
    editor: Annotated[
        str | None,
        typer.Argument(
            metavar="EDITOR",
            help="claude, claude-code, cursor, vscode, windsurf, gemini, goose, codex, zed or opencode; "
            "default: list those on this machine.",
            autocompletion=editor_names,
        ),
    ] = None,
    yes: WriteUnasked = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry out again.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the file as it was before the last change.")
    ] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Only print the entry.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the entry.")] = "toolbus",
    view: Annotated[
        str | None, typer.Option("--view", metavar="NAME", help="The view of the config to serve.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Connect to a running gateway instead of starting one."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="'${NAME}'|-",
            help="The key for --url: a variable that the editor reads, or - to read it from stdin.",
        ),
    ] = None,
) -> CommandResult | int:
    """Let an editor or agent use all your servers through toolbus.

    Shows the entry that starts 'toolbus serve --stdio' with this config, and writes it into the editor's
    own config after you agree. A backup of the file is kept, which --undo restores.

    \b
    toolbus install cursor
    toolbus install codex --url https://tools.example.com/mcp --key '${KEY}'
    """
    given = {"--remove": remove, "--undo": undo, "--print": print_only}
    given |= {"--url": url, "--key": key, "--view": view}
    _check(editor, name, {**given, "--yes": yes})
    if editor is None or undo:
        return _list(own.screen, name) if editor is None else _undo(own.screen, editor, yes=yes)
    place = place_of(editor, name)
    if remove:
        return _remove(own.screen, place, yes=yes)
    if url is not None:
        remote = Remote(name=name, url=url, key=_read_key() if key == "-" else key)
        entry = _remote_entry(place, remote)
    else:
        remote, entry = None, _own_entry(own, place, view, is_used=not print_only)
    if print_only:
        return _printed(own.screen, place, entry)
    return _install(own.screen, place, entry, remote, yes=yes)


def _check(editor: str | None, name: str, given: Mapping[str, str | bool | None]) -> None:
    """Raise `Usage` for options that are invalid, or do not fit together."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise Usage(f"invalid name {name!r}; use letters, digits, '_' and '-'")
    used = [option for option, value in given.items() if value]
    if editor is None and used:
        raise Usage(f"{used[0]} needs an editor; name one of {', '.join(EDITORS)}")
    for option in ("--remove", "--undo"):
        if given[option] and (other := [one for one in used if one not in (option, "--yes")]):
            raise Usage(f"{option} and {other[0]} cannot be combined; keep one")
    url = given["--url"]
    if given["--key"] and not url:
        raise Usage("--key is for a running gateway; add --url")
    if given["--view"] and url:
        raise Usage("--view is for a gateway that the editor starts; name the view in the URL: .../mcp/VIEW")
    if url and not re.fullmatch(r"https?://\S+", str(url)):
        raise Usage(f"{url!r} is not a URL; it starts with http:// or https://")


def _read_key() -> str:
    """The key from stdin, or typed on the terminal without being shown."""
    key = getpass("Key: ").strip() if can_ask() else sys.stdin.readline().strip()
    if not key:
        raise Usage("no key on stdin; pipe it in, or run it on a terminal")
    return key


def _remote_entry(place: "EditorFile", remote: Remote) -> Entry:
    """The entry for a running gateway, in the editor's spelling."""
    if FORMS[place.editor].remote is None:
        raise Usage(
            f"the config of {place.title} has no place for a URL; leave out --url, and it starts toolbus"
        )
    if (entry := entry_for(place.editor, remote)) is None:
        raise Usage(f"{place.title} reads no variables in headers; pass the key itself: --key -")
    return entry


def _own_entry(own: Invocation, place: "EditorFile", view: str | None, *, is_used: bool) -> Entry:
    """The entry for a gateway that the editor starts, in its spelling."""
    # The editor will name the file, and a named file is used without asking; so it is asked about now.
    config = own.config if is_used else own.untrusted_config
    if config.file is None:
        raise ConfigError("the config is not a file; pass one with --config")
    chosen = {"--profile": own.settings.profile, "--view": view}
    shown = [word for option, name in chosen.items() if name is not None for word in (option, name)]
    eager = [alias for alias, server in config.servers.items() if not server.lazy]
    if is_used and len(eager) >= MANY:
        own.screen.note(
            f"{len(eager)} servers start whenever {place.title} does; with lazy: true in {config.file}, a "
            "server starts at its first call"
        )
    words = (*_program(), "serve", "--stdio", "--config", os.path.abspath(config.file), *shown)
    entry = entry_for(place.editor, HostProgram(name=place.name, words=words))
    assert entry is not None, "every editor starts programs"
    return entry


def _program() -> tuple[str, ...]:
    """The absolute path of this program; links are kept, because they outlive an update."""
    suffix = ".exe" if sys.platform == "win32" else ""
    beside = Path(sys.executable).with_name(f"toolbus{suffix}")
    for path in (shutil.which(sys.argv[0]), str(beside)):
        if path is not None and Path(path).stem == "toolbus" and os.access(path, os.X_OK):
            return (os.path.abspath(path),)
    return (sys.executable, "-m", "toolbus")


def _install(
    screen: Screen, place: "EditorFile", entry: Entry, remote: Remote | None, *, yes: bool
) -> CommandResult | int:
    has_key = remote is not None and remote.key is not None and remote.variable is None
    shown = _masked(entry) if has_key else entry
    if place.present == entry:
        return _outcome(screen, place, "present", shown, f"{place.name} is already in {place.shown}")
    replaces = place.present is not None
    if replaces and yes and not _is_same_server(place.present, entry):
        raise Usage(
            f"{place.shown} has another entry {place.name!r}, {place.described}; pass another --name, "
            "or leave out --yes to be asked"
        )
    if not yes and not _agreed(screen, place, shown):
        return _outcome(screen, place, "nothing", shown)
    try:
        after = with_entry(place.text, place.file, place.container, place.name, entry)
    except NotEditable as error:
        lines = tuple(place.document(shown).splitlines())
        raise Usage(f"{place.shown} {error.problem}:", lines) from None
    backup = EditorBackups(place.file).change(after.encode(), OWNER_ONLY if has_key else None)
    done = f"replaced {place.name} in" if replaces else f"added {place.name} to"
    message = f"{done} {place.shown}; restart {place.title} to use it"
    screen.show(*_outcome(screen, place, "replaced" if replaces else "added", shown, message, backup)[:2])
    _note_backup(screen, place, backup)
    if remote is not None and (variable := remote.variable):
        screen.note(f"set {variable} to the key where {place.title} starts")
    return 0


def _is_same_server(present: JSON, entry: Entry) -> bool:
    """Whether both are entries for toolbus."""
    return is_toolbus(present) or (url_of(present) is not None and url_of(present) == url_of(entry))


def _masked(entry: Entry) -> Entry:
    """The entry without the key."""
    return {
        name: dict.fromkeys(value, f"Bearer {MASK}") if name in ("headers", "http_headers") else value
        for name, value in entry.items()
    }


def _agreed(screen: Screen, place: "EditorFile", shown: Entry) -> bool:
    """Show the entry, and ask whether to write it; False without a terminal."""
    if screen.as_json:
        return False
    if place.present is not None:
        screen.note(f"{place.shown} has an entry {place.name!r}, {place.described}")
    elif not is_there(place.file, home_folder()):
        screen.note(f"no {place.title} found on this machine; {place.shown} would be new")
    screen.line(visible(place.document(shown).rstrip("\n")))
    question = "Replace it with this" if place.present is not None else f"Add this to {place.shown}"
    return can_ask() and confirm(f"{question}? [y/N]: ")


def _remove(screen: Screen, place: "EditorFile", *, yes: bool) -> CommandResult | int:
    if place.present is None:
        return _outcome(screen, place, "absent", None, f"{place.name} is not in {place.shown}")
    if not is_toolbus(place.present) and url_of(place.present) is None:
        raise Usage(
            f"the entry {place.name!r} in {place.shown} is not for toolbus, {place.described}; "
            "remove it by hand"
        )
    if not yes:
        if not screen.as_json:
            screen.note(f"{place.shown} has an entry {place.name!r}, {place.described}")
        if screen.as_json or not can_ask() or not confirm("Remove it? [y/N]: "):
            return _outcome(screen, place, "nothing", None)
    try:
        after = without_entry(place.text, place.file, place.container, place.name)
    except NotEditable as error:
        raise Usage(f"{place.shown} {error.problem}: remove the entry {place.name!r}") from None
    backup = EditorBackups(place.file).change(after.encode())
    screen.show(
        *_outcome(screen, place, "removed", None, f"removed {place.name} from {place.shown}", backup)[:2]
    )
    _note_backup(screen, place, backup)
    return 0


def _note_backup(screen: Screen, place: "EditorFile", backup: Path | None) -> None:
    if not screen.as_json:
        what = "the file is new" if backup is None else f"backup: {shown_path(backup)}"
        screen.note(f"{what}; to undo this, run: toolbus install {place.editor} --undo")


def _undo(screen: Screen, editor: str, *, yes: bool) -> CommandResult:
    """Restore the file as it was before the last change, unless somebody has changed it since."""
    file = user_file(editor, home=home_folder(), platform=sys.platform)
    backups, title, shown = EditorBackups(file), EDITORS[editor].title, shown_path(file)
    if (change := backups.latest) is None:
        raise Usage(f"there is nothing to undo: toolbus install has not changed {shown}")
    document: dict[str, JSON] = {"editor": editor, "file": str(file), "done": "nothing"}
    when = datetime.fromtimestamp(change.at).astimezone().strftime("%Y-%m-%d %H:%M")
    lost = backups.since(change)
    if lost is not None and not yes:
        if not screen.as_json:
            screen.note(
                f"{shown} has changed since {when}; this would be lost: {', '.join(map(exact, lost))}"
            )
        if screen.as_json or not can_ask() or not confirm("Restore it anyway? [y/N]: "):
            step = f"{shown} was not restored; take the entry out with --remove, or pass --yes"
            return CommandResult(
                {**document, "lost": lost}, lambda: screen.note(step), code_if_unwritten(screen)
            )
    backups.undo(change)
    done = "removed" if change.mode is None else "restored"
    line = f"restored {shown} as it was before {when}" if change.mode is not None else f"removed {shown}"
    return CommandResult({**document, "done": done, "lost": lost or []}, f"{line}; restart {title}")


def _printed(screen: Screen, place: "EditorFile", entry: Entry) -> CommandResult:
    """The entry, to be put into the file by hand."""

    def lines() -> None:
        screen.note(f"for {place.title}, in {place.shown}:")
        print(place.document(entry), end="")

    return _outcome(screen, place, "printed", entry)._replace(lines=lines)


def _outcome(
    screen: Screen,
    place: "EditorFile",
    done: str,
    entry: Entry | None,
    message: str = "",
    backup: Path | None = None,
) -> CommandResult:
    """The result: the entry, and how it was changed."""
    document = {
        "editor": place.editor,
        "file": str(place.file),
        "name": place.name,
        "done": done,
        "entry": entry,
        **({"backup": str(backup)} if backup else {}),
    }
    if done != "nothing":
        return CommandResult(document, message)
    unchanged = f"{place.shown} was not changed; to change it without being asked, pass --yes"
    return CommandResult(document, lambda: screen.note(unchanged), code_if_unwritten(screen))


def _list(screen: Screen, name: str) -> CommandResult:
    """The editors on this machine, and what they have under that name."""
    rows = [(editor, file, *_state(editor, name)) for editor, file in found_editors()]

    def lines() -> None:
        if not rows:
            screen.note(f"no editor found on this machine; toolbus knows {', '.join(EDITORS)}")
            return
        screen.rows(
            [
                (
                    (editor, "bold"),
                    shown_path(file),
                    (
                        visible(f"{state}: {detail.removeprefix('which ')}".removesuffix(": ")),
                        STATE_STYLES.get(state, "dim"),
                    ),
                )
                for editor, file, state, detail in rows
            ],
            indent=0,
        )
        if all(state == "absent" for *_, state, _ in rows):
            screen.note(f"next: toolbus install {rows[0][0]}")

    found = [
        {"editor": editor, "file": str(file), "state": state, "detail": detail}
        for editor, file, state, detail in rows
    ]
    return CommandResult({"name": name, "editors": found}, lines)


def _state(editor: str, name: str) -> tuple[str, str]:
    """`installed`, `absent`, `other` or `unreadable`, and what the entry is for."""
    try:
        place = place_of(editor, name)
    except ConfigError as error:
        return "unreadable", error.problem
    if place.present is None:
        return "absent", ""
    is_ours = is_toolbus(place.present) or url_of(place.present) is not None
    return "installed" if is_ours else "other", place.described


# The file of an editor, and the entry of one name in it


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorFile:
    """The file that an editor keeps the user's servers in, as it is now."""

    editor: str
    file: Path
    name: str
    """The name of the entry."""
    text: str
    container: Steps
    present: JSON
    """The current entry; None if there is none."""

    @property
    def title(self) -> str:
        """The name of the editor."""
        return EDITORS[self.editor].title

    @property
    def shown(self) -> str:
        """The path for messages."""
        return shown_path(self.file)

    @property
    def described(self) -> str:
        """The purpose of the present entry, without its secrets."""
        if url := url_of(self.present):
            return f"for {url}"
        words = words_of(self.present)
        if is_toolbus(self.present):
            return f"which serves {_config_of(words)}"
        return f"which starts {exact(words[0])}" if words else "of another kind"

    def document(self, entry: Entry) -> str:
        """The text of such a file with only this entry."""
        return entry_text(self.file, self.container, self.name, entry)


def home_folder() -> Path:
    """The home of the user; raises `Usage` if there is none."""
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():
        raise Usage("you have no home folder; set HOME")
    return home


def shown_path(file: Path) -> str:
    """The path for messages, below `~` if it is in the home."""
    home = home_folder()
    return exact(str(Path("~", file.relative_to(home)) if file.is_relative_to(home) else file))


def place_of(editor: str, name: str) -> EditorFile:
    """The place of that name; ConfigError if the editor is unknown, or its file cannot be read."""
    file = user_file(editor, home=home_folder(), platform=sys.platform)
    text = read_content(file).decode("utf-8", errors="replace") if file.exists() else ""
    document = host_document(text, file)
    container = container_in(editor, document)
    present = value_at(document, (*container, name))
    return EditorFile(editor=editor, file=file, name=name, text=text, container=container, present=present)


def found_editors() -> Iterator[tuple[str, Path]]:
    """The editors that seem to be on this machine, each with its file."""
    for editor in EDITORS:
        file = user_file(editor, home=home_folder(), platform=sys.platform)
        if is_there(file, home_folder()):
            yield editor, file


def _config_of(words: list[str]) -> str:
    following = words[words.index("--config") + 1 :] if "--config" in words else []
    return shown_path(Path(following[0])) if following else "the config that it finds"
