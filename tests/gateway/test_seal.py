"""Values that clients carry: usable only by their owner, for their purpose, until they expire."""

import os
import stat
from pathlib import Path

import pytest

from tests.gateway.requests import Clock
from tests.inside.gateway import carried_files
from tests.inside.state import FileExposed, Seal, kept_key

VALUE = {"server": "files", "state": "naïve ☃", "round": 2}


def stored_key(config: Path) -> bytes:
    files = carried_files(config)
    return files.wait(kept_key(files))


def sealed(clock: Clock) -> tuple[Seal, str]:
    seal = Seal(os.urandom(32), clock)
    return seal, seal.seal("state", "key:ann", VALUE, 60)


def test_a_value_comes_back_to_whom_it_was_given() -> None:
    seal, text = sealed(Clock())
    assert seal.opened("state", "key:ann", text) == VALUE
    assert seal.seal("state", "key:ann", VALUE, 60) != text
    assert "files" not in text


def test_the_sealed_value_of_another_principal() -> None:
    """Nobody can use it but the one it was given to."""
    seal, text = sealed(Clock())
    assert seal.opened("state", "key:bob", text) is None
    assert seal.opened("state", "", text) is None


def test_a_sealed_value_for_another_purpose() -> None:
    """A session id is never taken for the state of a call."""
    seal, text = sealed(Clock())
    assert seal.opened("session", "key:ann", text) is None
    # Nor can the border between purpose and principal be moved.
    assert seal.opened("statekey:", "ann", text) is None


def test_a_sealed_value_that_expired() -> None:
    """It is of no use any more."""
    clock = Clock()
    seal, text = sealed(clock)
    clock.pass_(59)
    assert seal.opened("state", "key:ann", text) == VALUE
    clock.pass_(1)
    assert seal.opened("state", "key:ann", text) is None


def test_a_sealed_value_with_any_character_changed() -> None:
    """Every change is noticed."""
    seal, text = sealed(Clock())
    for place, sign in enumerate(text):
        changed = text[:place] + ("A" if sign != "A" else "B") + text[place + 1 :]
        # The last character may hold bits that count for nothing.
        if seal.opened("state", "key:ann", changed) is not None:
            assert place == len(text) - 1
    for wrong in ("", "A", text[:10], text + "AAAA", "☃" * 40, "=" * 60, text.replace("A", " ")):
        assert wrong == text or seal.opened("state", "key:ann", wrong) is None


def test_the_key_outlives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config, other = tmp_path / "toolbus.yaml", tmp_path / "other.yaml"
    key = stored_key(config)
    assert (len(key), stored_key(config)) == (32, key)
    assert stored_key(other) != key
    text = Seal(key).seal("state", "key:ann", VALUE, 60)
    assert Seal(stored_key(config)).opened("state", "key:ann", text) == VALUE
    assert Seal(stored_key(other)).opened("state", "key:ann", text) is None


def test_a_key_that_others_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway does not use it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stored_key(tmp_path / "toolbus.yaml")
    [file] = (tmp_path / "state" / "toolbus" / "gateway").glob("*.seal")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with pytest.raises(FileExposed):
        stored_key(tmp_path / "toolbus.yaml")
