"""Attacks by names on a command line: everything is shown before it is run."""

import json
from pathlib import Path

import pytest

from tests.cli.running import toolbus

HIDING = {
    "an escape sequence": "\x1b[2K\x1b[1Anpx",
    "a carriage return": "evil\rnpx -y friendly",
    "a line feed": "evil\nnpx -y friendly",
    "a right-to-left override": "evil\u202exyz",
    "a zero-width space": "ev\u200bil",
}


@pytest.mark.parametrize("case", HIDING)
def test_what_a_server_json_hides_is_written_out(case: str, tmp_path: Path) -> None:
    """Hidden characters in a command are visible before it runs."""
    folder = tmp_path / "folder"
    folder.mkdir()
    argument = {"type": "positional", "value": HIDING[case]}
    package = {
        "registryType": "npm",
        "identifier": "notes",
        "version": "1.0.0",
        "transport": {"type": "stdio"},
        "packageArguments": [argument],
    }
    document = {"name": "io.github.user/notes", "description": "x", "version": "1.0.0", "packages": [package]}
    (folder / "server.json").write_text(json.dumps(document))
    done = toolbus("tools", "server.json", folder=folder)
    assert done.returncode == 2
    assert "npx -y notes@1.0.0" in done.stderr
    hidden = [letter for letter in HIDING[case] if not letter.isprintable()]
    assert hidden
    assert not any(letter in done.stderr.replace("\n", "") for letter in hidden if letter != "\n")
    if "\n" in HIDING[case]:
        assert "evil\\n" in done.stderr


def test_a_url_of_a_server_json_that_looks_like_another_is_written_out(tmp_path: Path) -> None:
    """A look-alike host is visible before it is used."""
    folder = tmp_path / "folder"
    folder.mkdir()
    remote = {"type": "streamable-http", "url": "https://ex\u0430mple.com/mcp"}
    document = {"name": "io.github.user/notes", "description": "x", "version": "1.0.0", "remotes": [remote]}
    (folder / "server.json").write_text(json.dumps(document))
    done = toolbus("tools", "server.json", folder=folder)
    assert done.returncode == 2
    assert r"https://ex\u0430mple.com/mcp" in done.stderr


def test_a_name_that_a_user_is_told_to_pass_is_no_command(tmp_path: Path) -> None:
    """Advice that is pasted into a shell runs nothing."""
    folder = tmp_path / "folder"
    folder.mkdir()
    variable = {"name": "$(touch ran)", "isRequired": True}
    package = {"registryType": "npm", "identifier": "notes", "transport": {"type": "stdio"}}
    document = {"name": "io.github.user/notes", "packages": [{**package, "environmentVariables": [variable]}]}
    (folder / "server.json").write_text(json.dumps(document))
    assert "pass --env '$(touch ran)'=..." in toolbus("tools", "server.json", folder=folder).stderr
