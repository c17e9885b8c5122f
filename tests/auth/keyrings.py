"""A keyring in a file."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    """Passwords in a JSON file. It takes arguments, so that the package does not choose it by itself."""

    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]  as keyring wants it

    def __init__(self, file: Path, before: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._file = file
        self._before = before

    @property
    def entries(self) -> dict[str, str]:
        """Everything in it."""
        return json.loads(self._file.read_text()) if self._file.exists() else {}

    def get_password(self, service: str, username: str) -> str | None:
        self._before()
        return self.entries.get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._before()
        self._write({**self.entries, f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        self._write({name: held for name, held in self.entries.items() if name != f"{service} {username}"})

    def _write(self, entries: dict[str, str]) -> None:
        draft = self._file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(entries))
        draft.replace(self._file)
