"""The text of a server is shown, never obeyed: no escape code, bidi or hidden character reaches a screen."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, together, write_config

# Clears the screen, sets the title, erases the line, turns the text round, hides a word, rings.
EVIL = "a\x1b[2J\x1b]0;owned\x07b\rc\u202ed\u200be\x9bf\u2066g\U000e0041h\u061ci\x08j\u2028k\u0085l"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"enum": [f"one{EVIL}"], "description": EVIL}, f"key{EVIL}": {"type": EVIL}},
    "required": ["x", f"key{EVIL}"],
}
TOOL: dict[str, Any] = {
    "name": f"tool{EVIL}",
    "title": EVIL,
    "description": EVIL,
    "inputSchema": SCHEMA,
    "annotations": {"readOnlyHint": EVIL},
}
CONTENT = [
    {"type": "text", "text": EVIL},
    {"type": "resource_link", "uri": f"memo://{EVIL}", "name": EVIL, "description": EVIL},
    {"type": "resource", "resource": {"uri": f"memo://{EVIL}", "text": EVIL, "mimeType": EVIL}},
    {"type": "image", "data": "AA==", "mimeType": EVIL},
]
RESULTS = {
    "good": {"content": CONTENT, "structuredContent": {EVIL: [EVIL]}},
    "fails": {"content": [{"type": "text", "text": EVIL}], "isError": True},
}
COMMANDS = {
    "tools": ["tools"],
    "full": ["tools", "--full", "--search", "tool"],
    "call": ["call", "evil_good"],
    "fails": ["call", "evil_fails"],
    "missing": ["call", "evil_needs"],
    "unknown": ["call", f"evil_{EVIL}"],
    "check": ["check", "-vv"],
    "usage": ["call", "evil_good", EVIL],
    "command": [EVIL],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("hostile")
    tools = [
        TOOL,
        {"name": "good"},
        {"name": "fails"},
        TOOL | {"name": "needs"},
        {"name": EVIL, "inputSchema": 1},
    ]
    script: dict[str, Any] = {
        "tools": tools,
        "results": RESULTS,
        "stderr": f"{EVIL}\n",
        "stdout": f"{EVIL}\n",
    }
    ends = {"command": "sh", "args": ["-c", f"printf '%s\\n' '{EVIL}' >&2; exit 1"]}
    write_config(folder, {"evil": scripted(folder, "evil", **script), "ends": ends})
    return together(COMMANDS, folder)


def obeyed(text: str) -> set[str]:
    """The characters that a terminal would obey, or hide."""
    return {character for character in text if unicodedata.category(character) in ("Cc", "Cf")} - {"\n", "\t"}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_character_of_a_server_is_obeyed(runs: dict[str, Done], name: str) -> None:
    assert obeyed(runs[name].stdout) == set()
    assert obeyed(runs[name].stderr) == set()


def test_what_is_not_obeyed_is_written_out(runs: dict[str, Done]) -> None:
    first = runs["fails"].stdout.replace("\n", "")
    assert first.startswith(r"a\x1b[2J\x1b]0;owned\x07b\rc\u202ed\u200be\x9bf\u2066g\U000e0041h\u061ci\x08j")
    assert runs["fails"].returncode == 1


def test_a_name_of_a_tool_has_letters_only(runs: dict[str, Done]) -> None:
    names = [line.split()[0] for line in runs["tools"].stdout.splitlines() if line.startswith("  evil_")]
    assert len(names) == 4
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)] == []


def test_json_keeps_what_was_sent_and_hides_nothing(runs: dict[str, Done], tmp_path: Path) -> None:
    write_config(
        tmp_path, {"s": scripted(tmp_path, "s", tools=[{"name": "x"}], results={"x": RESULTS["fails"]})}
    )
    run = together({"json": ["call", "s_x", "--json"]}, tmp_path)["json"]
    assert json.loads(run.stdout)["text"] == EVIL
    assert obeyed(run.stdout) == set()
