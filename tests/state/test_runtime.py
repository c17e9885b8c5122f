"""The folder for files of running processes: where it is, and that it is private."""

import os
import stat
from pathlib import Path

import pytest

from tests.inside.console import runtime_folder, runtime_folders
from tests.inside.state import Foreign


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def test_it_is_below_the_state_folder_or_where_the_system_has_such_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    below_state = tmp_path / "state" / "toolbus" / "run"
    assert runtime_folder().base == below_state
    given = tmp_path / "runtime"
    given.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(given))
    assert runtime_folder().base == given / "toolbus"
    # A program with another environment may have used the other one.
    assert [folder.base for folder in runtime_folders()] == [given / "toolbus", below_state]
    assert stat.S_IMODE((given / "toolbus").stat().st_mode) == 0o700


@pytest.mark.parametrize("given", ["", "relative", "/no/such/folder"])
def test_a_runtime_folder_that_is_not_one_is_not_used(
    given: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", given)
    assert runtime_folder().base == tmp_path / "state" / "toolbus" / "run"


def test_a_folder_that_others_can_open_is_closed_to_them() -> None:
    folder = runtime_folder().base
    folder.chmod(0o755)
    assert runtime_folder().base == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_refused() -> None:
    folder = runtime_folder().base
    os.chown(folder, 12345, -1)
    with pytest.raises(Foreign):
        runtime_folder()
