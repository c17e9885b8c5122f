"""Attacks by somebody who can write into the database of a store, and does not have its key."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.inside.core import StoreError
from tests.inside.gateway import KEY, Peers, StoredKeys
from tests.inside.state import Cipher, Store, parse_store_url

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def opened(file: Path, key: bytes = b"k" * 32) -> Store:
    return Store(parse_store_url(f"sqlite:///{file}"), Cipher([key]))


def written(file: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(statement, values)


def stored(file: Path, kind: str, name: str) -> bytes:
    query = "SELECT value FROM toolbus_store WHERE kind = ? AND name = ?"
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query, (kind, name)).fetchone()[0]


INSERT = "INSERT INTO toolbus_store (kind, name, value, mark, expires) VALUES (?, ?, ?, 1, NULL)"
COPY = (
    "INSERT OR REPLACE INTO toolbus_store (kind, name, value, mark, expires) "
    "SELECT ?, ?, value, mark, NULL FROM toolbus_store WHERE kind = ? AND name = ?"
)


async def test_a_value_is_copied_to_another_kind_or_name(file: Path) -> None:
    """It cannot be read there: an encrypted value is bound to its place."""
    async with opened(file) as store:
        await store.put("key", "ann", b"secret")
        await store.put("key", "bob", b"other")
        for kind, name in (("key", "bob"), ("replica", "ann"), ("session", "ann")):
            written(file, COPY, kind, name, "key", "ann")
            with pytest.raises(StoreError, match="was encrypted with another key, or is damaged"):
                await store.get(kind, name)
        assert await store.items("key") == {"ann": b"secret"}


async def test_a_key_or_a_replica_is_written_by_somebody_without_the_key_of_the_store(file: Path) -> None:
    """It admits nobody, and no request is forwarded to it."""
    elsewhere = file.with_name("evil.db")
    async with opened(file) as store, opened(elsewhere, b"e" * 32) as evil:
        forged = Peers(evil)
        await forged.start("http://169.254.169.254:80")
        StoredKeys(evil).add("eve")
        for kind, name in (("replica", forged.id), (KEY, "eve")):
            written(file, INSERT, kind, name, stored(elsewhere, kind, name))
        own = Peers(store)
        await own.start("http://127.0.0.1:1")
        assert own.others == []
        with pytest.raises(StoreError):
            await own.find(forged.id)
        assert StoredKeys(store).all() == []
        await own.close()
        await forged.close()
