"""The workers of one gateway: replicas that share its address, so that they look like one process."""

from collections.abc import Callable
from dataclasses import dataclass

FIRST = 0
"""The worker that has the console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """This process as one of several workers."""

    gateway: str
    """What all workers of the gateway announce, and nobody else."""
    number: int
    count: int
    all_started: Callable[[], bool]
    """Whether all workers have been ready."""
