"""The places to look for a config file, and safe ways to read and replace a file.

Imports next to nothing, because a command may wait for it.
"""

import errno
import os
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select

_PIECE = 64 * 1024
_PAUSE = 0.01


class UnreadableFile(OSError):
    """A file that is not read: it is not a plain one, or too large; `strerror` says which."""


def read_plain(path: Path, largest: int, *, patience: float = 0.0) -> bytes:
    """The content of a file; `UnreadableFile` if it is a device or a FIFO, or has more than `largest` bytes.

    With `patience`, a FIFO is read if its writer takes no more seconds: some secret managers mount one.
    """
    # Without waiting: opening a FIFO would block.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISFIFO(mode) and patience:
            content = _piped(file.fileno(), path, largest, patience)
        elif stat.S_ISREG(mode):
            content = file.read(largest + 1)
        else:
            raise UnreadableFile(errno.EINVAL, "is not a plain file", str(path))
    if len(content) > largest:
        raise UnreadableFile(errno.EFBIG, f"has more than {largest:,} bytes", str(path))
    return content


def _piped(fifo: int, path: Path, largest: int, patience: float) -> bytes:
    content, deadline = b"", time.monotonic() + patience
    while len(content) <= largest:
        left = deadline - time.monotonic()
        if left <= 0 or not select([fifo], [], [], left)[0]:
            problem = f"is a FIFO, and its writer was not done within {patience:g} s"
            raise UnreadableFile(errno.ETIMEDOUT, problem, str(path))
        part = os.read(fifo, _PIECE)
        if not part and content:
            break
        if not part:
            time.sleep(_PAUSE)  # macOS reports an end before there is a writer
        content += part
    return content


OWN_NAMES = ("toolbus.yaml", "toolbus.yml", "toolbus.json", "toolbus.toml")
"""Names of a config in the user's config folder."""
FILE_NAMES = (*OWN_NAMES, ".mcp.json", "mcp.json")
"""Names of a config in any other folder; the first that exists is used."""


LOCAL = "toolbus.local.yaml"
"""The file beside a config with the settings of one person."""


@contextmanager
def replaced(path: Path, prefix: str, *, durable: bool = True) -> Generator[Path]:
    """A draft beside a file, which only its owner can read; it replaces the file at the end of the block.

    If the block raises, the file stays as it is. If `durable`, the draft is on the disk before.
    """
    import tempfile  # here, because the command line imports this module

    handle, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    draft = Path(name)
    try:
        try:
            yield draft
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def named_file() -> Path | None:
    """The file that `$TOOLBUS_CONFIG` names, whether it exists or not; None if it is not set."""
    named = os.environ.get("TOOLBUS_CONFIG")
    return Path(os.path.expanduser(named)) if named else None


def nearest_file(folder: Path) -> Path | None:
    """The nearest config in the folder or above it, else the one in the user's config folder, if any.

    The search ends at the user's home or the file system's root.
    """
    for parent in _upwards(folder):
        if (file := _first(parent, FILE_NAMES)) is not None:
            return file
    own = user_folder()
    return None if own is None else _first(own, OWN_NAMES)


def user_folder() -> Path | None:
    """The user's config folder for toolbus; None without a home."""
    from platformdirs import user_config_dir

    try:
        folder = Path(user_config_dir("toolbus", appauthor=False))
    except RuntimeError:  # there is no home
        return None
    # A relative path would be below the current folder, which may belong to anyone.
    return folder if folder.is_absolute() else None


def located(path: Path) -> Path:
    """The path that stands for a config file, wherever it is named from."""
    # The folder is resolved, but not a link to the file: `.env`, relative paths and programs are looked up
    # beside the link, so a link to a trusted config elsewhere is a different config.
    return Path(os.path.expanduser(path)).absolute().parent.resolve() / path.name


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    # False also for an unreadable folder.
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)


def _upwards(folder: Path) -> Iterator[Path]:
    """The folder and its parents, up to the user's home."""
    try:
        home = Path.home().resolve()
    except RuntimeError:
        home = None
    for parent in (folder, *folder.absolute().parents):
        yield parent
        if parent.resolve() == home:
            return
