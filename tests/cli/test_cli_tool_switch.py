"""`toolbus disable SERVER/PATTERN` and `enable`: single tools are switched in the config."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, toolbus, write_config

TOOLS = [{"name": name} for name in ("delete_file", "delete_repo", "get_file", "list_files")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"hub": scripted(folder, "hub", tools=TOOLS)})
    return folder


def listed(folder: Path) -> set[str]:
    tools = json.loads(toolbus("tools", "--json", folder=folder).stdout)["tools"]
    return {tool["tool"] for tool in tools}


def switched(folder: Path, *words: str) -> Any:
    return json.loads(toolbus(*words, "--json", folder=folder).stdout)


def edited(folder: Path, **keys: Any) -> None:
    write_config(folder, {"hub": {**scripted(folder, "hub", tools=TOOLS), **keys}})


def test_disabled_tools_are_not_listed_until_they_are_enabled(folder: Path) -> None:
    before = (folder / "toolbus.yaml").read_text()
    whole = listed(folder)

    off = toolbus("disable", "hub/delete_*", folder=folder)
    assert (off.returncode, off.stdout) == (0, "disabled hub/delete_* in toolbus.yaml\n")
    assert off.stderr == "tools that match: delete_file, delete_repo\n"
    assert listed(folder) == {"get_file", "list_files"}
    again = toolbus("disable", "hub/delete_*", folder=folder)
    assert (again.returncode, again.stdout) == (0, "hub/delete_* is already disabled\n")

    on = switched(folder, "enable", "hub/delete_*")
    assert (on["changed"], on["trusted"], on["tools"]) == (True, True, ["delete_file", "delete_repo"])
    assert listed(folder) == whole
    assert toolbus("enable", "hub/delete_*", folder=folder).stdout == "hub/delete_* is already enabled\n"
    assert json.loads((folder / "toolbus.yaml").read_text()) == json.loads(before)


def said(run: Done) -> tuple[int, str]:
    return run.returncode, (run.stdout + run.stderr).strip()


def test_a_pattern_that_another_one_shadows_is_told(folder: Path) -> None:
    edited(folder, exclude=["delete_*"])
    already = "hub/delete_repo is already disabled, by 'delete_*' in exclude"
    assert said(toolbus("disable", "hub/delete_repo", folder=folder)) == (0, already)
    still = (
        "toolbus: hub/delete_repo: 'delete_*' in exclude still disables it; to enable all of that: "
        "toolbus enable hub/delete_*"
    )
    assert said(toolbus("enable", "hub/delete_repo", folder=folder)) == (2, still)

    edited(folder, exclude=["delete_*", "delete_repo"])
    run = toolbus("enable", "hub/delete_repo", folder=folder)
    assert (run.returncode, run.stdout) == (0, "enabled hub/delete_repo in toolbus.yaml\n")
    assert "'delete_*' in exclude still disables it" in run.stderr


def test_a_narrower_pattern_that_still_disables_tools_is_told(folder: Path) -> None:
    edited(folder, exclude=["del*", "delete_repo", "x"])
    listed(folder)
    still = "'del*', 'delete_repo' in exclude still disable tools that match; to enable them: toolbus enable "
    steps = "'hub/del*' && toolbus enable hub/delete_repo"
    assert said(toolbus("enable", "hub/*e*", folder=folder)) == (2, f"toolbus: hub/*e*: {still}{steps}")
    edited(folder, exclude=["del*", "*"])
    run = toolbus("enable", "hub/*", folder=folder)
    assert (run.returncode, run.stdout) == (0, "enabled hub/* in toolbus.yaml\n")
    assert "'del*' in exclude still disables tools that match" in run.stderr


def test_an_include_list_takes_part(folder: Path) -> None:
    edited(folder, include=["get_*"])
    already = "hub/delete_repo is already disabled, because include lists other tools"
    assert said(toolbus("disable", "hub/delete_repo", folder=folder)) == (0, already)
    assert switched(folder, "enable", "hub/delete_repo")["changed"] is True
    assert listed(folder) == {"get_file", "delete_repo"}
    assert switched(folder, "enable", "hub/get_file")["changed"] is False
    assert switched(folder, "disable", "hub/get_file")["changed"] is True
    assert listed(folder) == {"delete_repo"}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("hub/", "'hub/' names no tool; write such as hub/delete_*"),
        ("hbu/x", "no server 'hbu' in toolbus.yaml; did you mean 'hub'?"),
    ],
)
def test_what_names_no_tool_is_refused(name: str, problem: str, folder: Path) -> None:
    assert said(toolbus("disable", name, folder=folder)) == (2, f"toolbus: {problem}")


def test_a_misspelled_tool_is_told_once_the_tools_are_known(folder: Path) -> None:
    listed(folder)
    run = toolbus("disable", "hub/delete_rpo", folder=folder)
    assert (run.returncode, "did you mean 'delete_repo'?" in run.stderr) == (0, True)
