"""Attackers who can write to a database or a folder of yours, or read its logs."""

import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.inside.call import ResultStore
from tests.inside.core import StoreError, without_passwords
from tests.inside.state import Cipher, Mirror, Store, parse_store_url
from toolbus.agent.durable import Durable, Runs, RunStoreError

pytestmark = pytest.mark.anyio
SECRET = "s3cr3t"
MADE_UP = ['"x"', "{}", '{"id": 1, "pending": "x"}', "[" * 100_000, "not JSON"]


def written(file: Path, statement: str, *values: object) -> None:
    """Change a database behind the back of toolbus."""
    with sqlite3.connect(file) as connection:
        connection.execute(statement, values)
    connection.close()


# Durable runs


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o666])
async def test_a_file_for_runs_that_others_can_read_or_write(mode: int, tmp_path: Path) -> None:
    """It is not used: they would read prompts, and approve calls."""
    file = tmp_path / "runs.db"
    file.touch()
    file.chmod(mode)
    runs = Runs(Durable(store=str(file)))
    with pytest.raises(RunStoreError, match=r"other users can \w+ it; protect it: chmod 600"):
        await runs.start("a secret", key="r1")
    await runs.close()
    assert file.stat().st_size == 0


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
async def test_a_link_at_the_place_of_a_new_file_for_runs(tmp_path: Path) -> None:
    """The target of the link is created for its owner alone, with all files beside it."""
    (tmp_path / "runs.db").symlink_to(tmp_path / "elsewhere.db")
    runs = Runs(Durable(store=str(tmp_path / "runs.db")))
    await runs.start("a secret", key="r1")
    modes = {entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path)}
    await runs.close()
    assert modes == {0o600}


@pytest.mark.parametrize("made_up", MADE_UP)
async def test_a_run_with_a_question_that_somebody_made_up(made_up: str, tmp_path: Path) -> None:
    """The run says so, and the others are listed and can be cancelled as before."""
    file = tmp_path / "runs.db"
    runs = Runs(Durable(store=str(file)))
    for run in ("r1", "r2"):
        await runs.start("go", key=run)
    written(file, "INSERT INTO toolbus_questions VALUES ('r1', 1, 'q1', ?, 0)", made_up)
    listed = {info.id: info.error for info in await runs.recent()}
    assert listed == {"r1": "its record in the store was not written by toolbus", "r2": None}
    for run in ("r1", "r2"):
        await runs.cancel(run)
    await runs.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://u@127.0.0.1:1/db?sslpassword={SECRET}",
        f"postgresql://u:{SECRET}@127.0.0.1:port/db",
        f"postgresql://u:{SECRET}@[::1/db",
    ],
)
async def test_a_password_at_an_unusual_place_of_the_url_of_runs(url: str) -> None:
    """It is in no message, and in no command that a message suggests."""
    with pytest.raises(RunStoreError) as failed:
        await Runs(Durable(store=url)).start("go", key="r1")
    assert SECRET not in str(failed.value)
    assert SECRET not in without_passwords(f"toolbus runs show r1 --store {url}")


# The store of several gateways


@pytest.mark.parametrize("value", ["text", 1.5])
async def test_a_row_of_a_shared_store_with_another_type(value: object, tmp_path: Path) -> None:
    """It is treated as damaged, and other changes are still noticed, such as keys that are revoked."""
    file = tmp_path / "store.db"
    async with Store(parse_store_url(f"sqlite:///{file}"), Cipher([b"k" * 32])) as store:
        await store.put("key", "ann", b"1")
        await store.put("key", "bob", b"2")
        mirror = Mirror(store, "key")
        written(file, "UPDATE toolbus_store SET value = ?, mark = 1 WHERE name = 'ann'", value)
        await mirror.look()
        assert mirror.values == {"bob": b"2"}
        with pytest.raises(StoreError, match="is damaged"):
            await store.get("key", "ann")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}%zz@127.0.0.1:1/db",
        f"postgresql://u:{SECRET}%00@127.0.0.1:1/db",
        f"postgresql://u@127.0.0.1:1/db?{SECRET}",
        f"postgresql://u:12/{SECRET}@127.0.0.1:1/db",
        f"postgresql://{SECRET}:12#x@127.0.0.1:1/db",
    ],
)
async def test_a_password_that_is_not_encoded_in_the_url_of_a_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message quotes it, though the driver's own would."""
    monkeypatch.setattr(Store, "patience", 0.0)
    with pytest.raises((StoreError, ValueError)) as failed:
        await Store(parse_store_url(url), Cipher([b"k" * 32])).open()
    assert SECRET not in str(failed.value)
    assert SECRET not in str(failed.value.__cause__)


# Results that were cut


def test_a_user_who_fills_the_store_of_results() -> None:
    """Only their own results are dropped, however many sessions they open."""
    store = ResultStore(capacity=100)
    kept = store.keep(json.dumps("of ann"), ("", "ann", "1"))
    assert kept is not None
    for session in range(50):
        store.keep("x" * 40, ("", "mallory", str(session)))
    assert "of ann" in store.read(kept, owner=("", "ann", "1"))
    assert store.keep("x" * 99, ("", "mallory", "last")) is None, "there is no room, and ann's is not dropped"
    assert "of ann" in store.read(kept, owner=("", "ann", "1"))
