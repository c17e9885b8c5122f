"""Save a file whole or not at all: whoever reads it meanwhile finds the old content or the new one."""

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def save(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace what the file holds in one step; OSError if that is not possible.

    A link is followed. The file keeps its owner, and its mode unless one is given. It never has a wider one.
    """
    target = Path(os.path.realpath(path))
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EINVAL, "not a regular file; name another", str(path))
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "not writable; change its permissions", str(path))
    try:
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # its owner's alone
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); check its folder"
        raise OSError(error.errno, reason, str(path)) from error
    try:
        with open(handle, "wb") as file:
            file.write(content)
        if before is not None and hasattr(os, "chown"):
            with suppress(OSError):  # only root may give a file away
                os.chown(draft, before.st_uid, before.st_gid)
        os.chmod(draft, mode if mode is not None else _usual_mode() if before is None else before.st_mode)
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _usual_mode() -> int:
    """The mode of a new file."""
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return 0o666 & ~mask
