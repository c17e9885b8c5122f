"""A forked child of this process lets go of our connections.

It has a copy of every descriptor. While it holds them, the end of this process does not close a pipe, so
nobody would notice the end. Closing or collecting an object in the child would use the parent's selector, and
connections that the parent still uses.
"""

import os
import weakref
from typing import Protocol


class DescriptorHolder(Protocol):
    """Something with descriptors that only this process may hold."""

    def fds(self) -> list[int]: ...


_holders: "weakref.WeakSet[DescriptorHolder]" = weakref.WeakSet()
_registered = False


def detach_after_fork(holder: DescriptorHolder) -> None:
    """Let forked children replace these descriptors, for as long as the holder exists."""
    global _registered
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        os.register_at_fork(after_in_child=_detach)
    _holders.add(holder)


def _detach() -> None:
    # Replaced, not closed: objects that are collected later still close these numbers.
    devnull = os.open(os.devnull, os.O_RDWR)
    for holder in tuple(_holders):
        for fd in holder.fds():
            os.dup2(devnull, fd, inheritable=False)
    os.close(devnull)
    _holders.clear()
