"""`toolbus install --undo`: the editor's file as it was, unless that would lose later changes."""

import json
import stat
from pathlib import Path

import pytest

from tests.cli.running import toolbus
from tests.cli.terminal import terminal
from tests.cli.test_cli_install import FILES, project, with_file
from tests.inside.cli import MOST_BACKUPS

_ = project  # a fixture


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("editor", FILES)
def test_undo_gives_the_file_its_content_and_mode(editor: str, project: Path) -> None:
    file = with_file(project, editor)
    file.chmod(0o640)
    before = file.read_bytes()

    added = toolbus("install", editor, "--yes", "--json", folder=project)
    backup = Path(json.loads(added.stdout)["backup"])
    kept = backup.read_bytes(), mode(backup), mode(backup.parent)
    undone = toolbus("install", editor, "--undo", folder=project)
    again = toolbus("install", editor, "--undo", folder=project)

    assert kept == (before, 0o640, 0o700)
    assert (undone.returncode, file.read_bytes(), mode(file)) == (0, before, 0o640)
    assert undone.stdout.startswith(f"restored ~/{FILES[editor][0]} as it was before 20")
    assert (again.returncode, "there is nothing to undo" in again.stderr) == (2, True)
    assert not backup.exists()


def test_undo_removes_a_file_that_install_made(project: Path) -> None:
    file = project.parent / FILES["cursor"][0]
    added = toolbus("install", "cursor", "--yes", folder=project)
    assert added.stderr == "the file is new; to undo this, run: toolbus install cursor --undo\n"
    assert file.exists()
    assert toolbus("install", "cursor", "--undo", folder=project).returncode == 0
    assert not file.exists()


def test_each_change_is_undone_in_turn_also_a_removal(project: Path) -> None:
    file = with_file(project, "zed")
    states = [file.read_bytes()]
    for words in (["--yes"], ["--name", "other", "--yes"], ["--remove", "--yes"]):
        assert toolbus("install", "zed", *words, folder=project).returncode == 0
        states.append(file.read_bytes())
    assert len(set(states)) == 4
    for state in reversed(states[:-1]):
        assert toolbus("install", "zed", "--undo", folder=project).returncode == 0
        assert file.read_bytes() == state


def test_what_would_be_lost_is_named_without_its_values(project: Path) -> None:
    file = with_file(project, "cursor")
    before = file.read_bytes()
    toolbus("install", "cursor", "--yes", folder=project)
    document = json.loads(file.read_text())
    document["mcpServers"]["new"] = {"env": {"KEY": "s3cr3t-one"}}
    document["mcpServers"]["hub"]["env"]["TOKEN"] = "s3cr3t-two"
    file.write_text(json.dumps(document))

    refused = toolbus("install", "cursor", "--undo", folder=project)
    facts = toolbus("install", "cursor", "--undo", "--json", folder=project)
    lost = ["mcpServers.hub.env.TOKEN was changed", "mcpServers.new was added"]
    assert (refused.returncode, facts.returncode) == (2, 2)
    assert ", ".join(lost) in refused.stderr
    assert "pass --yes" in refused.stderr
    assert json.loads(facts.stdout)["lost"] == lost
    assert "s3cr3t" not in refused.stderr + refused.stdout + facts.stdout
    assert json.loads(file.read_text()) == document
    with terminal("install", "cursor", "--undo", folder=project) as screen:
        screen.until("Restore it anyway? [y/N]: ")
        screen.press("n\r")
        assert screen.ended() == 1
    assert toolbus("install", "cursor", "--undo", "--yes", folder=project).returncode == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (None, "the file was deleted"),
        ("{broken", "it cannot be parsed any more"),
        ("\n", "only its comments or layout"),
    ],
)
def test_other_changes_are_named_as_well(text: str | None, lost: str, project: Path) -> None:
    file = with_file(project, "gemini")
    toolbus("install", "gemini", "--yes", folder=project)
    if text is None:
        file.unlink()
    else:
        file.write_text(text if text.strip() else file.read_text() + text)
    assert lost in toolbus("install", "gemini", "--undo", folder=project).stderr


def test_the_number_of_backups_is_bounded(project: Path) -> None:
    file = with_file(project, "cursor")
    for number in range(MOST_BACKUPS + 2):
        toolbus("install", "cursor", "--name", f"n{number}", "--yes", folder=project)
    (folder,) = (project.parent / ".state" / "toolbus" / "installs").iterdir()
    assert len(list(folder.iterdir())) == 2 * MOST_BACKUPS + 1
    for _ in range(MOST_BACKUPS):
        assert toolbus("install", "cursor", "--undo", folder=project).returncode == 0
    assert toolbus("install", "cursor", "--undo", folder=project).returncode == 2
    assert "n1" in file.read_text()
    assert "n2" not in file.read_text()
