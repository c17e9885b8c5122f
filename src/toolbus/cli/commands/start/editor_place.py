"""An editor's file on this machine, and the entry of one name in it."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolbus.cli.errors import Usage
from toolbus.cli.output.screen import exact
from toolbus.config.editing.edit import entry_text, host_document, value_at
from toolbus.config.editing.yaml_json import Steps
from toolbus.config.hosts.editors import (
    EDITORS,
    Entry,
    container_in,
    is_there,
    is_toolbus,
    url_of,
    user_file,
    words_of,
)
from toolbus.config.hosts.read import read_content
from toolbus.core.values.records import JSON


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
    """The entry that is there now; None if there is none."""

    @property
    def title(self) -> str:
        """What the editor is called."""
        return EDITORS[self.editor].title

    @property
    def shown(self) -> str:
        """The path for messages."""
        return shown_path(self.file)

    @property
    def described(self) -> str:
        """What the present entry is for, without its secrets."""
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
