"""The workers of one gateway: replicas that share its address, so that they look like one process."""

from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap

FIRST = 0
"""The worker that has the console."""
_NONE = 2**31 - 1
"""The count of a worker that accepts no connections."""


class ConnectionCounts:
    """The number of open connections of each worker, in memory that all of them share."""

    def __init__(self, workers: int) -> None:
        self._counts = memoryview(mmap(-1, workers * 4)).cast("i")  # -1: of no file; forks share it
        for number in range(workers):
            self.leave(number)

    def note(self, worker: int, count: int) -> None:
        self._counts[worker] = count

    def leave(self, worker: int) -> None:
        self._counts[worker] = _NONE

    @property
    def fewest(self) -> int:
        """The connections of the worker that has the fewest."""
        return min(self._counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """This process as one of several workers."""

    gateway: str
    """The name that all workers of the gateway announce, and nobody else."""
    number: int
    count: int
    connections: ConnectionCounts
    all_started: Callable[[], bool]
    """Whether all workers have been ready."""
