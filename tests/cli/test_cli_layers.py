"""Layers and profiles on the command line: each command acts on one file, and says which."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus

NOTES = "{command: python, args: [-m, toolbus.demo.notes, --db, %s]}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose config extends the user's config; the user's home is its parent."""
    own, project = tmp_path / ".config" / "toolbus", tmp_path / "project"
    own.mkdir(parents=True)
    project.mkdir()
    (own / "toolbus.yaml").write_text(f"servers:\n  mine: {NOTES % (tmp_path / 'mine.db')}\n")
    (project / "toolbus.yaml").write_text(
        f"extends: user\nservers:\n  theirs: {NOTES % (tmp_path / 'theirs.db')}\n"
        "profiles:\n  one: {servers: [theirs], include: ['*/search']}\n"
    )
    return project


def document(*words: str, folder: Path) -> Any:
    done = toolbus(*words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_local_file_is_trusted_by_itself(folder: Path) -> None:
    assert "toolbus.yaml is not trusted yet" in toolbus("tools", folder=folder).stderr
    assert toolbus("trust", "--yes", folder=folder).stdout == "trusted toolbus.yaml\n"
    (folder / "toolbus.local.yaml").write_text("servers: {theirs: {timeouts: {call: 5}}}\n")
    assert "toolbus.local.yaml is not trusted yet" in toolbus("tools", folder=folder).stderr
    done = toolbus("trust", "--yes", "toolbus.local.yaml", folder=folder)
    assert done.stdout == "trusted toolbus.local.yaml\n"
    assert toolbus("tools", folder=folder).returncode == 0
    assert toolbus("trust", "--yes", folder=folder).stdout == "toolbus.yaml is already trusted\n"


def test_a_review_shows_what_is_the_users_own(folder: Path) -> None:
    done = toolbus("trust", "--json", folder=folder)
    servers = json.loads(done.stdout)["servers"]
    assert servers["mine"] == {"from": str(folder.parent / ".config/toolbus/toolbus.yaml")}
    assert servers["theirs"]["command"].startswith("python -m")


def test_commands_edit_one_file_and_name_the_other(folder: Path) -> None:
    own = folder.parent / ".config/toolbus/toolbus.yaml"
    done = toolbus("remove", "mine", folder=folder)
    assert (done.returncode, str(own) in done.stderr) == (2, True)
    assert document("--config", str(own), "disable", "mine", folder=folder)["file"] == str(own)
    toolbus("trust", "--yes", folder=folder)
    assert "mine" not in document("config", folder=folder)["servers"]


def test_each_file_has_its_own_lock_and_a_profile_keeps_the_rest(folder: Path) -> None:
    toolbus("trust", "--yes", folder=folder)
    own = folder.parent / ".config/toolbus/toolbus.lock"
    done = toolbus("lock", "--yes", folder=folder)
    assert "not locked: mine" in done.stderr
    assert not own.exists()
    assert toolbus("lock", "--yes", "mine", folder=folder).returncode == 0
    locked = {path: list(json.loads(path.read_text())["servers"]) for path in (own, folder / "toolbus.lock")}
    assert list(locked.values()) == [["mine"], ["theirs"]]
    config = folder / "toolbus.yaml"
    config.write_text(config.read_text() + "  other: {servers: []}\n")
    toolbus("trust", "--yes", folder=folder)
    for words in (("--profile", "one"), ()):
        assert toolbus("lock", "--yes", *words, folder=folder).returncode == 0
        assert toolbus("lock", "--check", *words, folder=folder).returncode == 0
    assert list(json.loads((folder / "toolbus.lock").read_text())["servers"]) == ["theirs"]


def test_a_profile_is_an_option_of_every_command_before_and_after_its_name(folder: Path) -> None:
    toolbus("trust", "--yes", folder=folder)
    for words in (("--profile", "one", "tools"), ("tools", "--profile", "one")):
        listed = document(*words, folder=folder)
        assert list(listed["servers"]) == ["theirs"]
        assert [tool["name"] for tool in listed["tools"]] == ["theirs_search"]
    done = toolbus("--profile", "on", "call", "theirs_search", folder=folder)
    assert (done.returncode, "did you mean 'one'?" in done.stderr) == (2, True)
    done = toolbus("--profile", "one", "check", "mine", folder=folder)
    assert "is not in the profile 'one'" in done.stderr
    done = toolbus("--profile", "one", "call", "theirs_add", "text=x", folder=folder)
    assert done.returncode != 0


def test_init_ignores_the_local_file_and_check_warns_if_git_tracks_it(folder: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    (folder / ".gitignore").write_text("*.db")
    done = toolbus("init", "--force", folder=folder)
    assert "added toolbus.local.yaml" in done.stderr
    assert (folder / ".gitignore").read_text() == "*.db\ntoolbus.local.yaml\ntoolbus.local.lock\n"
    assert "added" not in toolbus("init", "--force", folder=folder).stderr
    (folder / "toolbus.local.yaml").write_text("servers: {}\n")
    toolbus("trust", "--yes", "toolbus.local.yaml", folder=folder)
    assert "tracked" not in document("check", folder=folder)
    git("add", "-f", "toolbus.local.yaml")
    assert "git rm --cached" in document("check", folder=folder)["tracked"]
