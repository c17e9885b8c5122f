"""Small private files in a folder of the user, each written atomically.

A file that another user owns or can write is never read, because its content cannot be trusted.
"""

import errno
import os
import shlex
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from toolbus.core.files import located, replaced

_WRITABLE, _ACCESSIBLE = 0o022, 0o077


class FileExposed(PermissionError):
    """Other users can write, or read, what should be private; `remedy` is the command that protects it."""

    def __init__(self, path: Path, what: str, mode: str) -> None:
        super().__init__(errno.EPERM, f"can be {what} by other users", str(path))
        self.what = what
        self.remedy = shlex.join(["chmod", mode, str(path)])


class Foreign(PermissionError):
    """A file or folder belongs to another user."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EPERM, "belongs to another user", str(path))


class NoStateFolder(FileNotFoundError):
    """The user has no state folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(errno.ENOENT, "no state folder; set HOME or XDG_STATE_HOME", str(folder))


class PrivateFolder:
    """A folder for files that only its user may see, and folders in it. It is created when needed."""

    def __init__(self, base: Path, *, protects: bool = False) -> None:
        self.base = base
        self._protects = protects
        """Whether an existing folder is made private."""

    def read(self, name: str, *, secret: bool = False) -> bytes | None:
        """The file's content, or None if it does not exist.

        Raises OSError if another user can write it. With `secret`, it must not be readable by others either.
        """
        path = self.base / name
        try:
            for folder in self._folders(name):
                _refuse_exposed(folder, folder.stat(), _WRITABLE, "700")
            with path.open("rb") as file:
                _refuse_exposed(path, os.fstat(file.fileno()), _ACCESSIBLE if secret else _WRITABLE, "600")
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Replace the file atomically: of two concurrent writes, one wins entirely.

        If `durable`, the content is on the disk before it replaces the old one.
        """
        path = self.make_folders(name)
        with replaced(path, _draft_prefix(path), durable=durable) as draft:
            draft.write_bytes(content)

    def remove(self, name: str) -> bool:
        """Delete the file; return whether there was one."""
        try:
            (self.base / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def remove_drafts(self, name: str) -> None:
        """Delete what a write left that was killed; nobody may be writing the file."""
        path = self.base / name
        with suppress(FileNotFoundError):
            for draft in [one for one in path.parent.iterdir() if one.name.startswith(_draft_prefix(path))]:
                draft.unlink(missing_ok=True)

    def make_folders(self, name: str) -> Path:
        """Create the folders of a file, and return its path; OSError if they are not the user's alone."""
        base, *_ = folders = self._folders(name)
        base.parent.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.stat()
            _refuse_foreign(folder, found)
            if self._protects:
                folder.chmod(0o700)
            else:
                _refuse_exposed(folder, found, _WRITABLE, "700")
        return self.base / name

    def _folders(self, name: str) -> list[Path]:
        """The folder itself, and those from there to the file."""
        inner = Path(name).parent.parts
        return [self.base.joinpath(*inner[:depth]) for depth in range(len(inner) + 1)]


def make_private(path: Path) -> None:
    """Create an empty private file unless it exists; `FileExposed` or `Foreign` if it is not theirs.

    An existing file is not opened: closing it would release all locks of this process on it.
    """
    with suppress(FileExistsError):
        # Where a link points to, or whoever opens the link would create that with another mode.
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _refuse_exposed(path, path.stat(), _ACCESSIBLE, "600")


def state_folder() -> PrivateFolder:
    """The user's state folder; `NoStateFolder` if there is none."""
    from platformdirs import user_state_dir

    try:
        folder = Path(user_state_dir("toolbus", appauthor=False))
    except RuntimeError:  # there is no home
        folder = Path("~")
    if not folder.is_absolute():
        # Without a home it would be below the current folder, which may belong to anyone.
        raise NoStateFolder(folder)
    return PrivateFolder(folder, protects=True)


def config_place(config_file: str | Path) -> tuple[str, str]:
    """The path that stands for a config file, and its digest, by which its state files are named."""
    path = located(Path(config_file))
    return str(path), sha256(os.fsencode(path)).hexdigest()


def location(name: str) -> Path:
    """The path of a state file, such as `trust/1f2e.json`; OSError if the user has no state folder."""
    return state_folder().base / name


def read(name: str) -> bytes | None:
    """The state file's content, or None if it does not exist; OSError if another user can write it."""
    return state_folder().read(name)


def write(name: str, content: bytes) -> None:
    """Replace the state file atomically."""
    state_folder().write(name, content)


def remove(name: str) -> bool:
    """Delete the state file; return whether there was one."""
    return state_folder().remove(name)


def _draft_prefix(path: Path) -> str:
    return f".{path.name}.draft-"


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise Foreign(path)


def _refuse_exposed(path: Path, found: os.stat_result, refused: int, mode: str) -> None:
    _refuse_foreign(path, found)
    exposed = found.st_mode & refused if os.name == "posix" else 0
    if exposed:
        raise FileExposed(path, "written" if exposed & _WRITABLE else "read", mode)


def name_for(config: str | None, folder: str) -> str:
    """The name of the file that a folder has for this config."""
    from hashlib import sha256  # shell completion gets here

    return f"{folder}/{sha256(os.path.abspath(config or '').encode()).hexdigest()[:16]}.json"
