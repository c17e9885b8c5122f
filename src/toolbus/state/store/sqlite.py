"""A store in a file of SQLite: for the replicas of one machine. It blocks the thread of its store."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from toolbus.state.files import PrivateFolder, make_private
from toolbus.state.store.database import Done, NoTables, Parameters, Unavailable, Unusable
from toolbus.state.store.sql import Dialect

T = TypeVar("T")
_BUSY_SECONDS = 0.25
"""The time to wait for others that write; after it, the store retries, and its thread is not stuck."""
_DIALECT = Dialect(now="((julianday('now') - 2440587.5) * 86400.0)", bytes="BLOB", is_pyformat=False)


class SqliteDatabase:
    """A file, which is created with mode 0600; other users must not be able to read it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None

    async def run(self, statement: str, values: Parameters) -> Done:
        return _explained(lambda: self._run(statement, values))

    async def create(self, statements: Sequence[str], values: Parameters) -> None:
        _explained(lambda: self._create(statements, values))

    async def local_address(self) -> str | None:
        return None

    async def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _run(self, statement: str, values: Parameters) -> Done:
        cursor = self._connected().execute(_text(statement), values)
        return Done(cursor.fetchall(), cursor.rowcount)

    def _create(self, statements: Sequence[str], values: Parameters) -> None:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(_text(statement), values)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            PrivateFolder(self._path.parent).make_folders(self._path.name)
            make_private(self._path)  # before SQLite does it: its own files get the mode of this one
            made = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                made.execute("PRAGMA journal_mode = WAL")
                # What was used once must not come back after a power failure.
                made.execute("PRAGMA synchronous = FULL")
            except BaseException:  # others are writing
                made.close()
                raise
            self._connection = made
        return self._connection


@lru_cache(maxsize=64)
def _text(statement: str) -> str:
    return _DIALECT.text(statement)


def _explained(work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.OperationalError as error:
        if str(error).startswith("no such table"):
            raise NoTables from None
        raise Unavailable(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise Unusable(str(error)) from error
    except PermissionError as error:
        step = getattr(error, "remedy", "")
        raise Unusable(f"{error.strerror or 'no permission'}{f'; {step}' if step else ''}") from error
    except OSError as error:
        raise Unavailable(error.strerror or type(error).__name__) from error
