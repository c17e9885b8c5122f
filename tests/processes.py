"""Which processes are ours, read from the process table (Linux's /proc)."""

import os
from pathlib import Path


def children() -> set[int]:
    """The living descendants of this process; zombies are left out."""
    parents = {pid: parent for pid, (state, parent) in _table().items() if state not in "ZX"}
    ours: set[int] = set()
    found = {os.getpid()}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found}
        ours |= found
    return ours


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    return _table().get(pid, ("X", 0))[0] not in "ZX"


def _table() -> dict[int, tuple[str, int]]:
    table: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The command stands in brackets and may itself hold spaces and brackets.
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue  # it ended while we looked
            table[int(entry.name)] = (state, int(parent))
    return table
