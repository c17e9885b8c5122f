"""Tokens in files: one for each login, readable by its owner only, replaced atomically."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

from toolbus.core.values.errors import TokenProblem, TokenStoreError
from toolbus.state.files import Exposed, Foreign, PrivateFolder, state_folder

ELSEWHERE = "choose another place: tokens: file:DIR"
_STATE = "the state folder"


class FileStore:
    """Keeps tokens in a folder; a file that others can read or write is refused."""

    remedy = "check the disk"

    def __init__(self, folder: Callable[[], PrivateFolder], prefix: str = "") -> None:
        self._folder = folder
        self._prefix = prefix

    @property
    def place(self) -> str:
        try:
            return str(self._folder().base / self._prefix)
        except OSError:
            return _STATE

    def place_of(self, key: str, /) -> str:
        return str(self._folder().base / self._name(key))

    def load(self, key: str, /) -> str | None:
        try:
            folder = self._folder()
        except OSError:  # without a state folder, nothing can have been saved
            return None
        with self._explained("unreadable", key):
            content = folder.read(self._name(key), secret=True)
        # Whatever it contains, as it is: whoever reads it decides whether it is damaged.
        return None if content is None else content.decode(errors="surrogateescape")

    def save(self, key: str, value: str, /) -> None:
        try:
            folder = self._folder()
        except OSError:
            step = f"set HOME or XDG_STATE_HOME, or {ELSEWHERE}"
            raise TokenStoreError(_STATE, "unavailable", "there is no home for it", step) from None
        with self._explained("unwritable", key):
            folder.write(self._name(key), value.encode(errors="surrogateescape"), durable=True)

    def remove(self, key: str, /) -> None:
        try:
            folder = self._folder()
        except OSError:
            return
        with self._explained("unwritable", key):
            folder.remove(self._name(key))
            folder.remove_drafts(self._name(key))

    def set_aside(self, key: str, /) -> bool:
        with self._explained("unwritable", key):
            path = self._folder().base / self._name(key)
            for number in count(1):
                aside = path.with_suffix(".corrupt" if number == 1 else f".corrupt{number}")
                if not aside.exists():
                    path.rename(aside)
                    break
        return True

    def lock_path(self, name: str) -> Path:
        """The file for a lock of that name, in a folder that exists; OSError if it is not possible."""
        return self._folder().make_folders(f"{self._prefix}locks/{name}")

    def _name(self, key: str) -> str:
        return f"{self._prefix}{sha256(key.encode(errors='surrogateescape')).hexdigest()[:32]}.json"

    @contextmanager
    def _explained(self, reason: TokenProblem, key: str) -> Generator[None]:
        try:
            yield
        except Exposed as error:
            what = "folder" if os.path.isdir(error.filename) else "file"
            problem = f"other users can {'write' if error.what == 'written' else 'read'} this {what}"
            step = f"protect it: {error.remedy}; sign in again if anyone did"
            raise TokenStoreError(error.filename, "exposed", problem, step) from error
        except Foreign as error:
            raise TokenStoreError(
                error.filename, "exposed", "it belongs to another user", ELSEWHERE
            ) from error
        except OSError as error:
            verb = "read" if reason == "unreadable" else "written"
            problem = f"it cannot be {verb} ({error.strerror or type(error).__name__})"
            step = f"check the permissions of the file and its folder, or {ELSEWHERE}"
            raise TokenStoreError(self.place_of(key), reason, problem, step) from error


def files_in(path: Path) -> FileStore:
    """The store in a folder that the user chose."""
    folder = PrivateFolder(path.absolute())
    return FileStore(lambda: folder)


def files_of_user() -> FileStore:
    """The store in the user's state folder."""
    return FileStore(state_folder, "tokens/")
