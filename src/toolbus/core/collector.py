"""Pause the garbage collector where many objects are made that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Generator[None]:
    """Leave the new objects to the next full collection: nearly all stay, and looking at each costs time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # otherwise the program wants some to stay frozen
            # Moves all objects to the oldest generation, without looking at each.
            gc.freeze()
            gc.unfreeze()
        gc.enable()
