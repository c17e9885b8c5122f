"""Read a file that somebody else may have put there: only a plain file, and never more than expected."""

import errno
import os
import stat
from pathlib import Path


class Unreadable(OSError):
    """A file that is not read: it is not a plain one, or too large; `strerror` says which."""


def read_plain(path: Path, largest: int) -> bytes:
    """The content of a file; `Unreadable` if it is a device or a FIFO, or has more than `largest` bytes."""
    # Without waiting: opening a FIFO would block.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Unreadable(errno.EINVAL, "is not a plain file", str(path))
        content = file.read(largest + 1)
    if len(content) > largest:
        raise Unreadable(errno.EFBIG, f"has more than {largest:,} bytes", str(path))
    return content
