"""Keys: stored as digests, looked up in memory, refused once they expire or are revoked."""

import json
import logging
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.requests import Clock
from tests.inside.gateway import (
    LOOK_SECONDS,
    CredentialDenied,
    CredentialHolder,
    KeyExists,
    Keys,
    Principal,
    StoredKey,
    StoredKeys,
    digest_of_key,
    file_keys,
    hour_of,
    key_files,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolbus" / "gateway"


class Gateway:
    """The keys of a config, as its owner and as a running gateway sees them."""

    def __init__(self, folder: Path) -> None:
        self.now = Clock()
        self.clock = Clock()
        self.stored = file_keys(folder / "toolbus.yaml", self.now)
        self.keys = Keys(self.stored, "default", now=self.now, clock=self.clock)

    def principal(self, key: str) -> Principal:
        return Principal(kind="key", name="any", key=digest_of_key(key))

    def reason(self, key: str) -> str:
        with pytest.raises(CredentialDenied) as denied:
            self.keys.identity(key)
        return denied.value.reason


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


async def test_a_key_says_who_holds_it(gateway: Gateway) -> None:
    plain, _ = gateway.stored.add("ci")
    expires = gateway.now() + 60
    full, _ = gateway.stored.add("ann", views=("research", "all"), user="ann@example.com", expires=expires)
    assert gateway.keys.identity(plain) == CredentialHolder(
        kind="key", name="ci", views=("default",), key=digest_of_key(plain)
    )
    assert gateway.keys.identity(full) == CredentialHolder(
        kind="key",
        name="ann",
        user="ann@example.com",
        views=("research", "all"),
        expires=expires,
        key=digest_of_key(full),
    )
    assert plain.startswith("tb_")
    assert len({plain, full, *(gateway.stored.add(f"k{n}")[0] for n in range(20))}) == 22


async def test_a_key_that_was_never_made(gateway: Gateway) -> None:
    """It is refused, and the refusal does not quote it."""
    key, _ = gateway.stored.add("ann")
    for wrong in (key[:-1], f"{key}A", key.upper(), "tb_", "tb_ü\udcff"):
        assert gateway.reason(wrong) == "unknown key"
    assert gateway.keys.identity(key).name == "ann"


async def test_an_expired_key(gateway: Gateway) -> None:
    """It is refused from that second on."""
    key, _ = gateway.stored.add("ann", expires=gateway.now() + 60)
    gateway.now.pass_(59)
    assert gateway.keys.identity(key).name == "ann"
    gateway.now.pass_(1)
    assert gateway.reason(key) == "the key 'ann' has expired"


async def test_a_revoked_key(gateway: Gateway) -> None:
    """A running gateway refuses it once it has looked, a second later."""
    key, _ = gateway.stored.add("ann")
    other, _ = gateway.stored.add("bob")
    assert gateway.keys.identity(key)
    assert gateway.stored.revoke("ann")
    assert not gateway.stored.revoke("ann")
    gateway.clock.pass_(LOOK_SECONDS)
    assert gateway.reason(key) == "unknown key"
    assert gateway.keys.identity(other).name == "bob"
    assert not gateway.keys.has(gateway.principal(key))
    assert gateway.keys.has(gateway.principal(other))


async def test_a_principal_is_known_by_its_key_its_user_and_its_view_and_not_by_its_name(
    gateway: Gateway,
) -> None:
    key, _ = gateway.stored.add("ann", views=("all", "own"), user="ann", expires=gateway.now() + 60)
    ann = Principal(kind="key", name="ann", user="ann", view="own", key=digest_of_key(key))
    assert gateway.keys.has(ann)
    assert gateway.keys.has(replace(ann, view="all"))
    others: list[dict[str, str]] = [{"user": "bob"}, {"view": "default"}, {"key": digest_of_key("tb_other")}]
    for other in others:
        assert not gateway.keys.has(replace(ann, **other))
    gateway.now.pass_(60)
    assert not gateway.keys.has(ann)


async def test_a_key_that_is_added_is_known_a_second_later(gateway: Gateway) -> None:
    assert gateway.reason("tb_x") == "unknown key"
    key, _ = gateway.stored.add("ann")
    assert gateway.reason(key) == "unknown key"
    gateway.clock.pass_(LOOK_SECONDS)
    assert gateway.keys.identity(key).name == "ann"


class Counted(StoredKeys):
    """Counts how often the file is read."""

    reads = 0

    def all(self) -> list[StoredKey]:
        self.reads += 1
        return super().all()


async def test_the_file_is_not_read_for_each_request(tmp_path: Path) -> None:
    stored, clock = Counted(key_files(tmp_path / "toolbus.yaml")), Clock()
    key, _ = stored.add("ann")
    keys = Keys(stored, "default", clock=clock)
    keys.identity(key)
    await keys.recorded()
    before = stored.reads
    for _ in range(100):
        clock.pass_(0.1)
        keys.identity(key)
    assert stored.reads == before


def test_what_is_stored_is_a_digest_that_only_its_user_can_read(gateway: Gateway, state: Path) -> None:
    key, made = gateway.stored.add("ann", user="ann")
    [file] = state.glob("*.keys.json")
    content = file.read_text()
    assert key not in content
    assert key.removeprefix("tb_") not in content
    assert made.digest not in repr(made)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert gateway.stored.all() == [made]


def test_a_name_is_used_once(gateway: Gateway) -> None:
    gateway.stored.add("ann")
    with pytest.raises(KeyExists, match="there is a key named 'ann'; choose another name, or revoke it"):
        gateway.stored.add("ann")


def test_the_keys_of_another_config(tmp_path: Path, gateway: Gateway) -> None:
    """A key lets nobody into another gateway."""
    gateway.stored.add("ann")
    assert file_keys(tmp_path / "other.yaml").all() == []


def damage(file: Path) -> None:
    file.write_text("{")


def name_another(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "file": "/elsewhere"}))


def share(file: Path) -> None:
    file.chmod(0o666)


@pytest.mark.parametrize("spoil", [damage, name_another, share])
def test_a_file_of_keys_that_cannot_be_trusted(
    gateway: Gateway, state: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """It lets nobody in, and the log says why, once."""
    key, _ = gateway.stored.add("ann")
    [file] = state.glob("*.keys.json")
    spoil(file)
    with caplog.at_level(logging.WARNING, "toolbus"):
        assert gateway.reason(key) == "unknown key"
        gateway.clock.pass_(LOOK_SECONDS)
        assert gateway.reason(key) == "unknown key"
    assert [record.message.partition(":")[0] for record in caplog.records] == ["no key is accepted"]


async def test_the_last_use_is_known_to_the_hour_and_not_before_the_key_was_made(gateway: Gateway) -> None:
    key, made = gateway.stored.add("ann")
    assert gateway.stored.used() == {}
    gateway.keys.identity(key)
    await gateway.keys.recorded()
    assert gateway.stored.used() == {made.digest: made.created}
    gateway.now.pass_(7200)
    gateway.keys.identity(key)
    await gateway.keys.recorded()
    assert gateway.stored.used() == {made.digest: hour_of(gateway.now())}


async def test_recording_a_use_never_brings_a_revoked_key_back(gateway: Gateway) -> None:
    key, _ = gateway.stored.add("ann")
    gateway.keys.identity(key)
    gateway.stored.revoke("ann")
    gateway.stored.record_use({"0" * 64: gateway.now()})
    await gateway.keys.recorded()
    assert (gateway.stored.all(), gateway.stored.used()) == ([], {})
