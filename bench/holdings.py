"""The resources of this process: file descriptors, threads, children, tasks, memory (Linux's /proc)."""

import asyncio
import ctypes
import gc
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.audit import Check

SLACK = {"fds": 0, "threads": 2, "children": 0, "tasks": 0}
"""The allowed increase in the end; asyncio's pool of threads grows when it is first needed."""
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """A count of everything that can leak."""

    fds: int
    threads: int
    children: int
    tasks: int
    memory: int


def holdings() -> Holdings:
    """The current resources, without garbage; called in a task, which is counted."""
    gc.collect()
    with suppress(OSError, AttributeError):
        # What C code freed, glibc keeps: given back, or it would look like a leak of ours.
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return Holdings(
        fds=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        children=children(),
        tasks=len(asyncio.all_tasks()),
        memory=memory(),
    )


def children(pid: str = "self") -> int:
    """The number of descendants of a process, including zombies."""
    found: list[str] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it ended while we looked
            found += file.read_text().split()
    return len(found) + sum(map(children, found))


def memory(pid: int | str = "self") -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def leaks(before: Holdings, after: Holdings) -> list[Check]:
    """Checks that no more resources are held than before."""
    checks: list[Check] = []
    for what, slack in SLACK.items():
        was, now = getattr(before, what), getattr(after, what)
        broken = (f"{was} before, {now} after",) if now > was + slack else ()
        allowed = f", up to {slack} more allowed" if slack else ""
        checks.append(Check(f"no leak of {what}: {was} before, {now} after{allowed}", now, broken))
    return checks
