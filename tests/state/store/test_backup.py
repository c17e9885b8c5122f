"""Backups of databases: the content of the file, and of a restored database."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.inside.core import StoreError
from tests.inside.state import (
    Cipher,
    Part,
    Store,
    StoreUrl,
    key_use,
    make_private,
    opened_backup,
    parse_store_url,
    save,
)
from tests.inside.state import backup as module
from tests.postgres import Server

pytestmark = pytest.mark.anyio
NUMBERS = """
CREATE TABLE toolbus_numbers (
    number {identity}, is_odd BOOLEAN, facts {json}, share DOUBLE PRECISION, raw {bytes}, about TEXT
)
"""
DIALECTS = {
    "sqlite": {"identity": "INTEGER PRIMARY KEY AUTOINCREMENT", "json": "TEXT", "bytes": "BLOB"},
    "postgresql": {
        "identity": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "json": "JSONB",
        "bytes": "BYTEA",
    },
}


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> StoreUrl:
    """The URL of another database, to restore into."""
    if request.param == "sqlite":
        return parse_store_url(f"sqlite:///{tmp_path / 'restored.db'}")
    server: Server = request.getfixturevalue("postgres")
    return parse_store_url(server.database())


def silent(_rows: int) -> None:
    """Report nothing."""


def execute(url: StoreUrl, statement: str) -> list[tuple[object, ...]]:
    """Run a statement in either database."""
    if url.database == "sqlite":
        with closing(sqlite3.connect(url.target)) as connection, connection:
            return connection.execute(statement).fetchall()
    with psycopg.connect(url.target) as connection:
        cursor = connection.execute(statement.encode())
        return [] if cursor.description is None else cursor.fetchall()


def numbers(url: StoreUrl) -> Part:
    """A part with a table that backups know nothing of."""

    def prepare() -> None:
        if url.database == "sqlite":
            make_private(Path(url.target))
        execute(url, NUMBERS.format(**DIALECTS[url.database]))

    return Part(name="runs", url=url, prepare=prepare)


def restore(path: Path, *parts: Part) -> None:
    with opened_backup(path) as found:
        found.restore(parts, silent)


async def test_a_restored_store_has_the_same_values_for_the_same_key(
    url: StoreUrl, empty: StoreUrl, cipher: Cipher, tmp_path: Path
) -> None:
    async with Store(url, cipher) as store:
        await store.put("key", "ann", b"s3cret")
        await store.put("used", "once", b"", seconds=3600)
        for kind in ("replica", "lock"):  # of processes that end with the old database
            await store.put(kind, "0f", b"here")
        saved = save([Part(name="store", url=url)], tmp_path / "b.db", silent)
        await store.put("key", "ann", b"later")
    assert saved == {"store": {"toolbus_store": 2, "toolbus_schema": 1}}
    assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600
    assert b"s3cret" not in (tmp_path / "b.db").read_bytes()
    restore(tmp_path / "b.db", Part(name="store", url=empty))
    async with Store(empty, cipher) as restored:
        assert await restored.get("key", "ann") == b"s3cret"
        assert not await restored.add("used", "once"), "what was used stays used"
        assert await restored.items("replica") == await restored.items("lock") == {}
        assert (await key_use(restored)).total == 2
        assert await restored.add("key", "bob"), "it can be used"
    with pytest.raises(StoreError, match="another key"):
        await Store(empty, Cipher([b"o" * 32])).open()


async def test_any_table_of_ours_is_copied_and_numbers_continue(
    url: StoreUrl, empty: StoreUrl, tmp_path: Path
) -> None:
    numbers(url).prepare()
    for about in ("'it''s'", "NULL"):
        facts = """'{"a": [1, null]}', 0.1, NULL"""
        execute(
            url,
            f"INSERT INTO toolbus_numbers (is_odd, facts, share, raw, about) VALUES (true, {facts}, {about})",
        )
    save([numbers(url)], tmp_path / "b.db", silent)
    restore(tmp_path / "b.db", numbers(empty))
    shown = "number, is_odd, CAST(facts AS TEXT), share, raw, about"
    assert execute(empty, f"SELECT {shown} FROM toolbus_numbers ORDER BY number") == execute(
        url, f"SELECT {shown} FROM toolbus_numbers ORDER BY number"
    )
    added = "INSERT INTO toolbus_numbers (about) VALUES ('next') RETURNING number"
    assert execute(empty, added) == [(3,)]


async def test_a_database_is_saved_as_of_one_moment(url: StoreUrl, tmp_path: Path) -> None:
    tables = ("toolbus_first", "toolbus_second")
    for table in tables:
        execute(url, f"CREATE TABLE {table} (number INTEGER)")
        execute(url, f"INSERT INTO {table} VALUES (0)")
    ended, began = threading.Event(), threading.Event()

    def write() -> None:
        both = [f"UPDATE {table} SET number = number + 1" for table in tables]
        connect: Callable[[], sqlite3.Connection | psycopg.Connection] = (
            (lambda: sqlite3.connect(url.target, timeout=30))
            if url.database == "sqlite"
            else (lambda: psycopg.connect(url.target))
        )
        with closing(connect()) as connection:
            while not ended.is_set():
                for statement in both:
                    connection.cursor().execute(statement)  # pyright: ignore[reportArgumentType, reportCallIssue]
                connection.commit()
                began.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert began.wait(60)
        for _ in range(10):
            save([Part(name="runs", url=url)], tmp_path / "b.db", silent)
            with opened_backup(tmp_path / "b.db") as found:
                first, second = (list(found.tables.read(f"runs.{table}", ["number"])) for table in tables)
            assert first == second
    finally:
        ended.set()
        writer.join()


async def test_a_database_with_values_is_not_restored_into(
    url: StoreUrl, cipher: Cipher, tmp_path: Path
) -> None:
    part = Part(name="store", url=url)
    async with Store(url, cipher) as store:
        save([part], tmp_path / "empty.db", silent)
        restore(tmp_path / "empty.db", part)  # its tables are no values
        await store.put("key", "ann", b"1")
        save([part], tmp_path / "b.db", silent)
        with pytest.raises(StoreError, match=r"not empty \(toolbus_store has rows\); restore into a new"):
            restore(tmp_path / "b.db", part)
        assert await store.get("key", "ann") == b"1"


async def test_a_restore_that_fails_leaves_every_database_empty(
    url: StoreUrl, empty: StoreUrl, cipher: Cipher, tmp_path: Path
) -> None:
    async with Store(url, cipher) as store:
        await store.put("key", "ann", b"1")
    other = parse_store_url(f"sqlite:///{tmp_path / 'numbers.db'}")
    numbers(other).prepare()
    execute(other, "INSERT INTO toolbus_numbers (about) VALUES ('a')")
    save([Part(name="store", url=url), numbers(other)], tmp_path / "b.db", silent)
    runs = parse_store_url(f"sqlite:///{tmp_path / 'runs.db'}")
    parts = Part(name="store", url=empty), Part(name="runs", url=runs)  # nobody creates its table
    with pytest.raises(StoreError, match=r"a newer toolbus made this backup \(toolbus_numbers: about, "):
        restore(tmp_path / "b.db", *parts)
    restore(tmp_path / "b.db", parts[0], numbers(runs))
    assert execute(runs, "SELECT about FROM toolbus_numbers") == [("a",)]


async def test_a_backup_of_a_newer_toolbus_is_refused(
    url: StoreUrl, empty: StoreUrl, cipher: Cipher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Store(url, cipher):
        pass
    execute(url, "UPDATE toolbus_schema SET version = 9, oldest = 9")
    save([Part(name="store", url=url)], tmp_path / "b.db", silent)
    with pytest.raises(StoreError, match=r"a newer toolbus .*version 9 of the store, .*; upgrade toolbus"):
        restore(tmp_path / "b.db", Part(name="store", url=empty))
    with monkeypatch.context() as newer:
        newer.setattr(module, "FORMAT", module.FORMAT + 1)
        save([Part(name="store", url=url)], tmp_path / "b.db", silent)
    with pytest.raises(StoreError, match=r"a newer toolbus \(\S+\) made this backup; upgrade toolbus"):
        restore(tmp_path / "b.db", Part(name="store", url=empty))


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0 no database"])
async def test_what_is_no_backup_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "b.db").write_bytes(content)
    with pytest.raises(StoreError, match="it is not a backup of toolbus"):
        restore(tmp_path / "b.db")


async def test_a_backup_that_lost_rows_is_refused(
    url: StoreUrl, empty: StoreUrl, cipher: Cipher, tmp_path: Path
) -> None:
    async with Store(url, cipher) as store:
        await store.put("key", "ann", b"1")
    save([Part(name="store", url=url)], tmp_path / "b.db", silent)
    with closing(sqlite3.connect(tmp_path / "b.db")) as file, file:
        file.execute('DELETE FROM "store.toolbus_store"')
    with pytest.raises(StoreError, match="rows of toolbus_store are missing"):
        restore(tmp_path / "b.db", Part(name="store", url=empty))


def test_a_save_that_fails_leaves_no_file(url: StoreUrl, tmp_path: Path) -> None:
    wrong = {"sqlite": f"{url.target}/nothing", "postgresql": "postgresql://%zz@x/y"}[url.database]
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError) as caught:
        save([Part(name="store", url=replace(url, target=wrong))], tmp_path / "b.db", silent)
    assert "%zz" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
