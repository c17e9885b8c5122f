"""The private file that tells `toolbus console` the URL of a running console, and a secret for tokens."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from toolbus.core.files import located
from toolbus.state.files import PrivateFolder, state_folder

_PREFIX, _SUFFIX = "console-", ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A console that a process of this user serves."""

    url: str
    """As this machine reaches it: `http://127.0.0.1:7400/console`."""
    public_url: str
    """As people reach it."""
    secret: str = field(repr=False)
    config: str | None
    """The path of the config file."""
    certificate: str | None = None
    """The SHA-256 of the certificate that it shows, under HTTPS."""
    pid: int = field(default_factory=os.getpid)

    @property
    def name(self) -> str:
        return f"{_PREFIX}{self.pid}{_SUFFIX}"


@contextmanager
def announced(announcement: Announcement) -> Generator[None]:
    """Let the user's commands find a console until the block ends; OSError if that is impossible."""
    folder, config = runtime_folder(), announcement.config
    # As it is found from any folder, not as it was typed in this one.
    announcement = replace(announcement, config=None if config is None else str(located(Path(config))))
    folder.write(announcement.name, json.dumps(asdict(announcement)).encode())
    try:
        yield
    finally:
        folder.remove(announcement.name)


def announcements() -> list[Announcement]:
    """The consoles of this user, the newest first; some may have been killed since."""
    found: list[tuple[float, Announcement]] = []
    for folder in runtime_folders():
        for file in folder.base.glob(f"{_PREFIX}*{_SUFFIX}"):
            try:
                content = folder.read(file.name, secret=True)
                if content is not None:
                    found.append((file.stat().st_mtime, Announcement(**json.loads(content))))
            except (OSError, ValueError, TypeError):  # not ours, or of another version
                continue
    return [one for _, one in sorted(found, key=lambda pair: pair[0], reverse=True)]


def forget(announcement: Announcement) -> None:
    """Delete the file of a console that is gone."""
    for folder in runtime_folders():
        folder.remove(announcement.name)


def runtime_folder() -> PrivateFolder:
    """The folder for files of this process, created with mode 0700; OSError if it is not the user's alone."""
    folder = runtime_folders()[0]
    folder.make_folders("")
    return folder


def runtime_folders() -> list[PrivateFolder]:
    """The folders for files of running processes; the first belongs to this process."""
    below_state = PrivateFolder(state_folder().base / "run", protects=True)
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    # The specification: a relative path is invalid, and so is a folder of another user.
    if os.path.isabs(given) and _is_own(Path(given)):
        return [PrivateFolder(Path(given) / "toolbus", protects=True), below_state]
    return [below_state]


def _is_own(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
