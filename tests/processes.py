"""Which processes are ours, read from the process table (Linux's /proc)."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_kept: set[int] = set()


def children(*, keepers: bool = False) -> set[int]:
    """The living descendants of this process, but for those that are kept; zombies are left out.

    Also left out, unless asked for, are the keepers of servers, which end a moment after what they keep.
    """
    found = set(_descendants(os.getpid())) - _kept
    return found if keepers else {pid for pid in found if not _is_keeper(pid)}


def _is_keeper(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True  # it has ended meanwhile
    return not command or b"guard.main(" in command  # a process that is ending has none


@contextmanager
def keeping() -> Generator[None]:
    """What is started in this block serves all tests, and does not count as a child of one."""
    before = children(keepers=True)
    yield
    _kept.update(children(keepers=True) - before)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not, unless one of its threads has still to end."""
    try:
        # The command stands in brackets and may itself hold spaces and brackets.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it ended while we looked
            for child in map(int, task.read_text().split()):
                if alive(child):
                    yield child
                yield from _descendants(child)
