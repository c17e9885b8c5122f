"""The tables of a database in one transaction, for backups: read as one snapshot, written all or nothing."""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolbus.core.values.errors import ExtraMissing, StoreError
from toolbus.state.files import Exposed, PrivateFolder, make_private
from toolbus.state.store.sql import Dialect
from toolbus.state.store.url import StoreUrl

if TYPE_CHECKING:
    from psycopg import Connection

_WAIT_SECONDS = 30.0
"""The time to wait for others that write to a file, and for a connection to a server."""
_CHECK = "check that it can be reached and used, then try again"


class Tables(Protocol):
    """The tables of toolbus and of DBOS in one database, within one transaction."""

    def columns(self) -> dict[str, list[str]]:
        """The columns of each table; a table that others refer to comes before them."""
        ...

    def read(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """All rows, with values that SQLite can hold."""
        ...

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows, and let numbers that the database gives continue after theirs."""
        ...

    def create(self, statement: str, values: Mapping[str, Any]) -> None:
        """Run one of the statements that create the tables of a store."""
        ...

    def commit(self) -> None:
        """Commit the changes; without it, none is kept."""
        ...


@contextmanager
def opened_tables(url: StoreUrl, *, writes: bool) -> Generator[Tables]:
    """The tables at a URL; StoreError if they cannot be used. They do not have to exist."""
    if url.database == "sqlite":
        with opened_file(Path(url.target), url.place, writes=writes, creates=writes) as tables:
            yield tables
    else:
        with _opened_server(url, writes=writes) as tables:
            yield tables


def quoted(*names: str) -> str:
    """Names of tables or columns, as SQL has them."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


# SQLite


class FileTables:
    """All tables of a SQLite file."""

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place

    def columns(self) -> dict[str, list[str]]:
        tables: dict[str, list[str]] = {}
        with _file_errors(self._place):
            for table, column in self._connection.execute(
                "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
                " WHERE m.type = 'table' AND substr(m.name, 1, 7) <> 'sqlite_' ORDER BY m.rowid, c.cid"
            ):
                tables.setdefault(table, []).append(column)
        return tables

    def read(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        with _file_errors(self._place):
            yield from self._connection.execute(f"SELECT {quoted(*columns)} FROM {quoted(table)}")

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        values = ", ".join("?" * len(columns))
        with _file_errors(self._place):
            self._connection.executemany(
                f"INSERT INTO {quoted(table)} ({quoted(*columns)}) VALUES ({values})", rows
            )

    def create(self, statement: str, values: Mapping[str, Any]) -> None:
        with _file_errors(self._place):
            self._connection.execute(Dialect(now="", bytes="BLOB", is_pyformat=False).text(statement), values)

    def commit(self) -> None:
        with _file_errors(self._place):
            self._connection.execute("COMMIT")


@contextmanager
def opened_file(path: Path, place: str, *, writes: bool, creates: bool = False) -> Generator[FileTables]:
    """The tables of a SQLite file; StoreError if it is not one."""
    with _file_errors(place):
        if creates and not path.exists():
            PrivateFolder(path.parent).make_folders(path.name)
            make_private(path)  # before SQLite does it: its other files get the mode of this one
        uri = f"{path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    with closing(connection):
        with _file_errors(place):
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        yield FileTables(connection, place)


@contextmanager
def _file_errors(place: str) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(place, str(error), _CHECK) from error
    except Exposed as error:
        raise StoreError(place, f"it can be {error.what} by other users", error.remedy) from error
    except OSError as error:
        raise StoreError(place, error.strerror or type(error).__name__, _CHECK) from error


# Postgres

_BASIC = (
    "text",
    "bigint",
    "integer",
    "smallint",
    "double precision",
    "boolean",
    "bytea",
    "character varying",
)
"""Types whose values SQLite can hold; others are copied as text."""
_COLUMNS = """
    SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns
    JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_type = 'BASE TABLE'
    AND (table_schema = 'dbos' OR table_schema = current_schema() AND starts_with(table_name, 'toolbus_'))
    ORDER BY table_schema, table_name, ordinal_position
"""
_REFERENCES = """
    SELECT one.relname, other.relname FROM pg_constraint
    JOIN pg_class AS one ON one.oid = conrelid JOIN pg_class AS other ON other.oid = confrelid
    WHERE contype = 'f' AND conrelid <> confrelid
"""


class _ServerTables:
    """Our tables in a database of Postgres, where the connection creates tables, and DBOS's schema."""

    def __init__(self, connection: "Connection[Any]", place: str) -> None:
        self._connection = connection
        self._place = place
        self._tables: dict[str, str] = {}
        self._types: dict[tuple[str, str], str] = {}

    def columns(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with _server_errors(self._place):
            for schema, table, column, kind in self._connection.execute(_COLUMNS):
                found.setdefault(table, []).append(column)
                self._tables[table] = f"{quoted(schema)}.{quoted(table)}"
                self._types[table, column] = kind
            order = TopologicalSorter[str](dict.fromkeys(found, ()))
            for table, other in self._connection.execute(_REFERENCES):
                if table in found and other in found:
                    order.add(table, other)
        return {table: found[table] for table in order.static_order()}

    def read(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        shown = ", ".join(
            quoted(column) + ("" if self._types[table, column] in _BASIC else "::text") for column in columns
        )
        # With a name, the server keeps the rows, and sends some at a time.
        with _server_errors(self._place), self._connection.cursor("toolbus_backup") as cursor:
            cursor.itersize = 1000
            yield from cursor.execute(f"SELECT {shown} FROM {self._tables[table]}".encode())

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        into = self._tables[table]
        with _server_errors(self._place), self._connection.cursor() as cursor:
            # As text, of which Postgres makes a value of the column's type: 1 is a boolean as well.
            with cursor.copy(f"COPY {into} ({quoted(*columns)}) FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
            for column in columns:
                found = cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", (into, column)).fetchone()
                if found is not None and found[0] is not None:
                    last = f"SELECT setval(%s, max({quoted(column)})) FROM {into}"
                    cursor.execute(last.encode(), (found[0],))

    def create(self, statement: str, values: Mapping[str, Any]) -> None:
        text = Dialect(now="", bytes="BYTEA", is_pyformat=True).text(statement)
        with _server_errors(self._place):
            self._connection.execute(text.encode(), values)

    def commit(self) -> None:
        with _server_errors(self._place):
            self._connection.commit()


@contextmanager
def _opened_server(url: StoreUrl, *, writes: bool) -> "Generator[_ServerTables]":
    try:
        import psycopg
    except ImportError as error:
        raise ExtraMissing("a store in Postgres", "postgres", str(error)) from error
    with _server_errors(url.place):
        connect: Callable[..., Connection[Any]] = psycopg.connect
        connection = connect(url.target, connect_timeout=int(_WAIT_SECONDS), application_name="toolbus")
    with closing(connection):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = not writes
        yield _ServerTables(connection, url.place)


@contextmanager
def _server_errors(place: str) -> Generator[None]:
    import psycopg

    try:
        yield
    except psycopg.ProgrammingError as error:
        if error.sqlstate is None:  # of the driver, which quotes parts of the URL, even the password
            step = "encode special characters: %25 for %"
            raise StoreError(place, "its URL cannot be read", step) from None
        raise StoreError(place, _first_line(error), _CHECK) from error
    except psycopg.Error as error:
        raise StoreError(place, _first_line(error), _CHECK) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
