"""Pause the garbage collector where many objects are made that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
