"""The search for a config when none is given: upwards from the current folder, then the user's own."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import plain
from tests.inside.config import accept, candidate, distrust
from toolbus import ConfigNotTrusted, Toolbus
from toolbus.config import find_config, found_config, load_config
from toolbus.errors import ConfigError
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the folders are other ones")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a project, whose folder `src/deep` is the current one."""
    home = tmp_path / "home"
    deep = home / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "TOOLBUS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(deep)
    return home


def written(file: Path, **entry: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"servers": {"own": entry or {"command": "x"}}}))
    return file


def test_the_nearest_folder_that_has_a_config_is_taken(home: Path) -> None:
    own = written(home / ".config" / "toolbus" / "toolbus.yaml")
    assert find_config() == own
    for folder in (home, home / "project", home / "project" / "src", home / "project" / "src" / "deep"):
        nearest = written(folder / ".mcp.json")
        assert find_config() == nearest


def test_folders_above_home_are_not_looked_at(home: Path) -> None:
    written(home.parent / "toolbus.yaml")

    with pytest.raises(ConfigError, match="or above, nor in"):
        find_config()


def test_outside_of_home_the_search_goes_up_to_the_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(home.parent / "toolbus.yaml")
    (home.parent / "other").mkdir()
    monkeypatch.chdir(home.parent / "other")

    assert find_config() == file


def test_a_config_above_has_to_be_trusted_and_one_of_the_user_not(home: Path) -> None:
    own = written(home / ".config" / "toolbus" / "toolbus.yaml")
    assert found_config().file == str(own)
    assert Toolbus().config.file == str(own)
    assert distrust(candidate(own)) is None

    file = written(home / "project" / "toolbus.yaml")
    with pytest.raises(ConfigNotTrusted):
        Toolbus()
    accept(candidate(file))
    assert Toolbus().config.file == str(file)


def test_programs_of_a_config_above_start_in_its_folder(home: Path) -> None:
    project = home / "project"
    (project / "tool.py").write_text(Path(plain()["args"][0]).read_text())
    program = project / "run"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" tool.py "$@"\n')
    program.chmod(0o755)
    accept(candidate(written(project / "toolbus.yaml", command="./run", args=plain()["args"][1:])))

    with SyncToolbus() as bus:
        assert bus.servers["own"].state == "ready", bus.servers["own"].error
    assert bus.bus.config.servers["own"].cwd == str(project)


def test_elsewhere_programs_start_in_the_current_folder(home: Path) -> None:
    file = written(home / "project" / "toolbus.yaml")
    assert load_config(file).servers["own"].cwd is None
    file.unlink()
    written(home / ".config" / "toolbus" / "toolbus.yaml")
    assert found_config().servers["own"].cwd is None
    here = written(Path.cwd() / "toolbus.yaml")
    accept(candidate(here))
    assert found_config().servers["own"].cwd is None


def test_a_cwd_that_is_written_is_kept(home: Path) -> None:
    accept(candidate(written(home / "project" / "toolbus.yaml", command="x", cwd="src")))

    assert found_config().servers["own"].cwd == "src"
