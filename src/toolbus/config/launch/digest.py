"""The digest of everything that decides what a server offers: its entry, and the files that it runs."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.config import BusConfig

_NOT_OF_LISTS = ("server", "lazy", "required", "idle_timeout", "timeouts", "max_concurrency")
"""Keys of a server on which its lists do not depend; `server` is an object."""


def launch_digest(config: "BusConfig", alias: str) -> str:
    """Digest of the server's entry and the files it runs, which decide what it offers."""
    server = config.servers[alias]
    words, folder = (server.command, *server.args), server.folder or config.folder
    parts = {
        "server": server.model_dump(mode="json", exclude={*_NOT_OF_LISTS}),
        # Relative to the server's working directory, by default ours.
        "files": list(_modified_times(Path(folder or "", server.cwd) if server.cwd else Path(), words)),
    }
    return sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _modified_times(folder: Path, words: tuple[str | None, ...]) -> Iterator[int]:
    """When the files among the words were modified: new code may list new tools."""
    for word in words:
        try:
            if word and (file := folder / word).is_file():
                yield file.stat().st_mtime_ns
        except (OSError, ValueError):  # not a file name, or just deleted
            continue
