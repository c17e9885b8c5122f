"""What a hostile server sends to the command line: valid JSON, and nothing that a terminal would obey."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus, write_config

SERVER = str(Path(__file__).with_name("answers.py"))


def refuse(constant: str) -> Any:
    pytest.fail(f"{constant} is not JSON")


@pytest.mark.parametrize("options", [["--json"], []])
def test_numbers_and_characters_that_json_or_a_terminal_does_not_take_are_written_out(
    tmp_path: Path, options: list[str]
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"a": {"command": sys.executable, "args": [SERVER, "odd structure"]}})
    done = toolbus("call", *options, "a_look", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not {"\x9b", "\U000e0041"} & set(done.stdout)
    printed = json.loads(done.stdout, parse_constant=refuse)
    structured = printed["structured"] if options else printed
    assert structured == {"x": [None, None, None, "\x9b31m", "\U000e0041", None]}
