"""Save a file atomically: a concurrent reader gets the old content or the new, never a mix."""

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from toolbus.config.find import is_own


def save(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the file's content atomically; OSError if that is not possible.

    Links are followed. The file keeps its owner, and its mode unless one is given. The mode is never wider.
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
        handle, draft = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}."
        )  # readable by its owner only
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); check its folder"
        raise OSError(error.errno, reason, str(path)) from error
    try:
        with open(handle, "wb") as file:
            file.write(content)
        if before is not None and hasattr(os, "chown"):
            with suppress(OSError):  # only root may change the owner
                os.chown(draft, before.st_uid, before.st_gid)
        os.chmod(draft, mode if mode is not None else _usual_mode() if before is None else before.st_mode)
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def save_in_project(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Save a file of a project, whose link must not lead out of it: anyone may have put it there.

    It could lead to a config that is used everywhere, without a review.
    """
    target, folder = Path(os.path.realpath(path)), os.path.realpath(path.parent)
    if not target.is_relative_to(folder) and not is_own(path.parent):
        reason = f"is a link out of its folder, to {str(target)!r}; remove it, or name that file"
        raise OSError(errno.EPERM, reason, str(path))
    save(path, content, mode=mode)


def _usual_mode() -> int:
    mask = os.umask(0o077)  # the umask can only be read by setting it
    os.umask(mask)
    return 0o666 & ~mask
