"""The user's state folder: small private files, each written atomically.

A file that another user owns or can write is never read, because its content cannot be trusted.
"""

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def location(name: str) -> Path:
    """The path of a state file, such as `trust/1f2e.json`; OSError if the user has no state folder."""
    from platformdirs import user_state_dir

    try:
        folder = Path(user_state_dir("toolbus", appauthor=False))
    except RuntimeError:  # there is no home
        folder = Path("~")
    if not folder.is_absolute():
        # Without a home it would be below the current folder, which may belong to anyone.
        raise OSError(errno.ENOENT, "no state folder; set HOME or XDG_STATE_HOME", str(folder))
    return folder / name


def read(name: str) -> bytes | None:
    """The file's content, or None if it does not exist; OSError if another user can write it."""
    path = location(name)
    try:
        for folder in _folders(path):
            _refuse_exposed(folder, folder.stat())
        with path.open("rb") as file:
            _refuse_exposed(path, os.fstat(file.fileno()))
            return file.read()
    except FileNotFoundError:
        return None


def write(name: str, content: bytes) -> None:
    """Replace the file atomically: of two concurrent writes, one wins entirely."""
    path = location(name)
    base, *_ = folders = _folders(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_foreign(folder, folder.stat())
        folder.chmod(0o700)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # readable by its owner only
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def remove(name: str) -> bool:
    """Delete the file; return whether there was one."""
    try:
        location(name).unlink()
    except FileNotFoundError:
        return False
    return True


def _folders(path: Path) -> list[Path]:
    """The state folder, and the folders from there to the file."""
    base = location("")
    inner = path.relative_to(base).parent.parts
    return [base.joinpath(*inner[:depth]) for depth in range(len(inner) + 1)]


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))


def _refuse_exposed(path: Path, found: os.stat_result) -> None:
    _refuse_foreign(path, found)
    if os.name == "posix" and found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "can be written by other users", str(path))
