"""Backups of an editor's file, made before `toolbus install` changes it, in the user's state folder."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolbus.config.editing.edit import host_document
from toolbus.config.editing.save import save
from toolbus.config.location import is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON
from toolbus.state.files import state_folder

MOST_BACKUPS = 5
"""Changes of one file that can be undone."""
_INDEX = "changes.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A change of a file; its content before and after is beside the index."""

    at: float
    name: str
    """The name that its two copies begin with."""
    mode: int | None
    """The mode of the file before; None if there was none."""


class EditorBackups:
    """The last changes of one file, the latest one last."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._state = state_folder()
        self._folder = f"installs/{sha256(os.fsencode(os.path.realpath(file))).hexdigest()[:16]}"
        self._changes: list[FileChange] = []
        with suppress(ValueError, TypeError):  # a damaged index counts as missing
            found: Any = json.loads(self._state.read(self._path(_INDEX)) or b"[]")
            self._changes = [FileChange(**one) for one in found]

    def change(self, content: bytes, mode: int | None = None) -> Path | None:
        """Write the file, and return the backup; None if there was no file."""
        before = _content(self._file)
        stamp = time.time()
        made = FileChange(
            at=stamp,
            name=f"{stamp:.6f}-{self._file.name}",
            mode=None if before is None else self._file.stat().st_mode & 0o777,
        )
        self._keep(f"{made.name}.after", content, 0o600)
        backup = None if before is None else self._keep(f"{made.name}.before", before, made.mode or 0o600)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            save(self._file, content, mode=mode)
        except BaseException:
            self._forget(made)
            raise
        self._changes.append(made)
        for old in self._changes[:-MOST_BACKUPS]:
            self._forget(old)
        self._changes = self._changes[-MOST_BACKUPS:]
        self._save_index()
        return backup

    @property
    def latest(self) -> FileChange | None:
        """The change that would be undone."""
        return self._changes[-1] if self._changes else None

    def since(self, change: FileChange) -> list[str] | None:
        """The changes that others have made since; None without any."""
        after, now = self._kept(f"{change.name}.after"), _content(self._file)
        if now == after:
            return None
        if now is None:
            return ["the file was deleted"]
        try:
            old, new = (host_document(text.decode(), self._file) for text in (after or b"", now))
        except (ConfigError, UnicodeDecodeError):
            return ["it cannot be parsed any more"]
        return list(_differences(old, new)) or ["only its comments or layout"]

    def undo(self, change: FileChange) -> None:
        """Give the file the content that it had before, or remove it."""
        if change.mode is None:
            self._file.unlink(missing_ok=True)
        else:
            content = self._kept(f"{change.name}.before")
            if content is None:
                raise FileNotFoundError(2, "the backup is gone", str(self._file))
            self._file.parent.mkdir(parents=True, exist_ok=True)
            save(self._file, content, mode=change.mode)
        self._changes.remove(change)
        self._save_index()
        self._forget(change)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _kept(self, name: str) -> bytes | None:
        return self._state.read(self._path(name))

    def _keep(self, name: str, content: bytes, mode: int) -> Path:
        self._state.write(self._path(name), content)
        path = self._state.base / self._path(name)
        path.chmod(mode & ~0o022)  # no other user may write a backup
        return path

    def _forget(self, change: FileChange) -> None:
        for end in ("before", "after"):
            with suppress(OSError):
                self._state.remove(self._path(f"{change.name}.{end}"))

    def _save_index(self) -> None:
        content = json.dumps([asdict(one) for one in self._changes]).encode()
        self._state.write(self._path(_INDEX), content)


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _differences(old: JSON, new: JSON, place: str = "") -> Iterator[str]:
    """The keys that differ, without their values, which may be secret."""
    for key in dict.fromkeys([*old, *new]):
        path = f"{place}{key}"
        if key not in old:
            yield f"{path} was added"
        elif key not in new:
            yield f"{path} was removed"
        elif is_mapping(old[key]) and is_mapping(new[key]):
            yield from _differences(old[key], new[key], f"{path}.")
        elif old[key] != new[key]:
            yield f"{path} was changed"
