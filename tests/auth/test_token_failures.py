"""A store that cannot be used says what, where and the next step; what it holds is not lost, nor shown."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import keyring
import pytest
from keyring.backends import fail
from keyring.errors import KeyringLocked

from tests import warm
from tests.auth.keyrings import FileKeyring
from tests.auth.token_process import LOGIN, RESOURCE
from tests.inside.state import StoreCalls, TokenSource, open_tokens
from tests.patience import PATIENCE
from toolbus.errors import TokenStoreError

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


@pytest.fixture
async def tokens(folder: Path) -> TokenSource:
    """The login, in files."""
    tokens = open_tokens(f"file:{folder}")
    await tokens.save(LOGIN)
    return tokens


def login_file(folder: Path) -> Path:
    (file,) = (path for path in folder.glob("*.json") if "s3cret-access" in path.read_text())
    return file


def index_file(folder: Path) -> Path:
    (file,) = (path for path in folder.glob("*.json") if "logins" in path.read_text())
    return file


async def failure(tokens: TokenSource, *, saving: bool = False) -> TokenStoreError:
    """The error of finding, or of saving, the login; no part of it shows a token."""
    with pytest.raises(TokenStoreError) as caught:
        await (tokens.save(LOGIN) if saving else tokens.find(RESOURCE, "ann"))
    error = caught.value
    assert "s3cret" not in "".join(traceback.format_exception(error)) + repr(vars(error))
    chained = [error.__cause__, error.__context__]
    assert all("s3cret" not in repr(vars(one)) + str(one) for one in chained if one is not None)
    return error


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(LOGIN.to_json()), **values}).encode()


DAMAGED = {
    "empty": b"",
    "cut": LOGIN.to_json().encode()[:-9],
    "zeros": bytes(300),
    "not UTF-8": LOGIN.to_json().encode().replace(b"s3cret-access", b"s3cret\xff"),
    "a list": b'["s3cret"]',
    "deep": b"[" * 100_000,
    "no version": changed(v=None),
    "a number for a token": changed(access=5),
    "a text for a mapping": changed(client="s3cret"),
    "another user's": changed(user="ben"),
    "another issuer's": changed(issuer="https://thief.example"),
    "another server's": changed(resource="https://thief.example/mcp"),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_login(
    content: bytes, tokens: TokenSource, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused and left as it is; a new login keeps it aside."""
    file = login_file(folder)
    file.write_bytes(content)

    error = await failure(tokens)
    assert (error.reason, error.place) == ("damaged", str(file))
    assert str(error) == (
        f"tokens in {file}: the login of 'ann' for {RESOURCE} is damaged, and was left as it is; "
        "sign in again; it will be kept aside"
    )
    assert file.read_bytes() == content

    await tokens.save(LOGIN)
    assert await tokens.find(RESOURCE, "ann") == LOGIN
    assert file.with_suffix(".corrupt").read_bytes() == content
    assert f"the login of 'ann' for {RESOURCE} was damaged; it is kept aside in {folder}" in caplog.text
    file.write_bytes(b"again")
    await tokens.save(LOGIN)
    assert file.with_suffix(".corrupt").read_bytes() == content
    assert file.with_suffix(".corrupt2").read_bytes() == b"again"


@pytest.mark.parametrize("content", [b"{", b'{"v": 1, "logins": ["ann"]}', b'{"v": 1, "logins": {"ann": 5}}'])
async def test_a_damaged_list_of_logins(content: bytes, tokens: TokenSource, folder: Path) -> None:
    """It is refused and left as it is; a new login keeps it aside."""
    file = index_file(folder)
    file.write_bytes(content)

    assert str(await failure(tokens)) == (
        f"tokens in {file}: the list of logins for {RESOURCE} is damaged, and was left as it is; "
        "sign in again; it will be kept aside"
    )
    await tokens.save(LOGIN)
    assert await tokens.logins(RESOURCE) == [LOGIN]
    assert file.with_suffix(".corrupt").read_bytes() == content


