"""A config that was only found is used once the user agreed to it, and to all it reads of its project."""

import asyncio
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import accept, candidate, distrust, forget, trusted_config
from toolbus import ConfigError, ConfigNotTrusted, Toolbus
from toolbus.config import Resolved, Secrets, find_config, found_config, load_config, resolved
from toolbus.sync import SyncToolbus

TEXT = """\
servers:
  web:
    url: https://${HOST}/mcp
    headers: {X-Note: "${file:note.txt}"}
  own:
    command: own
    env_file: own.env
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config in the current folder, with all that it reads; nobody agreed to it yet."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in {
        "toolbus.yaml": TEXT,
        ".env": "HOST=a.example",
        "note.txt": "1",
        "own.env": "A=1",
    }.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLBUS_CONFIG", raising=False)
    monkeypatch.delenv("HOST", raising=False)
    return folder / "toolbus.yaml"


def record(file: Path) -> Path:
    """The one record there is."""
    (found,) = (file.parent.parent / "state" / "toolbus" / "trust").iterdir()
    return found


def agreed(file: Path) -> Path:
    accept(candidate(file))
    return file


def appended(file: Path) -> None:
    file.write_text(file.read_text() + "\n")


def test_a_bus_without_arguments_takes_a_found_config_only_once_it_is_trusted(file: Path) -> None:
    for bus in (Toolbus, SyncToolbus):
        with pytest.raises(ConfigNotTrusted) as caught:
            bus()
        assert isinstance(caught.value, ConfigError)
        assert caught.value.file == str(file)
        assert str(caught.value) == (f"{file} is not trusted yet; review and accept it: toolbus trust {file}")
    agreed(file)
    assert list(Toolbus().config.servers) == ["web", "own"]
    assert list(SyncToolbus().bus.config.servers) == ["web", "own"]


def test_a_config_that_is_named_is_agreed_to_by_that(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ["web", "own"]
    assert list(Toolbus(file).config.servers) == expected
    assert list(Toolbus("toolbus.yaml").config.servers) == expected
    assert list(Toolbus(load_config(find_config())).config.servers) == expected
    monkeypatch.setenv("TOOLBUS_CONFIG", "toolbus.yaml")
    assert list(Toolbus().config.servers) == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("toolbus.yaml", "has changed since you trusted it"),
        (".env", "is no longer trusted: .env changed"),
        ("note.txt", "is no longer trusted: note.txt changed"),
        ("own.env", "is no longer trusted: own.env changed"),
    ],
)
@pytest.mark.parametrize("change", [appended, Path.unlink])
def test_a_change_of_any_file_that_it_reads_has_to_be_agreed_to(
    name: str, reason: str, change: Callable[[Path], object], file: Path
) -> None:
    agreed(file)
    assert distrust(candidate(file)) is None
    if (change, name) == (Path.unlink, "toolbus.yaml"):
        return  # then there is no config
    change(file.parent / name)
    assert distrust(candidate(file)) == reason
    agreed(file)
    assert distrust(candidate(file)) is None


def test_a_file_that_comes_into_being_has_to_be_agreed_to(file: Path) -> None:
    (file.parent / ".env").unlink()
    agreed(file)
    (file.parent / ".env").write_text("HOST=evil.example")
    assert distrust(candidate(file)) == "is no longer trusted: .env changed"


def test_the_same_bytes_elsewhere_are_another_config(file: Path, tmp_path: Path) -> None:
    agreed(file)
    file.parent.rename(tmp_path / "moved")
    assert distrust(candidate(tmp_path / "moved" / "toolbus.yaml")) == "is not trusted yet"


def test_a_link_to_a_folder_is_the_same_config_and_a_link_to_the_file_is_not(
    file: Path, tmp_path: Path
) -> None:
    agreed(file)
    (tmp_path / "link").symlink_to(file.parent)
    assert distrust(candidate(tmp_path / "link" / "toolbus.yaml")) is None
    # Its programs and its .env would be those of the other folder.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "toolbus.yaml").symlink_to(file)
    assert distrust(candidate(tmp_path / "other" / "toolbus.yaml")) == "is not trusted yet"


def test_two_configs_are_agreed_to_and_forgotten_one_by_one(file: Path) -> None:
    other = file.with_name("mcp.json")
    other.write_text('{"mcpServers": {}}')
    agreed(file)
    agreed(other)
    assert forget(file)
    assert not forget(file)
    assert distrust(candidate(file)) == "is not trusted yet"
    assert distrust(candidate(other)) is None


def test_the_record_is_private_and_written_whole_by_many_at_once(file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(agreed, [file] * 40))
    kept = record(file)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for folder in (kept.parent, kept.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert distrust(candidate(file)) is None


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"\xff", b"[]", b"{}", b"null", b'{"digests": {}}', b"[" * 100_000],
    ids=["empty", "cut", "bytes", "list", "mapping", "null", "no file", "deep"],
)
def test_a_damaged_record_is_none(damaged: bytes, file: Path) -> None:
    kept = record(agreed(file))
    kept.write_bytes(damaged)
    with pytest.raises(
        ConfigNotTrusted, match="its trust record is damaged; review and accept it: toolbus trust"
    ):
        found_config()
    agreed(file)
    assert distrust(candidate(file)) is None


def test_a_record_without_digests_or_of_another_file_is_none(file: Path) -> None:
    kept = record(agreed(file))
    whole = json.loads(kept.read_bytes())
    wrongs: list[dict[str, Any]] = [{**whole, "digests": {}}, {**whole, "file": "/elsewhere/toolbus.yaml"}]
    for wrong in wrongs:
        kept.write_text(json.dumps(wrong))
        assert distrust(candidate(file)) == "is not trusted: its trust record is damaged"


def test_a_record_that_others_can_write_is_none(file: Path) -> None:
    kept = record(agreed(file))
    for path in (kept, kept.parent, kept.parent.parent):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(before | 0o020)
        assert "can be written by other users" in (distrust(candidate(file)) or "")
        path.chmod(before)
    assert distrust(candidate(file)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_record_of_another_user_is_none_and_a_folder_of_theirs_is_not_used(file: Path) -> None:
    kept = record(agreed(file))
    os.chown(kept, 12345, -1)
    assert "belongs to another user" in (distrust(candidate(file)) or "")
    agreed(file)
    os.chown(kept.parent, 12345, -1)
    assert "belongs to another user" in (distrust(candidate(file)) or "")
    with pytest.raises(PermissionError, match="belongs to another user"):
        agreed(file)


def test_a_state_folder_below_the_current_one_is_not_used(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = file.parent.parent
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    agreed(file)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", ".")  # then a project could bring a record along
    assert distrust(candidate(file)) is not None
    monkeypatch.delenv("HOME")
    assert distrust(candidate(file)) is not None
    monkeypatch.setenv("HOME", str(home))
    assert distrust(candidate(file)) is None


def test_what_was_agreed_to_is_what_is_used_whatever_the_files_say_later(file: Path) -> None:
    config = trusted_config(agreed(file))
    (file.parent / ".env").write_text("HOST=evil.example")
    (file.parent / "note.txt").write_text("evil")
    (file.parent / "own.env").write_text("NODE_OPTIONS=--require=evil")

    def real(alias: str) -> Resolved:
        secrets = Secrets(None, config.folder, config.reviewed)
        return asyncio.run(resolved(config.servers[alias], secrets))

    assert (real("web").url, real("web").headers) == ("https://a.example/mcp", {"X-Note": "1"})
    assert real("own").env == {"A": "1"}


def test_a_project_file_whose_path_is_not_known_before_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("servers: {own: {command: own, env_file: '${STAGE}.env'}}")
    config = trusted_config(agreed(file))
    monkeypatch.setenv("STAGE", "own")
    with pytest.raises(ConfigError, match="is in the project but was not reviewed"):
        asyncio.run(resolved(config.servers["own"], Secrets(None, config.folder, config.reviewed)))


def test_a_file_outside_of_the_project_is_read_as_it_is_now(file: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    file.write_text(f"servers: {{web: {{url: 'https://a.example', auth: '${{file:{token}}}'}}}}")
    config = trusted_config(agreed(file))
    token.write_text("renewed")
    real = asyncio.run(resolved(config.servers["web"], Secrets(None, config.folder, config.reviewed)))
    assert real.headers == {"Authorization": "Bearer renewed"}
    assert distrust(candidate(file)) is None


def test_the_dotenv_file_of_an_editor_config_is_covered(file: Path) -> None:
    file.write_text("servers: {own: {command: own, envFile: '${workspaceFolder}/own.env'}}")
    config = trusted_config(agreed(file))
    (file.parent / "own.env").write_text("A=2")
    assert distrust(candidate(file)) == "is no longer trusted: own.env changed"
    real = asyncio.run(resolved(config.servers["own"], Secrets(None, config.folder, config.reviewed)))
    assert real.env == {"A": "1"}
