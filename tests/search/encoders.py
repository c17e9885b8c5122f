"""The encoders that are installed for tests, in a folder of their own below `.interop`."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / ".interop" / "encoders"
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no encoders in {FOLDER}: make .interop/.ready")


@contextmanager
def installed(*names: str) -> Generator[None]:
    """Only these packages can be imported from that folder."""
    from importlib.machinery import PathFinder

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            return PathFinder.find_spec(name, [str(FOLDER)]) if name in names else None

    sys.meta_path.append(Finder)  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        sys.meta_path.remove(Finder)  # pyright: ignore[reportArgumentType]