class DictStore:
    """A store of a user."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def load(self, key: str) -> str | None:
        return self.values.get(key)

    def save(self, key: str, value: str) -> None:
        self.values[key] = value

    def remove(self, key: str) -> None:
        self.values.pop(key, None)


async def test_a_damaged_login_in_a_custom_store() -> None:
    """It is kept under another key."""
    store = DictStore()
    tokens = open_tokens(store)
    await tokens.save(LOGIN)
    key = f"login {LOGIN.issuer} {RESOURCE} ann"
    for content in ("{s3cret", "{s3cret", "more s3cret"):
        store.values[key] = content
        assert str(await failure(tokens)).startswith("tokens in DictStore: the login of 'ann' for")
        await tokens.save(LOGIN)

    assert store.values == {
        key: LOGIN.to_json(),
        f"index {RESOURCE}": json.dumps({"v": 1, "logins": {"ann": LOGIN.issuer}}),
        f"{key} corrupt 1": "{s3cret",
        f"{key} corrupt 2": "more s3cret",
    }


@pytest.mark.parametrize("content", [changed(v=2), changed(invented="s3cret")], ids=["version", "field"])
async def test_a_login_of_a_newer_version(content: bytes, tokens: TokenSource, folder: Path) -> None:
    """It is refused, and not replaced either."""
    file = login_file(folder)
    file.write_bytes(content)

    for saving in (False, True):
        error = await failure(tokens, saving=saving)
        assert error.reason == "newer"
        assert str(error) == (
            f"tokens in {file}: the login of 'ann' for {RESOURCE} was written by a newer version of toolbus, "
            "and was left as it is; update toolbus, or choose another place: tokens: file:DIR"
        )
    assert file.read_bytes() == content


def run(command: str) -> None:
    subprocess.run(command, shell=True, check=True)


@pytest.mark.parametrize(("mode", "verb"), [(0o644, "read"), (0o640, "read"), (0o660, "write")])
async def test_a_file_that_others_can_access(mode: int, verb: str, tokens: TokenSource, folder: Path) -> None:
    """It is refused, with the command that protects it."""
    file = login_file(folder)
    file.chmod(mode)

    for saving in (False, True):
        error = await failure(tokens, saving=saving)
        assert (error.reason, error.place) == ("exposed", str(file))
        assert str(error) == (
            f"tokens in {file}: other users can {verb} this file; protect it: chmod 600 {file}; "
            "sign in again if anyone did"
        )
    assert file.read_text() == LOGIN.to_json()
    run(str(error).partition("protect it: ")[2].partition(";")[0])
    assert await tokens.find(RESOURCE, "ann") == LOGIN


async def test_a_folder_that_others_can_write(tokens: TokenSource, folder: Path) -> None:
    """It is refused, with the command that protects it."""
    os.chmod(folder, 0o770)
    for saving in (False, True):
        assert str(await failure(tokens, saving=saving)) == (
            f"tokens in {folder}: other users can write this folder; protect it: chmod 700 {folder}; "
            "sign in again if anyone did"
        )
    assert login_file(folder).read_text() == LOGIN.to_json()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_a_file_or_folder_of_another_user(tokens: TokenSource, folder: Path) -> None:
    """It is refused."""
    for path in (login_file(folder), folder):
        os.chown(path, NOBODY, -1)
        for saving in (False, True):
            assert str(await failure(tokens, saving=saving)) == (
                f"tokens in {path}: it belongs to another user; choose another place: tokens: file:DIR"
            )


def in_process(mode: str, folder: Path, *arguments: str) -> list[str]:
    words = ["-m", "tests.auth.token_process", mode, f"file:{folder}", *arguments]
    done = warm.run("python", words, ROOT, os.environ, "", PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def unwritable(file: Path, cause: str) -> str:
    return (
        f"unwritable | tokens in {file}: it cannot be written ({cause}); check the permissions of the file "
        "and its folder, or choose another place: tokens: file:DIR"
    )


def test_a_read_only_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The login is found; saving says why it cannot."""
    with tempfile.TemporaryDirectory() as place:  # not in a folder of root's
        folder = Path(place, "tokens")
        monkeypatch.setenv("XDG_STATE_HOME", str(Path(place, "state")))
        asyncio.run(open_tokens(f"file:{folder}").save(LOGIN))
        file = login_file(folder)
        for path in (Path(place), folder, *folder.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, NOBODY, -1)
        folder.chmod(0o500)
        (folder / "locks").chmod(0o500)
        try:
            assert in_process("read-only", folder, str(NOBODY)) == [
                unwritable(file, "Permission denied"),
                "True",
            ]
        finally:
            (folder / "locks").chmod(0o700)
            folder.chmod(0o700)


