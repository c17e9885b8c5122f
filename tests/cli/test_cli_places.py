"""The search for a command's config: named before or after the command, by a variable, by a file name."""

import json
from pathlib import Path

from tests.cli.running import toolbus

FILE_NAMES = ["toolbus.yaml", "toolbus.yml", "toolbus.json", "toolbus.toml", ".mcp.json", "mcp.json"]


def found(folder: Path, *words: str, **env: str) -> str:
    """The name of the one server of the config that was taken."""
    run = toolbus(*words, "--json", folder=folder, env=env)
    assert (run.returncode, run.stderr) == (0, "")
    return next(iter(json.loads(run.stdout)["servers"]))


def written(file: Path, alias: str) -> Path:
    text = f'[servers.{alias}]\ncommand = "x"\n' if file.suffix == ".toml" else None
    file.write_text(text or json.dumps({"servers": {alias: {"command": "x"}}}))
    return file


def test_an_option_beats_the_variable_and_the_variable_the_file_names(tmp_path: Path) -> None:
    written(tmp_path / "toolbus.yaml", "of_the_folder")
    other = str(written(tmp_path / "other.json", "of_the_variable"))
    option = str(written(tmp_path / "option.json", "of_the_option"))
    assert found(tmp_path, "config") == "of_the_folder"
    assert found(tmp_path, "config", TOOLBUS_CONFIG=other) == "of_the_variable"
    assert found(tmp_path, "--config", option, "config", TOOLBUS_CONFIG=other) == "of_the_option"
    assert found(tmp_path, "config", "--config", "option.json", TOOLBUS_CONFIG=other) == "of_the_option"
    assert found(tmp_path, "--config", other, "config", "--config", option) == "of_the_option"


def test_the_first_of_the_known_file_names_is_taken(tmp_path: Path) -> None:
    for index, name in enumerate(FILE_NAMES):
        written(tmp_path / name, f"number_{index}")
    for index, name in enumerate(FILE_NAMES):
        assert found(tmp_path, "config") == f"number_{index}"
        (tmp_path / name).unlink()


def test_a_home_in_the_name_of_a_config_is_found(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    written(tmp_path / "mine.json", "at_home")
    assert found(tmp_path / "work", "config", "--config", "~/mine.json") == "at_home"
    assert found(tmp_path / "work", "config", TOOLBUS_CONFIG="~/mine.json") == "at_home"


def test_a_config_that_is_named_but_not_there_is_wrong_usage(tmp_path: Path) -> None:
    named = toolbus("tools", "--config", "none.yaml", folder=tmp_path)
    assert (named.returncode, named.stdout) == (2, "")
    assert named.stderr.startswith("toolbus: none.yaml: ")
    variable = toolbus("tools", folder=tmp_path, env={"TOOLBUS_CONFIG": "none.yaml"})
    assert (variable.returncode, variable.stdout) == (2, "")
    assert variable.stderr == "toolbus: none.yaml: no such file; correct or unset $TOOLBUS_CONFIG\n"


def test_a_config_above_is_found_and_the_file_is_shown(tmp_path: Path) -> None:
    below = tmp_path / "project" / "src"
    below.mkdir(parents=True)
    file = written(tmp_path / "project" / "toolbus.yaml", "above")
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / ".state")}

    shown = json.loads(toolbus("config", "--json", folder=below, env=home).stdout)
    assert (shown["file"], shown["servers"]["above"]["cwd"]) == (str(file), str(file.parent))
    asked = toolbus("check", "--json", folder=below, env=home)
    assert (asked.returncode, asked.stderr) == (
        2,
        f"toolbus: {file} is not trusted yet; review and accept it: toolbus trust {file}\n",
    )
    toolbus("trust", "--yes", folder=below, env=home)
    assert json.loads(toolbus("check", "--json", folder=below, env=home).stdout)["file"] == str(file)
    assert (
        f"1 server in {file}: 1 failed; fix the errors above\n"
        in toolbus("check", folder=below, env=home).stdout
    )


def test_a_config_in_the_users_own_folder_needs_no_trust(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / ".config" / "toolbus").mkdir(parents=True)
    own = written(tmp_path / ".config" / "toolbus" / "toolbus.yaml", "mine")

    done = toolbus("check", folder=tmp_path / "work")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1,
        f"1 server in {own}: 1 failed; fix the errors above",
    )
