"""Exclusive locks of the system on open files; a lock ends with the process that holds it."""

import os
import sys
from typing import Protocol
from weakref import WeakSet

LOCKED_BYTE = 1 << 30
"""On Windows, the byte that is locked: beyond the content, because a locked part cannot be read."""

if sys.platform == "win32":
    import msvcrt

    def try_lock(fd: int) -> bool:
        """Lock the file; False if somebody else has locked it."""
        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True

    def unlock(fd: int) -> None:
        """Release the lock."""
        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Lock the file; False if somebody else has locked it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Release the lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)


class LockHolder(Protocol):
    """Something that holds a lock."""

    def let_go(self) -> None:
        """In a forked process: close this copy of the file; the lock stays with the parent."""
        ...


_holders: "WeakSet[LockHolder]" = WeakSet()
_is_registered = False


def let_go_after_fork(holder: LockHolder) -> None:
    """A forked child has the same open file, and would keep the lock if this process is killed."""
    global _is_registered
    if not _is_registered and hasattr(os, "register_at_fork"):
        _is_registered = True
        os.register_at_fork(after_in_child=_let_go)
    _holders.add(holder)


def _let_go() -> None:
    for holder in tuple(_holders):
        holder.let_go()
