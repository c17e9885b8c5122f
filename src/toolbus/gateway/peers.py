"""The workers of one gateway: processes that share a listening socket, each with a bus of its own.

A legacy session, a call that waits for its client and a task of ours are in the memory of one worker. Their
ids begin with its number, so that any worker that gets a request about them knows whom to pass it on to.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolbus.core.records import JSON

_OWNER = re.compile(r"w(\d{1,4})\.")
"""No id and no sealed value has a dot by itself."""
FIRST = 0
"""The worker that has the console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """One worker, and the way to the others."""

    number: int
    count: int
    folder: Path
    """Where the sockets of all workers are, for this user alone."""
    all_started: Callable[[], bool]
    """Whether all workers have been ready."""

    @property
    def prefix(self) -> str:
        """What the ids of this worker begin with."""
        return f"w{self.number}."

    def socket(self, number: int) -> str:
        """Where a worker takes what others pass on to it."""
        return str(self.folder / f"{number}.sock")

    def owner(self, name: JSON) -> int | None:
        """Which other worker has what is named so; None if it is this one, or nobody."""
        found = _OWNER.match(name) if isinstance(name, str) else None
        number = self.number if found is None else int(found[1])
        return number if number != self.number and number < self.count else None

    @property
    def others(self) -> Iterator[int]:
        """The numbers of the other workers."""
        return (number for number in range(self.count) if number != self.number)


def prefix_of(name: str) -> str:
    """What a name begins with, if it is one of a worker; else empty."""
    found = _OWNER.match(name)
    return "" if found is None else found[0]
