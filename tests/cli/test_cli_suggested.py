"""Commands that messages suggest work as printed: they repeat the `--config` that was given."""

import json
import socket
from pathlib import Path

import pytest

from tests.cli.running import scripted, toolbus, write_config
from tests.inside.cli import repeat_config, suggested

ELSEWHERE = ("--config", "../w/my file.yaml")
OPTION = "--config '../w/my file.yaml'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder beside the one with the config."""
    folder, place = tmp_path / "here", tmp_path / "w"
    folder.mkdir()
    place.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
    servers = {
        "guarded": {"url": url, "auth": "oauth"},
        "off": {"command": "x", "disabled": True},
        "notes": scripted(place, "notes"),
    }
    write_config(place, servers).rename(place / "my file.yaml")
    return folder


def test_an_error_repeats_the_config(folder: Path) -> None:
    done = toolbus("login", "guarded", *ELSEWHERE, folder=folder)
    assert done.returncode == 1
    assert done.stderr.endswith(f"; run 'toolbus check guarded {OPTION}'\n")
    as_json = toolbus("check", "off", "--json", *ELSEWHERE, folder=folder)
    assert json.loads(as_json.stdout)["error"]["message"].endswith(f"run 'toolbus enable off {OPTION}'")


def test_a_step_repeats_the_config(folder: Path) -> None:
    added = toolbus("add", "more", "https://a.test/mcp", *ELSEWHERE, folder=folder)
    assert added.stdout.endswith(f"; next: toolbus tools more {OPTION}\n")
    again = toolbus("add", "more", "https://a.test/mcp", *ELSEWHERE, folder=folder)
    assert again.stderr.endswith(f"first run: toolbus remove more {OPTION}\n")


CASES = {
    "sign in: toolbus login guarded": "sign in: toolbus login guarded --config a.yaml",
    "sign in: toolbus login 'a b' --scopes 'c d'; x": "sign in: toolbus login 'a b' --scopes 'c d' "
    "--config a.yaml; x",
    "run 'toolbus tools' to list 'all'": "run 'toolbus tools --config a.yaml' to list 'all'",
    "run 'toolbus check a' or 'b'": "run 'toolbus check a --config a.yaml' or 'b'",
    "toolbus lock diff a, accept it: toolbus lock approve 'a/b c'": "toolbus lock diff a --config a.yaml, "
    "accept it: toolbus lock approve 'a/b c' --config a.yaml",
    "or toolbus add a -- COMMAND": "or toolbus add a --config a.yaml -- COMMAND",
    "see 'toolbus login --help'": "see 'toolbus login --help'",
    "toolbus tools --config b.yaml": "toolbus tools --config b.yaml",
    "create one with 'toolbus init'": "create one with 'toolbus init'",
}


@pytest.mark.parametrize("text", CASES)
def test_the_option_is_put_into_every_command_of(text: str) -> None:
    assert suggested(text) == text
    repeat_config(Path("a.yaml"))
    try:
        assert suggested(text) == CASES[text]
    finally:
        repeat_config(None)
