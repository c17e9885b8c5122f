"""The garbage collector, where it would only cost: many objects that stay, or that go by themselves."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

SERVING_THRESHOLD = 10_000
"""More than the objects of all requests in flight, which are not garbage and go with their requests."""


def collect_rarely() -> None:
    """Look for garbage less often: imports and calls leave hardly any, and each look costs."""
    gc.set_threshold(SERVING_THRESHOLD, *gc.get_threshold()[1:])


@contextmanager
def paused_collector() -> Generator[None]:
    """Do not look for garbage in the block: nearly all new objects stay, and looking at each costs time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
