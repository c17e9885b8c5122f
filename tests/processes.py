"""Our own processes, read from the process table (Linux's /proc)."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

_roots: set[int] = set()
_kept: set[int] = set()
_trees: set[int] = set()


def children(*, keepers: bool = False) -> set[int]:
    """The living descendants of this process, but for those that are kept; zombies are left out.

    Also left out, unless asked for, are the keepers of servers, which end a moment after what they keep.
    """
    found = {pid for root in (os.getpid(), *_roots) for pid in _descendants(root)} - _kept
    return found if keepers else {pid for pid in found if not _is_keeper(pid)}


def children_of(pid: int) -> set[int]:
    """The living descendants of a process."""
    return set(_descendants(pid))


def _is_keeper(pid: int) -> bool:
    command = _read(f"/proc/{pid}/cmdline")
    return not command or b"guard.main(" in command  # a process that is ending has none


def adopt(pid: int) -> None:
    """Count what this process starts among our descendants."""
    _roots.add(pid)


@contextmanager
def keeping() -> Generator[None]:
    """Processes started in this block serve all tests, and are not children of one."""
    before = children(keepers=True)
    yield
    _kept.update(children(keepers=True) - before)


@contextmanager
def keep_tree(pid: int) -> Generator[None]:
    """The same for a process and all that it starts, until the block ends."""
    _trees.add(pid)
    try:
        yield
    finally:
        _trees.discard(pid)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not, unless one of its threads has still to end."""
    # The command stands in brackets and may itself hold spaces and brackets.
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1]
    return bool(state) and (state[0] not in (b"Z", b"X") or len(_listed(f"/proc/{pid}/task")) > 1)


def _descendants(pid: int) -> Iterator[int]:
    # Before and after every test, so without `Path`, which takes three times as long.
    for task in _listed(f"/proc/{pid}/task"):
        for child in map(int, _read(f"/proc/{pid}/task/{task}/children").split()):
            if child in _trees:
                continue
            if alive(child):
                yield child
            yield from _descendants(child)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it ended while we looked
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
