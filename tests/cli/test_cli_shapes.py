"""The cost of tools with each provider, their losses in its dialect, and the changes made to them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config

PROVIDERS = ["openai", "openai-strict", "openai-responses", "anthropic", "google"]
NAMES = [*PROVIDERS, "mcp"]
PLAIN: dict[str, Any] = {
    "name": "small",
    "description": "A small one.",
    "inputSchema": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    },
}
LARGE: dict[str, Any] = {
    "name": "large",
    "description": "A large one. " * 30,
    "inputSchema": {"type": "object", "properties": {"when": {"type": "string", "format": "date"}}},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("shapes") / "here"
    folder.mkdir()
    first = scripted(folder, "first", tools=[PLAIN, LARGE])
    override = {"small": {"description": "Changed.", "arguments": {"n": {"name": "number"}}}}
    second = scripted(folder, "second", tools=[PLAIN]) | {"override": override, "mark": True}
    write_config(folder, {"first": first, "second": second})
    return together(
        {
            "cost": ["tools", "--cost"],
            "cost json": ["tools", "--cost", "--json"],
            "full": ["tools", "second", "--full"],
            "check": ["check", "--json", "--dialect", "google"],
            "check text": ["check", "first", "--dialect", "google"],
            "plain": ["check", "first"],
            "unknown": ["check", "--dialect", "gogle"],
        },
        folder,
    )


def test_the_cost_of_tools_is_shown_largest_first_with_sums(runs: dict[str, Done]) -> None:
    lines = [line.split() for line in runs["cost"].stdout.splitlines()]
    assert lines[0] == ["estimated", "tokens", *PROVIDERS]
    assert [line[0] for line in lines[1:4]] == ["first_large", "second_small", "first_small"]
    assert [line[:2] for line in lines[4:6]] == [["first", "total"], ["second", "total"]]
    assert lines[6][0] == "total"
    columns = [[int(cell.replace(",", "")) for cell in line[-5:]] for line in lines[1:]]
    large, changed, small, first, second, everything, _, all_shown, searched, scripted = columns
    assert first == [a + b for a, b in zip(large, small, strict=True)]
    assert second == changed
    assert everything == [a + b for a, b in zip(first, second, strict=True)]
    assert all(80 < tokens < 250 for tokens in large)
    modes = [" ".join(line[:3]) for line in lines[8:]]
    assert modes == ["with expose: all", "with expose: search", "with expose: code"]
    assert all_shown == everything
    assert all(tokens > 0 for tokens in (*searched, *scripted))


def test_json_tells_the_cost_by_tool_and_server(runs: dict[str, Done]) -> None:
    report = json.loads(runs["cost json"].stdout)
    assert list(report) == ["servers", "tokens", "tools", "as_sent", "expose"]
    assert list(report["expose"]) == ["all", "search", "code"]
    assert report["expose"]["all"]["openai"] == sum(tool["tokens"]["openai"] for tool in report["tools"])
    assert report["as_sent"] > 0
    assert [tool["name"] for tool in report["tools"]] == ["first_large", "second_small", "first_small"]
    assert list(report["tools"][0]["tokens"]) == PROVIDERS
    assert report["tokens"]["second"] == report["tools"][1]["tokens"]


def test_full_shows_what_was_done_to_a_tool(runs: dict[str, Done]) -> None:
    lines = runs["full"].stdout.splitlines()
    assert "    [MCP: second] Changed." in lines
    assert "    number  integer, required" in lines
    assert lines[-2:] == [
        "    overridden: changed description, input_schema, maps",
        "    marked: changed description",
    ]


def test_check_tells_what_is_lost_in_a_dialect(runs: dict[str, Done]) -> None:
    report = json.loads(runs["check"].stdout)
    problems = report["servers"]["first"]["problems"]
    assert {problem["severity"] for problem in problems} == {"info"}
    assert report["ok"] is True
    lossy = [problem["message"] for problem in problems if "is simplified" in problem["message"]]
    assert any(
        message.startswith("google: the schema of first_large is simplified: /properties/when/format")
        for message in lossy
    )
    assert "google: the schema of first_large is simplified" in runs["check text"].stdout
    assert not [message for message in lossy if not message.startswith("google: ")]


def test_check_leaves_out_dialects_that_nobody_asked_for(runs: dict[str, Done]) -> None:
    assert not [line for line in runs["plain"].stdout.splitlines() if line.split()[0] == "note"]
    assert runs["unknown"].returncode == 2
    assert runs["unknown"].stderr == f"toolbus: --dialect 'gogle': expected one of {', '.join(NAMES)}\n"


def test_check_notes_a_schema_that_is_rewritten_without_a_loss(tmp_path: Path) -> None:
    tool: dict[str, Any] = {"name": "find", "inputSchema": {"type": "object", "properties": {"phrase": {}}}}
    write_config(tmp_path, {"own": scripted(tmp_path, "own", tools=[tool])})
    problems = json.loads(toolbus("check", "--json", "--dialect", "google", folder=tmp_path).stdout)
    problems = problems["servers"]["own"]["problems"]
    notes = {problem["message"]: problem["fix"] for problem in problems}
    assert notes["google: rewritten for this provider: own_find"] == "nothing to do: the meaning is the same"
