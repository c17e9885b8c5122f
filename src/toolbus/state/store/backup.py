"""Backups: the tables of the shared databases in one private file of SQLite, and back into empty ones.

Values of a gateway's store stay encrypted as they are; the key is not part of a backup. Records about
processes (workers, replicas, locks) are left out: other processes use the restored database.
"""

import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolbus.core import version
from toolbus.core.files import replaced
from toolbus.core.values.errors import ExtraMissing, StoreError
from toolbus.state.files import FileExposed, PrivateFolder, make_private
from toolbus.state.store import sql
from toolbus.state.store.database import StoreUrl
from toolbus.state.store.postgres import first_line
from toolbus.state.store.sql import Dialect

if TYPE_CHECKING:
    from psycopg import Connection

_WAIT_SECONDS = 30.0
"""The time to wait for others that write to a file, and for a connection to a server."""
_CHECK = "check that it can be reached and used, then try again"


Tables: TypeAlias = "FileTables | _ServerTables"
"""The tables of toolbus and of DBOS in one database, within one transaction."""


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
        """The columns of each table; a table that others refer to comes before them."""
        tables: dict[str, list[str]] = {}
        with _file_errors(self._place):
            for table, column in self._connection.execute(
                "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
                " WHERE m.type = 'table' AND substr(m.name, 1, 7) <> 'sqlite_' ORDER BY m.rowid, c.cid"
            ):
                tables.setdefault(table, []).append(column)
        return tables

    def read(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """All rows, with values that SQLite can hold."""
        with _file_errors(self._place):
            yield from self._connection.execute(f"SELECT {quoted(*columns)} FROM {quoted(table)}")

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows, and let numbers that the database gives continue after theirs."""
        values = ", ".join("?" * len(columns))
        with _file_errors(self._place):
            self._connection.executemany(
                f"INSERT INTO {quoted(table)} ({quoted(*columns)}) VALUES ({values})", rows
            )

    def create(self, statement: str, values: Mapping[str, Any]) -> None:
        """Run one of the statements that create the tables of a store."""
        with _file_errors(self._place):
            self._connection.execute(Dialect(now="", bytes="BLOB", is_pyformat=False).text(statement), values)

    def commit(self) -> None:
        """Commit the changes; without it, none is kept."""
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
    except FileExposed as error:
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
        raise StoreError(place, first_line(error), _CHECK) from error
    except psycopg.Error as error:
        raise StoreError(place, first_line(error), _CHECK) from error


# Backups

FORMAT = 1
"""The version of the file; a reader refuses a newer one."""
PartName: TypeAlias = Literal["store", "runs"]
Counts: TypeAlias = dict[str, int]
"""The number of rows in each table."""
_HEAD = "toolbus_backup"
_VALUES, _SCHEMA, _MIGRATIONS = "toolbus_store", "toolbus_schema", "dbos_migrations"
_STORE = (_VALUES, _SCHEMA)
"""The tables of a gateway's store; all others belong to the runs."""
_ALWAYS = (_SCHEMA, _MIGRATIONS)
"""Tables about versions: they have a row even if nothing was ever stored."""
_PROCESSES = "toolbus_workers"
_PROCESS_KINDS = ("replica", "lock")
_EVERY = 500
"""Rows between two reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A database that is saved or restored: the store of a gateway, or of durable runs."""

    name: PartName
    url: StoreUrl
    prepare: Callable[[], None] = lambda: None
    """Creates the tables, if they are not ours."""

    def tables(self, found: dict[str, list[str]]) -> dict[str, list[str]]:
        """The tables of a database that belong to this part."""
        is_store = self.name == "store"
        return {table: columns for table, columns in found.items() if (table in _STORE) == is_store}


def save(parts: Sequence[Part], path: Path, report: Callable[[int], None]) -> dict[PartName, Counts]:
    """Copy databases into a file, each as of one moment; others may use them meanwhile.

    The file appears when it is complete. Raises StoreError, or OSError if the file cannot be written.
    """
    saved: dict[PartName, Counts] = {}
    rows = _Progress(report)
    with replaced(path, f".{path.name}-") as draft, opened_file(draft, str(path), writes=True) as file:
        with _opened(parts, writes=False) as sources:
            for part in parts:
                saved[part.name] = _saved(part, sources[part.url], file, rows)
        head = {"format": FORMAT, "version": version(), "parts": saved}
        file.create(f"CREATE TABLE {_HEAD} (head)", {})
        file.write(_HEAD, ["head"], [(json.dumps(head),)])
        file.commit()
    return saved


def _saved(part: Part, source: Tables, file: FileTables, rows: "_Progress") -> Counts:
    counts: Counts = {}
    for table, columns in part.tables(source.columns()).items():
        name = f"{part.name}.{table}"
        file.create(f"CREATE TABLE {quoted(name)} ({quoted(*columns)})", {})
        kept = () if table == _PROCESSES else source.read(table, columns)
        if table == _VALUES:
            kind = columns.index("kind")
            kept = (row for row in kept if row[kind] not in _PROCESS_KINDS)
        before = rows.done
        file.write(name, columns, rows.counted(kept))
        counts[table] = rows.done - before
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A file that was saved."""

    path: Path
    tables: FileTables
    parts: dict[PartName, Counts]

    def restore(self, parts: Sequence[Part], report: Callable[[int], None]) -> None:
        """Copy the parts into empty databases: all of them or, if something fails, none.

        StoreError if one is not empty, or if a newer toolbus made the backup.
        """
        for part in parts:
            if part.url.database != "sqlite" or Path(part.url.target).exists():
                with opened_tables(part.url, writes=False) as target:
                    _refuse_rows(part, target)
        for part in parts:
            part.prepare()
        rows = _Progress(report)
        with _opened(parts, writes=True) as targets:
            for part in parts:
                _refuse_rows(part, targets[part.url])  # meanwhile, somebody may have begun to use it
                self._restore(part, targets[part.url], rows)
            for target in targets.values():
                target.commit()

    def _restore(self, part: Part, target: Tables, rows: "_Progress") -> None:
        own = part.tables(self._columns(part.name))
        if part.name == "store" and (schema := self._schema()) is not None:
            if schema["oldest"] > sql.VERSION:
                raise self._newer(f"version {schema['version']} of the store, known: {sql.VERSION}")
            for statement in (*sql.TABLES, sql.PROVE):
                target.create(statement, _used_in(statement, schema))
        known = target.columns()
        if part.name == "runs":
            self._check_migrations(target, known)
        for table in (*(one for one in known if one in own), *(one for one in own if one not in known)):
            if table in _ALWAYS or not self.parts[part.name][table]:
                continue
            if unknown := set(own[table]) - set(known.get(table, ())):
                raise self._newer(f"{table}: {', '.join(sorted(unknown))}")
            before = rows.done
            target.write(
                table, own[table], rows.counted(self.tables.read(f"{part.name}.{table}", own[table]))
            )
            if rows.done - before != self.parts[part.name][table]:
                raise StoreError(str(self.path), f"rows of {table} are missing", "use another backup")

    def _columns(self, part: PartName) -> dict[str, list[str]]:
        prefix = f"{part}."
        return {
            name.removeprefix(prefix): columns
            for name, columns in self.tables.columns().items()
            if name.startswith(prefix)
        }

    def _schema(self) -> dict[str, Any] | None:
        columns = self._columns("store").get(_SCHEMA)
        row = None if columns is None else next(self.tables.read(f"store.{_SCHEMA}", columns), None)
        return None if row is None or columns is None else dict(zip(columns, row, strict=True))

    def _check_migrations(self, target: Tables, known: dict[str, list[str]]) -> None:
        if _MIGRATIONS in known and _MIGRATIONS in self.parts["runs"]:
            (ours,) = target.read(_MIGRATIONS, ["version"])
            (theirs,) = self.tables.read(f"runs.{_MIGRATIONS}", ["version"])
            if theirs > ours:
                raise self._newer(f"version {theirs[0]} of the tables of runs, known: {ours[0]}")

    def _newer(self, what: str) -> StoreError:
        return StoreError(str(self.path), f"a newer toolbus made this backup ({what})", "upgrade toolbus")


@contextmanager
def opened_backup(path: Path) -> Generator[Backup]:
    """A backup to be restored; StoreError if the file is not one, or a newer toolbus made it."""
    wrong = StoreError(str(path), "it is not a backup of toolbus", "'toolbus store backup FILE' makes one")
    with opened_file(path, str(path), writes=False) as tables:
        try:
            ((text,),) = tables.read(_HEAD, ["head"])
            head: dict[str, Any] = json.loads(text)
        except (StoreError, ValueError):
            raise wrong from None
        if head["format"] > FORMAT:
            problem = f"a newer toolbus ({head['version']}) made this backup"
            raise StoreError(str(path), problem, "upgrade toolbus")
        yield Backup(path=path, tables=tables, parts=head["parts"])


@contextmanager
def _opened(parts: Iterable[Part], *, writes: bool) -> Generator[dict[StoreUrl, Tables]]:
    """The databases of the parts, which may be one and the same."""
    with ExitStack() as stack:
        urls = dict.fromkeys(part.url for part in parts)
        yield {url: stack.enter_context(opened_tables(url, writes=writes)) for url in urls}


def _refuse_rows(part: Part, target: Tables) -> None:
    for table, columns in part.tables(target.columns()).items():
        if table not in _ALWAYS and any(True for _ in target.read(table, columns[:1])):
            problem = f"it is not empty ({table} has rows)"
            raise StoreError(
                part.url.place, problem, "restore into a new database, before a gateway or a worker uses it"
            )


def _used_in(statement: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values that a statement has places for."""
    return {name: value for name, value in values.items() if f":{name}" in statement}


class _Progress:
    """Counts rows on their way."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self.done = 0
        self._report = report

    def counted(self, rows: Iterable[Sequence[Any]]) -> Generator[Sequence[Any]]:
        for row in rows:
            self.done += 1
            if self.done % _EVERY == 0:
                self._report(self.done)
            yield row
