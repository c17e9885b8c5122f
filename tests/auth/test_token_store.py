"""Logins are kept in the place that the config names, by issuer, server and user, and shown nowhere."""

import asyncio
import json
import logging
import os
import pickle
import sys
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import MappingProxyType

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import chainer, fail, null

from tests.auth.keyrings import FileKeyring
from tests.auth.token_process import LOGIN, RESOURCE
from tests.inside.state import Login, StoreCalls, TokenLocks, TokenSource, described_keyring, open_tokens
from tests.patience import PATIENCE
from toolbus import TokenStore

pytestmark = pytest.mark.anyio
ISSUER = LOGIN.issuer


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileKeyring]:
    """The keyring of this test; it also has a state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = keyring.get_keyring()
    own = FileKeyring(tmp_path / "keyring.json")
    keyring.set_keyring(own)
    yield own
    keyring.set_keyring(before)


class PlainStore:
    """A store of a user, with plain methods."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def load(self, key: str) -> str | None:
        return self.values.get(key)

    def save(self, key: str, value: str) -> None:
        self.values[key] = value

    def remove(self, key: str) -> None:
        self.values.pop(key, None)


class AsyncStore(PlainStore):
    """The same, with async methods; `load` is a plain one that returns something to await."""

    def load(self, key: str) -> Awaitable[str | None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        async def found() -> str | None:
            return self.values.get(key)

        return found()

    async def save(self, key: str, value: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.values[key] = value

    async def remove(self, key: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.values.pop(key, None)


@pytest.fixture(params=["memory", "keyring", "auto", "files", "file:DIR", "plain", "async"])
def tokens(request: pytest.FixtureRequest, tmp_path: Path) -> TokenSource:
    """Every store."""
    match request.param:
        case "files":
            keyring.set_keyring(fail.Keyring())
            return open_tokens("auto")
        case "file:DIR":
            return open_tokens(f"file:{tmp_path / 'a' / 'b'}")
        case "plain":
            return open_tokens(PlainStore())
        case "async":
            return open_tokens(AsyncStore())
        case setting:
            return open_tokens(setting)


async def test_a_login_is_found_again_and_removed(tokens: TokenSource) -> None:
    assert await tokens.find(RESOURCE, "ann") is None
    async with tokens.lock(RESOURCE, "ann"):
        await tokens.save(LOGIN)
        assert await tokens.find(RESOURCE, "ann") == LOGIN
        renewed = replace(LOGIN, access="s3cret-new", metadata=MappingProxyType({"a": ["b"]}), refresh=None)
        await tokens.save(renewed)
    found = await tokens.find(RESOURCE, "ann", ISSUER)
    assert found == replace(renewed, metadata={"a": ["b"]})
    await tokens.remove(LOGIN)
    assert await tokens.find(RESOURCE, "ann") is None
    assert await tokens.find(RESOURCE, "ann", ISSUER) is None
    await tokens.remove(LOGIN)  # again: there is nothing


async def test_users_servers_and_issuers_are_kept_apart(tokens: TokenSource) -> None:
    ben, other = replace(LOGIN, user="ben"), replace(LOGIN, resource="https://other.example/mcp")
    nobody = replace(LOGIN, user="")
    for login in (ben, LOGIN, other, nobody):
        await tokens.save(login)

    assert await tokens.logins(RESOURCE) == [nobody, LOGIN, ben]
    assert await tokens.logins(other.resource) == [other]
    assert await tokens.find(RESOURCE, "cat") is None
    assert await tokens.find(RESOURCE, "ann", "https://thief.example") is None
    await tokens.remove(LOGIN)
    assert await tokens.logins(RESOURCE) == [nobody, ben]


async def test_the_login_of_a_new_issuer_takes_the_place_of_the_old_one(tokens: TokenSource) -> None:
    """A mere registration there does not."""
    registered = replace(LOGIN, issuer="https://new.example", access="", refresh=None)
    await tokens.save(LOGIN)
    await tokens.save(registered)
    assert await tokens.find(RESOURCE, "ann") == LOGIN
    assert await tokens.find(RESOURCE, "ann", registered.issuer) == registered

    moved = replace(registered, access="s3cret-moved")
    await tokens.save(moved)
    assert await tokens.find(RESOURCE, "ann") == moved
    assert await tokens.find(RESOURCE, "ann", ISSUER) is None
    await tokens.remove(LOGIN)  # the old one
    assert await tokens.logins(RESOURCE) == [moved]


async def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    keyring.set_keyring(fail.Keyring())
    for setting, folder in (
        ("auto", tmp_path / "state" / "toolbus" / "tokens"),
        (f"file:{tmp_path}/x", tmp_path / "x"),
    ):
        tokens = open_tokens(setting)
        async with tokens.lock(RESOURCE, "ann"):
            await tokens.save(LOGIN)
        assert tokens.place == str(folder)
        assert {path.stat().st_mode & 0o777 for path in (folder, folder / "locks")} == {0o700}
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert [path.suffix for path in folder.glob("*.*")] == [".json", ".json"]


def test_the_folder_of_files_may_be_below_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert [open_tokens(setting).place for setting in ("file:~/x", "file:/x")] == ["/home/ann/x", "/x"]
    assert open_tokens("file:x").place == os.path.abspath("x")


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text() if name.endswith(".json") else ""


async def test_removing_a_login_removes_what_a_killed_write_left(tmp_path: Path) -> None:
    tokens = open_tokens(f"file:{tmp_path}")
    await tokens.save(LOGIN)
    (file,) = (name for name in os.listdir(tmp_path) if "s3cret" in read(tmp_path, name))
    (tmp_path / f".{file}.draft-x1").write_text("s3cret-access")

    await tokens.remove(LOGIN)

    assert os.listdir(tmp_path) == ["locks"]


@pytest.mark.parametrize("backend", [fail.Keyring(), null.Keyring(), chainer.ChainerBackend(), None])
async def test_auto_uses_files_where_there_is_no_keyring(
    backend: KeyringBackend | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend is None:
        monkeypatch.setitem(sys.modules, "keyring", None)  # not installed
    else:
        # A chain takes every backend that there is: none, on a machine without a keyring.
        monkeypatch.setattr("keyring.backend.get_all_keyring", list[object])
        keyring.set_keyring(backend)
    tokens = open_tokens("auto")
    files = str(tmp_path / "state" / "toolbus" / "tokens")
    assert tokens.place == f"the system keyring, or {files}"
    await tokens.save(LOGIN)
    assert tokens.place == files


async def test_auto_uses_files_if_the_keyring_is_broken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", None)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "no_such_module.Keyring")

    assert await open_tokens("auto").find(RESOURCE, "ann") is None

    assert "the keyring cannot be used (ModuleNotFoundError); tokens are kept in files" in caplog.text


async def test_the_keyring_has_an_entry_for_each_login(ring: FileKeyring) -> None:
    tokens = open_tokens("auto")
    await tokens.save(LOGIN)

    assert tokens.place == "the system keyring"
    assert {name: json.loads(value) for name, value in ring.entries.items()} == {
        f"toolbus login {ISSUER} {RESOURCE} ann toolbus": json.loads(LOGIN.to_json()),
        f"toolbus index {RESOURCE} toolbus": {"v": 1, "logins": {"ann": ISSUER}},
    }


async def test_a_keyring_with_small_entries_holds_a_login_in_pieces(ring: FileKeyring) -> None:
    """As on Windows, where an entry has at most 2,560 bytes."""
    tokens = TokenSource(described_keyring(piece=50), TokenLocks([]))
    await tokens.save(LOGIN)
    await tokens.save(replace(LOGIN, access="s3cret-" + "x" * 500))
    long = len(ring.entries)
    assert max(map(len, ring.entries.values())) == 50
    await tokens.save(LOGIN)
    assert len(ring.entries) < long
    assert await tokens.logins(RESOURCE) == [LOGIN]
    await tokens.remove(LOGIN)
    assert ring.entries == {}


async def test_stores_do_not_block_the_loop(tmp_path: Path) -> None:
    unlocked = Event()
    keyring.set_keyring(FileKeyring(tmp_path / "keyring.json", lambda: unlocked.wait(PATIENCE)))
    finding = asyncio.create_task(open_tokens("auto").find(RESOURCE, "ann"))
    await asyncio.sleep(0)
    unlocked.set()  # only reached while the keyring waits if the loop is free
    assert await asyncio.wait_for(finding, PATIENCE) is None


class SlowStore(PlainStore):
    """A store whose `save` begins, and then waits."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()

    async def save(self, key: str, value: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.began.set()
        await self.goes_on.wait()
        self.values[key] = value


async def test_a_save_that_is_cancelled_goes_on_to_its_end_under_the_lock() -> None:
    """A refresh token that was used is not lost, and nobody else reads the old one meanwhile."""
    store, left = SlowStore(), asyncio.Event()
    tokens = open_tokens(store)

    @asynccontextmanager
    async def locked() -> AsyncGenerator[None]:
        async with tokens.lock(RESOURCE, "ann"):
            yield
        left.set()

    async def renew() -> None:
        async with locked():
            await tokens.save(LOGIN)

    renewing = asyncio.create_task(renew())
    await asyncio.wait_for(store.began.wait(), PATIENCE)
    renewing.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not left.is_set()
    store.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(renewing, PATIENCE)
    assert await tokens.find(RESOURCE, "ann") == LOGIN


async def test_no_token_is_shown_or_pickled(tokens: TokenSource, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with tokens.lock(RESOURCE, "ann"):
        await tokens.save(LOGIN)
        found = await tokens.find(RESOURCE, "ann")
    hidden = replace(LOGIN, resource="https://ann:s3cret@hub.example/mcp?key=s3cret#s3cret")

    shown = f"{tokens!r} {tokens} {found!r} {found} {await tokens.logins(RESOURCE)} {hidden!r} {caplog.text}"
    assert "s3cret" not in shown
    assert repr(found) == f"Login(issuer='{ISSUER}', resource='{RESOURCE}', user='ann')"
    with pytest.raises(TypeError, match="a login is not pickled: it contains tokens"):
        pickle.dumps(found)
    with pytest.raises(TypeError, match="a token store is not pickled"):
        pickle.dumps(tokens)


def test_a_store_is_any_object_with_the_three_methods() -> None:
    stores: list[TokenStore] = [PlainStore(), AsyncStore()]
    assert all(isinstance(store, TokenStore) for store in stores)
    assert repr(open_tokens(stores[0])) == "Tokens('PlainStore')"
    tokens = open_tokens("memory")
    assert open_tokens(tokens) is tokens
    assert StoreCalls.seconds == TokenSource.lock_seconds == 60


def test_every_field_of_a_login_survives() -> None:
    assert Login.from_json(LOGIN.to_json()) == LOGIN
    least = Login(issuer="i", resource="r")
    assert Login.from_json(least.to_json()) == least
