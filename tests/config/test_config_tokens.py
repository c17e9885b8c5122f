"""`tokens`: where the tokens of people who sign in are kept."""

from pathlib import Path

import pytest

from tests.config.conftest import misfits
from tests.config.test_config_editors import taken_over
from toolbus.config import BusConfig, load_config
from toolbus.errors import ConfigError

SERVERS = {"a": {"command": "x"}}


class Store:
    def load(self, key: str) -> str | None:
        return None

    async def save(self, key: str, value: str) -> None: ...

    def remove(self, key: str) -> None: ...


@pytest.mark.parametrize("place", ["auto", "keyring", "memory"])
def test_a_place_is_named_by_one_word(place: str) -> None:
    assert load_config({"servers": SERVERS, "tokens": place}).tokens == place
    assert load_config({"servers": SERVERS}).tokens == "auto"
    assert load_config({"a": {"command": "x"}, "tokens": place}).tokens == place


def test_a_relative_folder_lies_beside_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    path = tmp_path / "toolbus.yaml"
    found: list[object] = []
    for written in ("file:tokens", "file:../t", "file:~/t", "file:/var/t"):
        path.write_text(f"servers: {{a: {{command: x}}}}\ntokens: {written}\n")
        found.append(load_config(path).tokens)

    above = tmp_path.parent / "t"
    assert found == [f"file:{tmp_path / 'tokens'}", f"file:{above}", "file:/home/me/t", "file:/var/t"]


def test_an_object_with_three_methods_is_a_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store()

    assert load_config({"servers": SERVERS, "tokens": store}).tokens is store
    assert BusConfig(tokens=store).tokens is store
    assert load_config({"servers": SERVERS, "tokens": "file:t"}).tokens == f"file:{tmp_path / 't'}"


EXPECTED = "expected auto, keyring, memory, or file:DIR"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("keyrings", f"{EXPECTED}; did you mean 'keyring'?"),
        ("/var/tokens", EXPECTED),
        ("", EXPECTED),
        ("file:", "names no folder; write file:DIR"),
        ("file:${HOME}/t", "cannot contain a reference; write the path, with ~ for your home"),
        ("file:~nobody-x/t", "is not a path that can be used; write a whole path"),
        ({"file": "t"}, f"{EXPECTED}, not a mapping"),
        (Store, "expected an object that keeps tokens, not its class"),
        (5, f"{EXPECTED}; in code also an object with the methods load, save and remove"),
        (object(), f"{EXPECTED}; in code also an object with the methods load, save and remove"),
    ],
)
def test_anything_else_is_refused(value: object, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"servers": SERVERS, "tokens": value})

    assert (caught.value.key, caught.value.problem) == ("tokens", problem)


def test_a_config_made_by_hand_checks_it_too() -> None:
    with pytest.raises(ConfigError, match="tokens: names no folder"):
        BusConfig(tokens="file:")


@pytest.mark.parametrize("value", ["keyrings", "file:", 5, {"file": "t"}])
def test_an_editor_marks_an_invalid_place(value: object) -> None:
    assert misfits({"servers": SERVERS, "tokens": value}) != []


def test_another_host_may_use_the_key_for_something_else() -> None:
    assert load_config({"mcpServers": SERVERS, "tokens": {"max": 5}}).tokens == "auto"
    assert load_config({"mcpServers": SERVERS, "tokens": "memory"}).tokens == "memory"


def test_it_does_not_come_over_from_another_file(tmp_path: Path) -> None:
    result = taken_over(tmp_path, {"servers": SERVERS, "tokens": "file:t"}, name="c.yaml")

    assert result.notes == ("tokens was skipped: it applies to all servers",)