async def test_a_full_disk(tokens: TokenSource, folder: Path) -> None:
    """The old login stays whole."""
    before = sorted(os.listdir(folder))

    assert in_process("full", folder) == [unwritable(login_file(folder), "File too large"), "True"]
    assert sorted(os.listdir(folder)) == before
    assert await tokens.find(RESOURCE, "ann") == LOGIN


async def test_no_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found, and saving says what to set."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # without an entry in the list of users
    tokens = open_tokens("auto")

    assert await tokens.find(RESOURCE, "ann") is None
    assert str(await failure(tokens, saving=True)) == (
        "tokens in the state folder: there is no home for it; set HOME or XDG_STATE_HOME, or choose another "
        "place: tokens: file:DIR"
    )
    await tokens.remove(LOGIN)


async def test_a_keyring_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    tokens = open_tokens("keyring")
    error = await failure(tokens)
    assert error.reason == "unavailable"
    assert str(error) == (
        "tokens in the system keyring: there is no keyring on this system; install a backend, "
        "or set tokens: auto"
    )
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert str(await failure(tokens, saving=True)) == (
        "tokens in the system keyring: the keyring package is not installed; "
        'pip install "toolbus[keyring]", or set tokens: auto'
    )


def locked() -> None:
    raise KeyringLocked("s3cret")


async def test_a_keyring_that_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named by the class of its error only; one that waits for its user is not waited for forever."""
    keyring.set_keyring(FileKeyring(tmp_path / "keyring.json", locked))
    for setting in ("auto", "keyring"):
        assert str(await failure(open_tokens(setting))) == (
            "tokens in the system keyring: load raised KeyringLocked; unlock it, or set tokens: file:DIR"
        )
    unlocked = Event()
    keyring.set_keyring(FileKeyring(tmp_path / "keyring.json", unlocked.wait))
    monkeypatch.setattr(StoreCalls, "seconds", 0.05)
    try:
        assert str(await failure(open_tokens("keyring"))) == (
            "tokens in the system keyring: load did not return within 0.05 s; unlock it, "
            "or set tokens: file:DIR"
        )
    finally:
        unlocked.set()


class BrokenStore(DictStore):
    """A store that raises what it was given."""

    def load(self, key: str) -> str | None:
        raise ConnectionError(f"lost while reading {LOGIN.to_json()}")

    async def remove(self, key: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise TimeoutError(LOGIN.to_json())


async def test_a_custom_store_that_raises_with_a_token_in_its_text() -> None:
    """It is named by the class of its error only."""
    tokens = open_tokens(BrokenStore())
    for saving in (False, True):
        error = await failure(tokens, saving=saving)
        assert str(error) == "tokens in BrokenStore: load raised ConnectionError; check the store"
    with pytest.raises(TokenStoreError, match="remove raised TimeoutError; check the store") as caught:
        await tokens.remove(LOGIN)
    assert caught.value.__context__ is None


class HangingStore(DictStore):
    async def load(self, key: str) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.Event().wait()


async def test_a_custom_store_that_hangs_or_returns_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for forever, and nothing but a text is taken."""
    monkeypatch.setattr(StoreCalls, "seconds", 0.05)
    assert str(await failure(open_tokens(HangingStore()))) == (
        "tokens in HangingStore: load did not return within 0.05 s; check the store"
    )
    store = DictStore()
    store.values[f"index {RESOURCE}"] = b"s3cret"
    monkeypatch.undo()
    assert str(await failure(open_tokens(store))) == (
        "tokens in DictStore: load returned bytes, not a string; check the store"
    )


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("keyrng", "'keyrng'"),
        ("file:", "'file:'"),
        (5, "int"),
        (None, "NoneType"),
        (DictStore, f"{DictStore!r}"),
    ],
)
def test_a_setting_that_is_not_a_store(setting: object, shown: str) -> None:
    with pytest.raises(TokenStoreError) as caught:
        open_tokens(setting)
    assert str(caught.value) == (
        f"tokens in {shown}: there is no such store; use auto, keyring, memory, file:DIR, or an object with "
        "load, save and remove"
    )


async def test_a_login_without_a_user_is_named_by_its_server(folder: Path) -> None:
    tokens = open_tokens(f"file:{folder}")
    login = replace(LOGIN, user="", resource="https://hub.example/mcp?key=s3cret")
    await tokens.save(login)
    login_file(folder).write_text("{")
    with pytest.raises(TokenStoreError, match=r"the login for https://hub\.example/mcp is damaged"):
        await tokens.find(login.resource, "")
