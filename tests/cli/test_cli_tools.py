"""`toolbus tools`: what it lists, for people and programs, and when a server that is down is a failure."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config

LONG = "word " * 100
SEND = {
    "name": "send",
    "description": "Send a letter.\n\nIt takes days.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Whom it goes to."},
            "speed": {"enum": ["slow", "fast"]},
        },
        "required": ["to"],
    },
    "annotations": {"title": "Post", "readOnlyHint": False, "openWorldHint": True},
}
READ = {"name": "read", "description": "Read what others send.", "inputSchema": {"type": "object"}}
BROKEN = {"command": "no-such-program"}
NOT_FOUND = "spawn failed: command 'no-such-program' not found; install it, or give its full path"
PROTOCOL = {"era": "legacy", "protocol": "2025-06-18"}

COMMANDS = {
    "text": ["tools"],
    "json": ["--json", "tools"],
    "full": ["tools", "post", "--full"],
    "search": ["tools", "--search", "SEND others"],
    "two names": ["tools", "--search", "send", "--json"],
    "no match": ["tools", "--search", "zebra"],
    "typing mistake": ["tools", "--search", "post sned", "--json"],
    "narrowed": ["tools", "attic", "--json", "-vv"],
    "named broken": ["tools", "post", "broken"],
    "all broken": ["tools", "--config", "broken.json"],
    "required broken": ["--config", "required.json", "tools", "--json"],
    "verbose": ["tools", "-v", "--no-color"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("tools")
    post = scripted(folder, "post", tools=[READ, SEND])
    attic = scripted(folder, "attic", stderr="dust\n", tools=[{"name": "read", "description": LONG}])
    write_config(folder, {"post": post, "broken": BROKEN, "attic": attic})
    (folder / "broken.json").write_text(json.dumps({"servers": {"a": BROKEN, "b": BROKEN}}))
    required = {"servers": {"post": post, "broken": BROKEN | {"required": True}}}
    (folder / "required.json").write_text(json.dumps(required))
    return together(COMMANDS, folder)


def shown(run: Done) -> dict[str, Any]:
    return json.loads(run.stdout)


def test_servers_and_tools_are_listed_and_one_broken_server_is_no_failure(runs: dict[str, Done]) -> None:
    run = runs["text"]
    assert run.stdout.splitlines() == [
        "post  ready  2025-06-18 (legacy)  2 tools",
        "  post_read              Read what others send.",
        "  post_send  to [speed]  Send a letter.",
        "broken  failed",
        f"  {NOT_FOUND}",
        "attic  ready  2025-06-18 (legacy)  1 tool",
        f"  attic_read    {LONG.strip()}",
    ]
    assert (run.returncode, run.stderr) == (0, "")


def test_json_tells_everything(runs: dict[str, Done]) -> None:
    run = runs["json"]
    assert shown(run) == {
        "servers": {
            "post": {"state": "ready", **PROTOCOL, "tools": 2, "error": None},
            "broken": {
                "state": "failed",
                "era": None,
                "protocol": None,
                "tools": 0,
                "error": f"server 'broken': {NOT_FOUND}",
            },
            "attic": {"state": "ready", **PROTOCOL, "tools": 1, "error": None},
        },
        "tools": [
            {
                "name": f"{server}_{tool}",
                "server": server,
                "tool": tool,
                "description": description,
                "input_schema": schema,
                "annotations": annotations,
            }
            for server, tool, description, schema, annotations in [
                ("post", "read", READ["description"], READ["inputSchema"], {}),
                ("post", "send", SEND["description"], SEND["inputSchema"], SEND["annotations"]),
                ("attic", "read", LONG, {"type": "object"}, {}),
            ]
        ],
        "held": {},
        "source": "servers",
    }
    assert (run.returncode, run.stderr) == (0, "")


def test_full_shows_every_argument_and_annotation(runs: dict[str, Done]) -> None:
    assert runs["full"].stdout.splitlines() == [
        "post  ready  2025-06-18 (legacy)  2 tools",
        "",
        "  post_read  post/read",
        "    Read what others send.",
        "",
        "  post_send  post/send",
        "    Send a letter.",
        "    ",
        "    It takes days.",
        "    to     string, required  Whom it goes to.",
        "    speed  slow or fast",
        "    readOnlyHint: false, openWorldHint: true",
    ]


OLD = "'toolbus tools --search' is now 'toolbus search'\n"


def test_search_lists_what_the_index_finds_in_any_case(runs: dict[str, Done]) -> None:
    run = runs["search"]
    assert run.stdout.splitlines() == [
        "post  ready  2025-06-18 (legacy)  2 tools",
        "  post_send  to [speed]  Send a letter.",
        "  post_read              Read what others send.",
    ]
    assert (run.returncode, run.stderr) == (0, f"{OLD}2 of 3 tools match 'SEND others'\n")


def test_search_without_a_match_lists_nothing(runs: dict[str, Done]) -> None:
    run = runs["no match"]
    assert (run.stdout, run.returncode, run.stderr) == ("", 0, f"{OLD}0 of 3 tools match 'zebra'\n")


def test_search_corrects_a_typing_mistake(runs: dict[str, Done]) -> None:
    first, *_ = shown(runs["typing mistake"])["tools"]
    assert first["name"] == "post_send"


def test_search_puts_names_first(runs: dict[str, Done]) -> None:
    assert [tool["name"] for tool in shown(runs["two names"])["tools"]] == ["post_send", "post_read"]


def test_a_server_by_its_name_alone_gives_its_tools_the_same_names(runs: dict[str, Done]) -> None:
    run = runs["narrowed"]
    assert list(shown(run)["servers"]) == ["attic"]
    assert [tool["name"] for tool in shown(run)["tools"]] == ["attic_read"]
    assert run.returncode == 0


def test_a_broken_server_is_a_failure_if_it_was_asked_for(runs: dict[str, Done]) -> None:
    run = runs["named broken"]
    assert run.stdout.splitlines()[3:] == ["broken  failed", f"  {NOT_FOUND}"]
    assert run.returncode == 1


def test_it_is_a_failure_if_no_server_is_up(runs: dict[str, Done]) -> None:
    run = runs["all broken"]
    assert run.stdout.splitlines() == ["a  failed", f"  {NOT_FOUND}", "b  failed", f"  {NOT_FOUND}"]
    assert run.returncode == 1


def test_a_required_server_that_is_down_is_a_failure_and_the_others_are_listed(runs: dict[str, Done]) -> None:
    run = runs["required broken"]
    states = {alias: server["state"] for alias, server in shown(run)["servers"].items()}
    assert states == {"post": "ready", "broken": "failed"}
    assert [tool["name"] for tool in shown(run)["tools"]] == ["post_read", "post_send"]
    assert run.returncode == 1


def test_the_log_goes_to_stderr_only(runs: dict[str, Done]) -> None:
    assert runs["verbose"].stdout == runs["text"].stdout
    log = [line[8:] for line in runs["verbose"].stderr.splitlines()]
    assert f" toolbus WARNING server 'broken': {NOT_FOUND}" in log
    assert " toolbus INFO server 'post': connecting -> ready" in log
    twice = [line[8:] for line in runs["narrowed"].stderr.splitlines()]
    assert " toolbus.stderr.attic DEBUG dust" in twice


def test_without_a_terminal_there_is_no_escape_code(runs: dict[str, Done]) -> None:
    assert [name for name, run in runs.items() if "\x1b" in run.stdout + run.stderr] == []


def test_wait_keeps_trying_a_server_that_is_down_at_first(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    late = scripted(folder, "late", tools=[READ])
    script = folder / "late.py"
    # It fails twice, once for each era, before it works.
    script.write_text(
        "import pathlib, runpy, sys\n"
        f"count = pathlib.Path({str(folder / 'count')!r})\n"
        "count.open('a').write('x')\n"
        "if len(count.read_text()) <= 2: sys.exit('not yet')\n"
        f"sys.argv = {late['args']!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    write_config(folder, {"late": {"command": sys.executable, "args": [str(script)]}, "broken": BROKEN})
    now = toolbus("tools", "--json", folder=folder)
    assert (shown(now)["servers"]["late"]["state"], now.returncode) == ("failed", 1)
    (folder / "count").unlink()
    later = toolbus("tools", "--json", "--wait", "40", folder=folder)
    assert (shown(later)["servers"]["late"]["state"], later.returncode) == ("ready", 0)
    assert shown(later)["servers"]["broken"]["state"] == "failed"


@pytest.mark.parametrize("seconds", ["-3", "nan", "inf"])
@pytest.mark.parametrize("more", [[], ["--cost"]], ids=["tools", "cost"])
def test_nobody_waits_for_a_time_that_is_none(tmp_path: Path, seconds: str, more: list[str]) -> None:
    write_config(tmp_path, {})
    run = toolbus("tools", "--wait", seconds, *more, folder=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    problem = f"{seconds!r} is not a time such as 30s, 5m, 2h or 1d; see 'toolbus tools --help'"
    assert run.stderr == f"toolbus: invalid value for '--wait': {problem}\n"


def test_a_bad_name_is_written_the_same_in_tools_and_check(tmp_path: Path) -> None:
    names = ["two\nlines\x1b[2J", "back\\slash", "it's"]
    tools = [{"name": name, "inputSchema": "none"} for name in names]
    write_config(tmp_path, {"a": scripted(tmp_path, "a", tools=[{"name": "good"}, *tools])})
    for command in ("tools", "check"):
        told = toolbus(command, folder=tmp_path).stdout
        for shown in ("two\\nlines\\x1b[2J", "back\\slash", "it's"):
            assert f"tool '{shown}': left out: inputSchema is not an object" in told
