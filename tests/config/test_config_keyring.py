"""`${keyring:service/name}`: a secret from the system's keyring, by a backend of the keyring package."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null

from tests.cli.running import toolbus
from tests.patience import PATIENCE
from toolbus.config import Resolved, Secrets, load_server, resolved
from toolbus.errors import ConfigError, SecretMissing


class FileKeyring(KeyringBackend):
    """Passwords in a JSON file."""

    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]  as keyring wants it

    def __init__(self, file: Path, before: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._file = file
        self._before = before

    def get_password(self, service: str, username: str) -> str | None:
        self._before()
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._file.write_text(json.dumps({**self._read(), f"{service} {username}": password}))

    def _read(self) -> dict[str, str]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}


@pytest.fixture(autouse=True)
def chosen(tmp_path: Path) -> Iterator[FileKeyring]:
    """The keyring of this test, with one password."""
    before = keyring.get_keyring()
    own = FileKeyring(tmp_path / "passwords.json")
    keyring.set_keyring(own)
    keyring.set_password("hub.example", "ann", "s3cret-word")
    yield own
    keyring.set_keyring(before)


def resolve(text: str, secrets: Secrets | None = None) -> Resolved:
    entry = load_server({"command": "x", "env": {"V": text}}, alias="a")
    return asyncio.run(resolved(entry, secrets or Secrets()))


def missing(text: str, secrets: Secrets | None = None) -> str:
    with pytest.raises(SecretMissing) as caught:
        resolve(text, secrets)
    assert caught.value.reference == text[2:-1]
    return str(caught.value)


def test_a_secret_comes_from_the_keyring_and_is_shown_nowhere() -> None:
    made = resolve("Bearer ${keyring:hub.example/ann}")

    assert made.env == {"V": "Bearer s3cret-word"}
    assert made.redacted("refused: s3cret-word") == "refused: ***"
    assert "s3cret" not in repr(made)


def test_the_last_slash_divides_service_and_name() -> None:
    keyring.set_password("https://hub.example", "ben", "other-word")

    assert resolve("${keyring:https://hub.example/ben}").env == {"V": "other-word"}


def test_an_entry_that_is_not_there_is_named_with_the_line_to_store_it() -> None:
    assert missing("${keyring:my hub/ben}") == (
        "server 'a': env.V: secret 'keyring:my hub/ben' is not in the keyring; "
        "store it: keyring set 'my hub' ben"
    )
    keyring.set_keyring(null.Keyring())
    assert "is not in the keyring" in missing("${keyring:hub.example/ann}")


def test_a_system_without_a_keyring_is_said_so() -> None:
    keyring.set_keyring(fail.Keyring())

    assert missing("${keyring:hub.example/ann}") == (
        "server 'a': env.V: secret 'keyring:hub.example/ann' cannot be read: there is no keyring on this "
        "system; install a backend, or use ${NAME}"
    )


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    assert missing("${keyring:hub.example/ann}") == (
        "server 'a': env.V: secret 'keyring:hub.example/ann' needs the keyring package; "
        'pip install "toolbus[keyring]"'
    )


def test_a_backend_that_fails_is_quoted_by_the_class_of_its_error_only(tmp_path: Path) -> None:
    (tmp_path / "passwords.json").write_text("s3cret, and no JSON")

    assert missing("${keyring:hub.example/ann}").endswith("cannot be read from the keyring (JSONDecodeError)")


def test_a_keyring_that_waits_for_its_user_does_not_block_the_loop(tmp_path: Path) -> None:
    unlocked = Event()
    keyring.set_keyring(FileKeyring(tmp_path / "passwords.json", lambda: unlocked.wait(PATIENCE)))
    entry = load_server({"command": "${keyring:hub.example/ann}"})

    async def both() -> str | None:
        task = asyncio.create_task(resolved(entry, Secrets()))
        await asyncio.sleep(0)
        unlocked.set()  # only reached while the keyring waits if the loop is free
        return (await asyncio.wait_for(task, PATIENCE)).command

    assert asyncio.run(both()) == "s3cret-word"


def test_a_keyring_that_nobody_unlocks_is_not_waited_for_without_end(tmp_path: Path) -> None:
    unlocked = Event()
    keyring.set_keyring(FileKeyring(tmp_path / "passwords.json", unlocked.wait))
    secrets = Secrets()
    secrets.keyring_seconds = 0.05
    try:
        assert "was not returned by the keyring within 0.05 s" in missing("${keyring:hub/ann}", secrets)
    finally:
        unlocked.set()


@pytest.mark.parametrize("text", ["${keyring:}", "${keyring:hub}", "${keyring:/ann}", "${keyring:hub/}"])
def test_a_reference_without_service_or_name_is_found_when_the_config_is_read(text: str) -> None:
    with pytest.raises(ConfigError, match="malformed reference"):
        load_server({"command": text})


def test_the_review_of_a_found_config_shows_what_it_takes_from_the_keyring(tmp_path: Path) -> None:
    (folder := tmp_path / "work").mkdir()
    (folder / "toolbus.yaml").write_text('servers: {a: {command: x, args: ["${keyring:hub.example/ann}"]}}')

    facts = json.loads(toolbus("trust", "--json", folder=folder).stdout)["servers"]["a"]

    assert facts["secrets"] == [
        {"reference": "${keyring:hub.example/ann}", "source": "from your keyring"},
    ]
