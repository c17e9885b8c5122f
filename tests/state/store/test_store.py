"""A store on both databases: values, claims, expiry, versions and keys."""

import asyncio
import base64
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests.inside.core import StoreError
from tests.inside.state import (
    VARIABLE,
    Cipher,
    KeyUse,
    Mirror,
    PostgresDatabase,
    SqliteDatabase,
    Store,
    StoreUrl,
    key_use,
    parse_store_url,
    rekey,
    sql,
)
from tests.patience import PATIENCE, until
from tests.postgres import Server, over_tcp, own_address

pytestmark = pytest.mark.anyio


def everything_in(url: StoreUrl) -> bytes:
    """The content of the database for a reader, with the names."""
    if url.database == "postgresql":
        with psycopg.connect(url.target) as connection:
            rows = connection.execute("SELECT name, value FROM toolbus_store").fetchall()
    else:
        with sqlite3.connect(url.target) as file:
            rows = file.execute("SELECT name, value FROM toolbus_store").fetchall()
    return b" ".join(part for name, value in rows for part in (name.encode(), bytes(value)))


async def test_a_value_is_there_until_it_is_replaced_or_removed(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        assert await store.get("key", "ann") is None
        await store.put("key", "ann", b"1")
        await store.put("key", "bob", b"2")
        await store.put("answer", "ann", b"3")
        await store.put("key", "ann", b"4")
        assert await store.items("key") == {"ann": b"4", "bob": b"2"}
        assert await store.remove("key", "ann")
        assert not await store.remove("key", "ann")
        assert await store.get("key", "ann") is None
        assert await store.get("answer", "ann") == b"3"
    async with Store(url, cipher) as again:
        assert await again.items("key") == {"bob": b"2"}


async def test_of_many_who_add_one_value_exactly_one_gets_it(url: StoreUrl, cipher: Cipher) -> None:
    stores = [Store(url, cipher) for _ in range(4)]
    try:
        # They also create the tables at once.
        added = await asyncio.gather(
            *(store.add("once", "approval", str(n).encode()) for n, store in enumerate(stores * 5))
        )
        assert added.count(True) == 1
        assert await stores[0].get("once", "approval") == str(added.index(True)).encode()
    finally:
        for store in stores:
            await store.close()


async def test_a_value_that_has_expired_is_gone_and_can_be_added_again(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        assert await store.add("lease", "a", b"old", seconds=-1)
        assert await store.get("lease", "a") is None
        assert not await store.keep("lease", "a", 60)
        assert await store.items("lease") == {}
        assert await store.add("lease", "a", b"new", seconds=60)
        assert not await store.add("lease", "a", b"newer", seconds=60)
        assert await store.keep("lease", "a", 90)
        await store.put("lease", "b", b"", seconds=-1)
        assert await store.purge() == 1
        assert await store.get("lease", "a") == b"new"


async def test_a_value_is_replaced_only_as_long_as_it_is_the_one_that_was_read(
    url: StoreUrl, cipher: Cipher
) -> None:
    async with Store(url, cipher) as store:
        await store.put("session", "s", b"owner 1")
        _, mark = await store.marked("session", "s")
        assert await store.replace("session", "s", mark, b"owner 2")
        assert not await store.replace("session", "s", mark, b"owner 3")
        assert await store.get("session", "s") == b"owner 2"
        await store.remove("session", "s")
        assert not await store.replace("session", "s", mark, b"owner 4")


async def test_a_statement_that_is_repeated_because_its_response_was_lost_has_one_effect(
    url: StoreUrl, cipher: Cipher
) -> None:
    async with Store(url, cipher):
        pass
    database = SqliteDatabase(url.target) if url.database == "sqlite" else PostgresDatabase(url.target)
    values = {"kind": "once", "name": "a", "value": b"", "mark": 7, "seconds": None}
    for _ in range(2):  # the same statement of the same caller
        assert (await database.run(sql.ADD, values)).count == 1
    assert (await database.run(sql.ADD, {**values, "mark": 8})).count == 0
    for _ in range(2):
        assert (await database.run(sql.REPLACE, {**values, "was": 7, "mark": 9})).count == 1
    assert (await database.run(sql.REPLACE, {**values, "was": 7, "mark": 10})).count == 0
    await database.close()


async def test_a_store_is_used_by_several_loops_and_by_threads_without_one(
    url: StoreUrl, cipher: Cipher
) -> None:
    store = Store(url, cipher)
    await store.put("key", "ann", b"1")
    assert await asyncio.to_thread(lambda: store.wait(store.get("key", "ann"))) == b"1"
    assert await asyncio.to_thread(lambda: asyncio.run(store.get("key", "ann"))) == b"1"
    await store.close()
    assert await store.get("key", "ann") == b"1"
    await store.close()


async def test_the_database_does_not_show_what_is_stored(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        await store.put("token", "ann", b"very secret")
        seen = everything_in(url)
        assert b"ann" in seen
        assert b"secret" not in seen


async def test_a_row_that_was_copied_to_another_name_is_refused(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        await store.put("token", "ann", b"of ann")
        copy = "UPDATE toolbus_store SET name = 'bob' WHERE name = 'ann'"
        if url.database == "postgresql":
            with psycopg.connect(url.target) as connection:
                connection.execute(copy)
        else:
            with sqlite3.connect(url.target) as file:
                file.execute(copy)
        with pytest.raises(StoreError, match="another key, or is damaged"):
            await store.get("token", "bob")


async def test_another_key_is_refused_and_several_keys_replace_one(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        await store.put("token", "ann", b"old")
    with pytest.raises(StoreError, match="was encrypted with another key"):
        await Store(url, Cipher([b"n" * 32])).open()
    async with Store(url, Cipher([b"n" * 32, b"k" * 32])) as both:
        assert await both.get("token", "ann") == b"old"
        await both.put("token", "ann", b"new")
    async with Store(url, cipher) as old:
        with pytest.raises(StoreError, match="another key"):
            await old.get("token", "ann")


async def test_after_all_is_encrypted_anew_the_old_key_can_be_left_out(url: StoreUrl, cipher: Cipher) -> None:
    new = Cipher([b"n" * 32])
    async with Store(url, cipher) as store:
        await store.put("token", "ann", b"old", seconds=600)
        for number in range(600):  # more than one page
            await store.put("session", f"s{number}", b"x")
        _, mark = await store.marked("token", "ann")
        before = everything_in(url)
    async with Store(url, Cipher([b"n" * 32, b"k" * 32])) as both:
        await both.put("token", "bob", b"new")
        assert await key_use(both) == KeyUse(total=602, other=601)
        assert await rekey(both) == (601, KeyUse(total=602))
        assert await rekey(both) == (0, KeyUse(total=602))
        # For those who follow a value, nothing has changed.
        assert await both.marked("token", "ann") == (b"old", mark)
        assert everything_in(url) != before
    async with Store(url, new) as only:
        assert await only.items("token") == {"ann": b"old", "bob": b"new"}
    with pytest.raises(StoreError, match="it was encrypted with another key"):
        await Store(url, cipher).open()


async def test_values_that_no_key_opens_are_counted_and_left_as_they_are(
    url: StoreUrl, cipher: Cipher
) -> None:
    async with Store(url, cipher) as store:
        await store.put("key", "ann", b"1")
    async with Store(url, Cipher([b"n" * 32, b"k" * 32])) as both:
        await both.put("key", "dora", b"2")
    async with Store(url, cipher) as store:
        assert await key_use(store) == KeyUse(total=2, unreadable=Counter(key=1))
        assert await rekey(store) == (0, KeyUse(total=2, unreadable=Counter(key=1)))


async def test_two_versions_share_a_store_as_long_as_the_newer_one_only_adds(
    url: StoreUrl, cipher: Cipher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Store(url, cipher) as old, Store(url, cipher, version=2) as new:
        await new.put("key", "ann", b"1")
        assert await old.get("key", "ann") == b"1"
    async with Store(url, cipher) as old:  # it starts again, beside the newer one
        assert await old.get("key", "ann") == b"1"
    monkeypatch.setattr(sql, "OLDEST", 3)
    async with Store(url, cipher, version=3) as newest:
        await newest.put("key", "bob", b"2")
    with pytest.raises(StoreError, match=r"newer toolbus \(version 3 of its tables, known: 1\); upgrade"):
        await Store(url, cipher).open()


async def test_a_mirror_follows_what_others_change(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as mine, Store(url, cipher) as theirs:
        await theirs.put("key", "ann", b"1")
        mirror = Mirror(mine, "key")
        await mirror.look()
        assert mirror.values == {"ann": b"1"}
        version = mirror.version
        await mirror.look()
        assert mirror.version == version
        await theirs.put("key", "ann", b"2")
        await theirs.put("other", "ann", b"3")
        await mirror.look()
        assert mirror.values == {"ann": b"2"}
        await theirs.remove("key", "ann")
        await mirror.look()
        assert mirror.values == {}


async def test_the_time_is_that_of_the_database(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        await store.put("x", "a", b"", seconds=100)
        select = "SELECT expires FROM toolbus_store"
        if url.database == "postgresql":
            with psycopg.connect(url.target) as connection:
                row = connection.execute(select).fetchone()
        else:
            with sqlite3.connect(url.target) as file:
                row = file.execute(select).fetchone()
        assert row is not None
        assert abs(row[0] - store.now() - 100) < 60


async def test_a_database_that_comes_back_in_time_loses_nothing(postgres: Server, cipher: Cipher) -> None:
    async with Store(parse_store_url(postgres.database()), cipher) as store:
        store.patience = 300
        await store.put("key", "ann", b"1")
        await asyncio.to_thread(postgres.stop)
        writes = [asyncio.create_task(store.put("key", f"n{n}", b"x")) for n in range(8)]
        claims = [asyncio.create_task(store.add("once", "a")) for _ in range(3)]
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in (*writes, *claims))
        await asyncio.to_thread(postgres.start)
        await asyncio.gather(*writes)
        assert sorted(await asyncio.gather(*claims)) == [False, False, True]
        assert len(await store.items("key")) == 9


async def test_the_log_says_at_once_that_the_database_is_gone_and_that_it_is_back(
    postgres: Server, cipher: Cipher, caplog: pytest.LogCaptureFixture
) -> None:
    async with Store(parse_store_url(postgres.database()), cipher) as store:
        store.patience = 300
        await store.put("key", "ann", b"1")
        await asyncio.to_thread(postgres.stop)
        writing = [asyncio.create_task(store.put("key", f"n{n}", b"x")) for n in range(3)]
        await until(lambda: bool(caplog.messages))
        assert not any(task.done() for task in writing)
        await asyncio.to_thread(postgres.start)
        await asyncio.gather(*writing)
        gone, back = caplog.messages
        assert gone.startswith(f"the store {store.place} does not respond (")
        assert back == f"the store {store.place} responds again"


async def test_what_a_full_disk_has_no_room_for_waits_until_there_is_some(
    tmp_path: Path, cipher: Cipher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pages, connected = [1_000_000], SqliteDatabase._connected  # pyright: ignore[reportPrivateUsage]  # its file cannot grow

    def limited(self: SqliteDatabase) -> sqlite3.Connection:
        connection = connected(self)
        connection.execute(f"PRAGMA max_page_count={pages[0]}")
        return connection

    monkeypatch.setattr(SqliteDatabase, "_connected", limited)
    async with Store(parse_store_url(f"sqlite:///{tmp_path / 'store.db'}"), cipher) as store:
        store.patience = PATIENCE
        await store.put("key", "ann", b"1")
        pages[0] = 1
        writing = asyncio.create_task(store.put("key", "large", b"x" * 100_000))
        await until(lambda: bool(caplog.messages))
        assert "does not respond (database or disk is full); retrying" in caplog.text
        assert await store.get("key", "ann") == b"1"
        assert "responds again" not in caplog.text, "it can be read, and not be written to"
        assert not writing.done()
        pages[0] = 1_000_000
        await writing
        gone, back = caplog.messages
        assert (gone.split()[-1], back) == ("retrying", f"the store {store.place} responds again")
        assert await store.get("key", "large") == b"x" * 100_000


async def test_the_address_of_this_machine_is_the_one_that_the_database_sees(
    postgres: Server, cipher: Cipher, tmp_path: Path
) -> None:
    url = postgres.database()
    file = Store(parse_store_url(f"sqlite:///{tmp_path / 'store.db'}"), cipher)
    async with file, Store(parse_store_url(url), cipher) as near:
        assert await file.local_address() is None
        assert await near.local_address() is None  # a Unix socket
    for address in {"127.0.0.1", own_address()}:
        async with over_tcp(url, address) as far, Store(parse_store_url(far), cipher) as store:
            assert await store.local_address() == address


async def test_a_database_that_does_not_come_back_is_a_clear_error_without_its_password(
    tmp_path: Path, cipher: Cipher
) -> None:
    store = Store(parse_store_url("postgresql://ann:hunter2@127.0.0.1:1/db?sslpassword=hunter2"), cipher)
    store.patience = 0.2
    with pytest.raises(
        StoreError, match=r"^store postgresql://127.0.0.1:1/db: it has not responded"
    ) as error:
        await store.get("key", "ann")
    assert "hunter2" not in str(error.value) + repr(store)
    await store.close()


def test_a_url_of_something_else_is_refused_without_quoting_it() -> None:
    for text in ("redis://:hunter2@host/0", "sqlite://", "sqlite:///", "hunter2", "postgresql://h:hunter2/x"):
        with pytest.raises(ValueError, match="expected sqlite:///PATH or postgresql") as error:
            parse_store_url(text)
        assert "hunter2" not in str(error.value)


async def test_a_file_that_others_can_read_is_refused(tmp_path: Path, cipher: Cipher) -> None:
    file = tmp_path / "store.db"
    async with Store(parse_store_url(f"sqlite:///{file}"), cipher) as store:
        await store.put("key", "ann", b"1")
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o644)
    with pytest.raises(StoreError, match="can be read by other users; chmod 600"):
        await Store(parse_store_url(f"sqlite:///{file}"), cipher).open()


async def test_the_key_comes_from_the_environment(
    url: StoreUrl, cipher: Cipher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, base64.b64encode(b"k" * 32).decode())
    async with Store(url) as store, Store(url, cipher) as other:
        await store.put("key", "ann", b"1")
        assert await other.get("key", "ann") == b"1"
    monkeypatch.setenv(VARIABLE, "too short")
    with pytest.raises(StoreError, match="its key is not 32 bytes in base64; set TOOLBUS_STORE_KEY"):
        await Store(url).open()


async def test_two_stores_of_one_process_see_what_other_processes_write(
    url: StoreUrl, cipher: Cipher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's locks belong to the process: closing a second descriptor of the file would release them."""
    monkeypatch.setenv(VARIABLE, base64.b64encode(b"k" * 32).decode())
    program = """
import asyncio, sys
from toolbus.state.store.store import Store
from toolbus.state.store.database import parse_store_url

async def main(name):
    async with Store(parse_store_url(sys.argv[1])) as store:
        await store.put("key", name, b"")

asyncio.run(main(sys.argv[2]))
"""
    given = url.target if url.database == "postgresql" else url.place
    async with Store(url, cipher) as first, Store(url, cipher) as second:
        for name in ("a", "c"):
            command = [sys.executable, "-c", program, given, name]
            await asyncio.to_thread(subprocess.run, command, check=True)
            await first.put("key", chr(ord(name) + 1), b"")
        assert list(await first.items("key")) == ["a", "b", "c", "d"]
        assert list(await second.items("key")) == ["a", "b", "c", "d"]
