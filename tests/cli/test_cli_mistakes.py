"""A wrong entry in the config: the command runs the rest, and says what to correct."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config

COMMANDS = {
    "tools": ["tools"],
    "check": ["check"],
    "json": ["check", "--json"],
    "call": ["call", "good_x"],
    "config": ["config", "--json"],
}
MISTAKES = (
    "2 mistakes: (1) comand: unknown key; did you mean 'command'? "
    "(2) era: expected 'auto', 'modern' or 'legacy'"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    good = scripted(folder, "good", tools=[{"name": "x"}])
    write_config(folder, {"good": good, "bad": {"comand": "npx", "era": "old"}})
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    return together(COMMANDS, folder)


def test_tools_lists_the_rest_and_what_is_wrong(runs: dict[str, Done], folder: Path) -> None:
    lines = runs["tools"].stdout.splitlines()

    assert runs["tools"].returncode == 0
    assert lines[1].split() == ["good_x"]
    assert lines[2:] == ["bad  failed", f"  {folder}/toolbus.yaml: server 'bad': {MISTAKES}"]


def test_a_tool_of_another_server_can_be_called(runs: dict[str, Done]) -> None:
    assert runs["call"].returncode == 0


def test_check_lists_every_mistake_with_its_next_step(runs: dict[str, Done]) -> None:
    assert runs["check"].returncode == 1
    lines = runs["check"].stdout.splitlines()
    assert [line.split(maxsplit=1) for line in (*lines[:5], lines[-1])] == [
        ["bad", "failed"],
        ["error", "comand: unknown key"],
        ["next", "step  did you mean 'command'?"],
        ["error", "era: expected 'auto', 'modern' or 'legacy'"],
        ["next", "step  fix its entry in the config"],
        ["2", "servers in toolbus.yaml: 1 ready, 1 failed; fix the errors above"],
    ]
    assert len(json.loads(runs["json"].stdout)["servers"]["bad"]["problems"]) == 2


def test_config_shows_the_mistake_in_place_of_the_server(runs: dict[str, Done], folder: Path) -> None:
    shown = json.loads(runs["config"].stdout)

    assert shown["servers"]["bad"] == {"problem": f"{folder}/toolbus.yaml: server 'bad': {MISTAKES}"}


def test_a_config_without_a_right_server_lists_its_mistakes_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "toolbus.yaml").write_text("servers:\n  a: {comand: x}\n  b: {command: 5}\n")

    done = toolbus("check", folder=folder)

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "toolbus: 2 errors in the config:",
        f"{folder}/toolbus.yaml: server 'a': comand: unknown key; did you mean 'command'?",
        f"{folder}/toolbus.yaml: server 'b': command: expected a string; put it in quotes",
    ]


def test_review_shows_that_a_wrong_server_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "toolbus.yaml").write_text("servers:\n  good: {command: x}\n  bad: {comand: y}\n")

    done = toolbus("trust", "--json", folder=folder)

    assert json.loads(done.stdout)["servers"] == {
        "good": {"command": "x"},
        "bad": {
            "mistake": f"{folder}/toolbus.yaml: server 'bad': comand: unknown key; did you mean 'command'?"
        },
    }


def test_an_unknown_key_of_another_host_is_shown_as_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    entry = scripted(folder, "good", tools=[{"name": "x"}])
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"good": {**entry, "commnd": 1}}}))
    toolbus("trust", "--yes", folder=folder)

    listed = toolbus("tools", folder=folder)
    found = json.loads(toolbus("check", "--json", folder=folder).stdout)

    assert "  unknown key 'commnd' is ignored; did you mean 'command'?" in listed.stdout.splitlines()
    assert found["servers"]["good"]["problems"][0] == {
        "severity": "warning",
        "message": "unknown key 'commnd' is ignored",
        "fix": "did you mean 'command'?",
    }
