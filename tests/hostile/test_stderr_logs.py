"""The stderr of servers is kept: within a limit, for its user alone, and harmless to read."""

import logging
import stat
import sys
from pathlib import Path

import pytest

from tests.cli.running import toolbus, write_config
from tests.cli.terminal import terminal
from tests.inside.state import MAX_STDERR, STDERR_LOGGER, kept_stderr, logged_servers

ATTACK = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\rover \u200bs3cr3t-t0ken\x08"
SERVER = f"import os, sys; sys.stderr.buffer.write((os.environ['TOKEN'] + {ATTACK!r} + chr(10)).encode())"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return str(tmp_path / "toolbus.yaml")


def test_a_flood_fills_no_disk_and_no_memory(config: str, tmp_path: Path) -> None:
    """Stderr takes bounded space on disk and in memory."""
    logger = logging.getLogger(f"{STDERR_LOGGER}.loud")
    with kept_stderr(config):
        for _ in range(60_000):
            logger.debug("%s", "x" * 2_000)

    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert 0 < len(files) <= 2
    assert all(path.stat().st_size <= MAX_STDERR for path in files)
    assert any("lines were left out)" in path.read_text() for path in files)


def test_a_file_of_many_rotations_has_the_last_lines(config: str, tmp_path: Path) -> None:
    """Rotation loses old lines only."""
    logger = logging.getLogger(f"{STDERR_LOGGER}.loud")
    for number in range(60):
        with kept_stderr(config):
            logger.debug("%s %s", number, "x" * 60_000)
    found = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in found) <= 2 * MAX_STDERR
    assert " 59 x" in logged_servers(config)["loud"].read_text()


@pytest.mark.parametrize("alias", ["../../../evil", "..", "a/b", "x" * 300, "a.log+old", "a.log", "\x00"])
def test_no_alias_leaves_the_folder_or_meets_another(alias: str, config: str, tmp_path: Path) -> None:
    """Every alias has a file of its own, inside of the folder."""
    with kept_stderr(config):
        for one in (alias, "a"):
            logging.getLogger(f"{STDERR_LOGGER}.{one}").debug("of %s", one)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        folder = path.parent
        assert folder.parent == tmp_path / "state" / "toolbus" / "stderr"
        assert [stat.S_IMODE(one.stat().st_mode) for one in (path, folder)] == [0o600, 0o700]
        assert path.read_text().count("\n") == 1


def test_a_link_in_its_place_is_not_followed(config: str, tmp_path: Path) -> None:
    """A log is never written through a link."""
    with kept_stderr(config):
        logging.getLogger(f"{STDERR_LOGGER}.a").debug("first")
    path, own = logged_servers(config)["a"], tmp_path / "precious"
    own.write_text("mine")
    path.unlink()
    path.symlink_to(own)
    with kept_stderr(config):
        logging.getLogger(f"{STDERR_LOGGER}.a").debug("second")
    assert own.read_text() == "mine"


def test_neither_the_file_nor_the_terminal_gets_a_secret_or_a_control_character(tmp_path: Path) -> None:
    """Logs are redacted, and shown without control characters."""
    folder = tmp_path / "work"
    folder.mkdir()
    entry = {"command": sys.executable, "args": ["-c", SERVER], "env": {"TOKEN": "s3cr3t-t0ken"}}
    write_config(folder, {"a": entry})
    assert toolbus("tools", folder=folder).returncode == 1

    (kept,) = tmp_path.rglob("stderr/*/a.log")
    shown = toolbus("logs", "a", folder=folder)
    document = toolbus("logs", "a", "--json", folder=folder)
    for text in (kept.read_text(), shown.stdout, document.stdout):
        assert "***over" in text.replace(" ", "")
        assert "s3cr3t" not in text
        assert all(letter.isprintable() or letter == "\n" for letter in text)
    with terminal("logs", "a", folder=folder) as screen:
        assert screen.ended() == 0
        assert "\x1b[2J" not in screen.raw
        assert "s3cr3t" not in screen.raw
