"""A command that needs a server which is down says why it is down, or where to read why."""

import json
from pathlib import Path

import pytest

from tests.cli.running import toolbus, write_config

MISSING = {"command": "no-such-program"}
WHY = "spawn failed: command 'no-such-program' not found; install it, or give its full path"
LISTS = "to list them and see why a server is down"

# The servers that are down, the command, and what it says.
CASES = [
    ("a", "call a_x", f"no tool named 'a_x' among 0: server 'a' is not connected (failed): {WHY}"),
    ("a", "call x", f"no tool named 'x' among 0: server 'a' is not connected (failed): {WHY}"),
    ("ab", "call b_x", f"no tool named 'b_x' among 0: server 'b' is not connected (failed): {WHY}"),
    ("ab", "call x", f"no tool named 'x' among 0; not connected: a, b; run 'toolbus tools' {LISTS}"),
    ("a", "read x://y", f"server 'a': {WHY}"),
    (
        "ab",
        "read x://y",
        f"no resource 'x://y' among 0; not connected: a, b; run 'toolbus read' {LISTS}",
    ),
    ("a", "prompt x", f"no prompt 'x' among 0; server 'a': {WHY}"),
    ("ab", "prompt x", f"no prompt 'x' among 0; not connected: a, b; run 'toolbus prompt' {LISTS}"),
]


@pytest.mark.parametrize(
    ("down", "line", "message"), CASES, ids=[f"{down} {line}" for down, line, _ in CASES]
)
def test_what_is_not_there_because_its_server_is_down_says_why(
    tmp_path: Path, down: str, line: str, message: str
) -> None:
    write_config(tmp_path, dict.fromkeys(down, MISSING))
    run = toolbus(*line.split(), "--json", folder=tmp_path)
    assert (run.returncode, run.stderr) == (1, f"toolbus: {message}\n")
    assert json.loads(run.stdout)["error"]["message"] == message
