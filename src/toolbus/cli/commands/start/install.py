"""`toolbus install`: put `toolbus serve` into the config of an editor or agent, and take it out again."""

import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from getpass import getpass
from pathlib import Path

from rich.text import Text

from toolbus.cli.commands.safety.trust import confirm
from toolbus.cli.commands.start.editor_place import (
    EditorFile,
    found_editors,
    home_folder,
    place_of,
    shown_path,
)
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.session import load_trusted_config, load_untrusted_config
from toolbus.config.editing.edit import with_entry, without_entry
from toolbus.config.editing.save import save
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.hosts.editors import (
    EDITORS,
    FORMS,
    Entry,
    HostProgram,
    Remote,
    entry_for,
    is_there,
    is_toolbus,
    url_of,
)
from toolbus.config.secrets.reference import MASK
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

OWNER_ONLY = 0o600
STATE_STYLES = {"installed": "green", "other": "yellow", "unreadable": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """The options of `install`."""

    name: str = "toolbus"
    url: str | None = None
    key: str | None = None
    """The key itself, or `${NAME}` for a variable."""
    view: str | None = None
    yes: bool = False
    remove: bool = False
    print_only: bool = False

    @property
    def remote(self) -> Remote | None:
        """The gateway to connect to; None if the editor starts one."""
        return None if self.url is None else Remote(name=self.name, url=self.url, key=self.key)

    @property
    def has_literal_key(self) -> bool:
        """Whether the entry contains the key."""
        return self.remote is not None and self.key is not None and self.remote.variable is None


def run(settings: SharedOptions, editor: str | None, options: InstallOptions) -> int:
    """List the editors on this machine; or add the entry to one of them, or remove it."""
    _check(editor, options)
    screen = Screen(settings)
    if editor is None:
        return _list(screen, options.name)
    place = place_of(editor, options.name)
    if options.remove:
        return _remove(screen, place, options)
    if options.key == "-":
        options = replace(options, key=_read_key())
    entry = _entry(settings, place, options)
    if options.print_only:
        return _print(screen, place, entry)
    return _install(screen, place, entry, options)


def _check(editor: str | None, options: InstallOptions) -> None:
    """Raise `Usage` for options that do not fit together."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", options.name):
        raise Usage(f"invalid name {options.name!r}; use letters, digits, '_' and '-'")
    given = {
        "--remove": options.remove,
        "--print": options.print_only,
        "--url": options.url,
        "--key": options.key,
        "--view": options.view,
        "--yes": options.yes,
    }
    used = [option for option, value in given.items() if value]
    if editor is None and used:
        raise Usage(f"{used[0]} needs an editor; name one of {', '.join(EDITORS)}")
    if options.remove and (other := [one for one in used if one not in ("--remove", "--yes")]):
        raise Usage(f"--remove and {other[0]} cannot be combined; keep one")
    if options.key and not options.url:
        raise Usage("--key is for a running gateway; add --url")
    if options.view and options.url:
        raise Usage("--view is for a gateway that the editor starts; name the view in the URL: .../mcp/VIEW")
    if options.url and not re.fullmatch(r"https?://\S+", options.url):
        raise Usage(f"{options.url!r} is not a URL; it starts with http:// or https://")


def _read_key() -> str:
    """The key from stdin, or typed on the terminal without being shown."""
    key = getpass("Key: ").strip() if can_ask() else sys.stdin.readline().strip()
    if not key:
        raise Usage("no key on stdin; pipe it in, or run it on a terminal")
    return key


def _entry(settings: SharedOptions, place: EditorFile, options: InstallOptions) -> Entry:
    """The entry in the editor's spelling."""
    if (remote := options.remote) is not None:
        if FORMS[place.editor].remote is None:
            raise Usage(
                f"the config of {place.title} has no place for a URL; leave out --url, and it starts toolbus"
            )
        if (entry := entry_for(place.editor, remote)) is None:
            raise Usage(f"{place.title} reads no variables in headers; pass the key itself: --key -")
        return entry
    # The editor will name the file, and a named file is used without asking; so it is asked about now.
    config = load_untrusted_config(settings) if options.print_only else load_trusted_config(settings)
    if config.file is None:
        raise ConfigError("the config is not a file; pass one with --config")
    view = () if options.view is None else ("--view", options.view)
    words = (*_program(), "serve", "--stdio", "--config", os.path.abspath(config.file), *view)
    entry = entry_for(place.editor, HostProgram(name=options.name, words=words))
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


def _install(screen: Screen, place: EditorFile, entry: Entry, options: InstallOptions) -> int:
    shown = _masked(entry) if options.has_literal_key else entry
    if place.present == entry:
        return _report(screen, place, "present", shown, f"{place.name} is already in {place.shown}")
    replaces = place.present is not None
    if replaces and options.yes and not _is_same_server(place.present, entry):
        raise Usage(
            f"{place.shown} has another entry {place.name!r}, {place.described}; pass another --name, "
            "or leave out --yes to be asked"
        )
    if not options.yes and not _agreed(screen, place, shown):
        return _report(screen, place, "nothing", shown)
    try:
        after = with_entry(place.text, place.file, place.container, place.name, entry)
    except NotEditable as error:
        lines = tuple(place.document(shown).splitlines())
        raise Usage(f"{place.shown} {error.problem}:", lines) from None
    place.file.parent.mkdir(parents=True, exist_ok=True)
    save(place.file, after.encode(), mode=OWNER_ONLY if options.has_literal_key else None)
    done = f"replaced {place.name} in" if replaces else f"added {place.name} to"
    message = f"{done} {place.shown}; restart {place.title} to use it"
    code = _report(screen, place, "replaced" if replaces else "added", shown, message)
    if options.remote is not None and (variable := options.remote.variable):
        screen.note(f"set {variable} to the key where {place.title} starts")
    return code


def _is_same_server(present: JSON, entry: Entry) -> bool:
    """Whether both are entries for toolbus."""
    return is_toolbus(present) or (url_of(present) is not None and url_of(present) == url_of(entry))


def _masked(entry: Entry) -> Entry:
    """The entry without the key."""
    return {
        name: dict.fromkeys(value, f"Bearer {MASK}") if name in ("headers", "http_headers") else value
        for name, value in entry.items()
    }


def _agreed(screen: Screen, place: EditorFile, shown: Entry) -> bool:
    """Show the entry, and ask whether to write it; False without a terminal."""
    if screen.as_json:
        return False
    if place.present is not None:
        screen.note(f"{place.shown} has an entry {place.name!r}, {place.described}")
    elif not is_there(place.file, home_folder()):
        screen.note(f"no {place.title} found on this machine; {place.shown} would be new")
    screen.print(Text(visible(place.document(shown).rstrip("\n"))))
    question = "Replace it with this" if place.present is not None else f"Add this to {place.shown}"
    return can_ask() and confirm(f"{question}? [y/N]: ")


def _remove(screen: Screen, place: EditorFile, options: InstallOptions) -> int:
    if place.present is None:
        return _report(screen, place, "absent", None, f"{place.name} is not in {place.shown}")
    if not is_toolbus(place.present) and url_of(place.present) is None:
        raise Usage(
            f"the entry {place.name!r} in {place.shown} is not for toolbus, {place.described}; "
            "remove it by hand"
        )
    if not options.yes:
        if not screen.as_json:
            screen.note(f"{place.shown} has an entry {place.name!r}, {place.described}")
        if screen.as_json or not can_ask() or not confirm("Remove it? [y/N]: "):
            return _report(screen, place, "nothing", None)
    try:
        after = without_entry(place.text, place.file, place.container, place.name)
    except NotEditable as error:
        raise Usage(f"{place.shown} {error.problem}: remove the entry {place.name!r}") from None
    save(place.file, after.encode())
    return _report(screen, place, "removed", None, f"removed {place.name} from {place.shown}")


def _print(screen: Screen, place: EditorFile, entry: Entry) -> int:
    """Print what to put into the file."""
    if screen.as_json:
        return _report(screen, place, "printed", entry)
    screen.note(f"for {place.title}, in {place.shown}:")
    print(place.document(entry), end="")
    return 0


def _report(screen: Screen, place: EditorFile, done: str, entry: Entry | None, message: str = "") -> int:
    """Print what was done; the exit code."""
    if screen.as_json:
        facts = {"editor": place.editor, "file": str(place.file), "name": place.name}
        screen.json({**facts, "done": done, "entry": entry})
    elif done == "nothing":
        screen.note(f"{place.shown} was not changed; to change it without being asked, pass --yes")
    else:
        screen.print(Text(visible(message)))
    return FAILED if done == "nothing" else 0


def _list(screen: Screen, name: str) -> int:
    """Show the editors on this machine, and what they have under that name."""
    rows = [(editor, file, *_state(editor, name)) for editor, file in found_editors()]
    if screen.as_json:
        keys = ("editor", "file", "state", "detail")
        found = [dict(zip(keys, (row[0], str(row[1]), *row[2:]), strict=True)) for row in rows]
        screen.json({"name": name, "editors": found})
        return 0
    if not rows:
        screen.note(f"no editor found on this machine; toolbus knows {', '.join(EDITORS)}")
        return 0
    screen.rows(
        [
            (
                Text(editor, style="bold"),
                Text(shown_path(file)),
                Text(visible(f"{state} {detail}".strip()), style=STATE_STYLES.get(state, "dim")),
            )
            for editor, file, state, detail in rows
        ],
        indent=0,
    )
    if all(state == "absent" for *_, state, _ in rows):
        screen.note(f"next: toolbus install {rows[0][0]}")
    return 0


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
