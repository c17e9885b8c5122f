"""Backups: the tables of the shared databases in one private file of SQLite, and back into empty ones.

Values of a gateway's store stay encrypted as they are; the key is not part of a backup. Records about
processes (workers, replicas, locks) are left out: other processes use the restored database.
"""

import json
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolbus.core import version
from toolbus.core.values.errors import StoreError
from toolbus.state.store import sql
from toolbus.state.store.tables import FileTables, Tables, opened_file, opened_tables, quoted
from toolbus.state.store.url import StoreUrl

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
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # only for its owner
    os.close(handle)
    draft = Path(name)
    try:
        saved: dict[PartName, Counts] = {}
        rows = _Progress(report)
        with opened_file(draft, str(path), writes=True) as file:
            with _opened(parts, writes=False) as sources:
                for part in parts:
                    saved[part.name] = _saved(part, sources[part.url], file, rows)
            head = {"format": FORMAT, "version": version(), "parts": saved}
            file.create(f"CREATE TABLE {_HEAD} (head)", {})
            file.write(_HEAD, ["head"], [(json.dumps(head),)])
            file.commit()
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
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
