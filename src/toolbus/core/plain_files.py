"""Plain files: read only such a file, and no more of it than expected; replace one as a whole."""

import errno
import os
import stat
import tempfile
import time
from collections.abc import Generator
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


@contextmanager
def replaced(path: Path, prefix: str, *, durable: bool = True) -> Generator[Path]:
    """A draft beside a file, which only its owner can read; it replaces the file at the end of the block.

    If the block raises, the file stays as it is. If `durable`, the draft is on the disk before.
    """
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
