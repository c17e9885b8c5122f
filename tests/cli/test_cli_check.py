"""`toolbus check`: the problems of each server, in words, and their fixes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config
from tests.conftest import plain
from tests.servers.recording import recording

LONG = "l" * 70
BAD_TOOLS = [{"name": "good"}, {"name": "no_good", "inputSchema": "text"}]
ODD_NAMES = [{"name": "a.b"}, {"name": LONG}]
COMMANDS = {
    "text": ["check"],
    "json": ["check", "--json"],
    "fine": ["check", "good", "pages"],
    "junk": ["check", "junk", "--json"],
    "warned": ["check", "good", "bad"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Done]]:
    folder = tmp_path_factory.mktemp("check")
    one = [{"name": "x"}]
    with recording() as locked, recording() as web:
        locked.statuses = {"initialize": 401, "server/discover": 401}
        write_config(
            folder,
            {
                "good": scripted(folder, "good", tools=one),
                "pages": plain("three_pages"),
                "web": {"url": web.url},
                "missing": {"command": "no-such-program"},
                "exits": plain("exit_at_once"),
                "locked": {"url": locked.url},
                "nobody": {"url": "http://127.0.0.1:9/mcp"},
                "unset": {"command": sys.executable, "env": {"TOKEN": "${NOT_SET}"}},
                "bad": scripted(folder, "bad", tools=BAD_TOOLS),
                "pattern": scripted(folder, "pattern", tools=one) | {"include": ["y*", "x"]},
                "names": scripted(folder, "names", tools=ODD_NAMES),
                "junk": scripted(folder, "junk", tools=one, stdout="Welcome!\n"),
                "silent": plain("never_answer", timeouts={"connect": 3}),
                "empty": plain("no_tools"),
            },
        )
        yield together(COMMANDS, folder)


def problem(severity: str, message: str, fix: str) -> dict[str, str]:
    return {"severity": severity, "message": message, "fix": fix}


AUTHOR = "report it to the server's author; its other tools work"
NAMES = "nothing to do: models accept unique names of up to 64 characters, A-Z a-z 0-9 _ -"
SHORTENED = f"names_{'l' * 49}_"
FINDINGS: dict[str, list[dict[str, str]]] = {
    "good": [],
    "pages": [],
    "web": [],
    "missing": [
        problem(
            "error",
            "spawn failed: command 'no-such-program' not found",
            "install it, or give its full path",
        )
    ],
    "locked": [
        problem(
            "error",
            "handshake failed: HTTP 401 Unauthorized",
            "set auth: oauth if it has a sign-in page, else credentials in headers or auth",
        )
    ],
    "nobody": [
        problem(
            "error",
            "connect failed: cannot connect: connection refused",
            "check that the server is running: http://127.0.0.1:9/mcp",
        )
    ],
    "unset": [
        problem(
            "error",
            "env.TOKEN: secret 'NOT_SET' is not set",
            "set it in the environment or in a .env beside the config",
        )
    ],
    "bad": [problem("warning", "tool 'no_good': left out: inputSchema is not an object", AUTHOR)],
    "pattern": [
        problem(
            "warning",
            "include: no tool matches 'y*'",
            "fix the pattern: it is matched against the server's own tool names",
        )
    ],
    "silent": [
        problem(
            "error",
            "handshake failed: timed out after 3 s: it did not answer, so toolbus ended it",
            "if it starts slowly, as with a first download, raise timeouts.connect",
        )
    ],
}


def found(runs: dict[str, Done], alias: str) -> dict[str, Any]:
    return json.loads(runs["json"].stdout)["servers"][alias]


def steps(runs: dict[str, Done], alias: str) -> dict[str, str]:
    """The text about a server, by the words at the left."""
    lines = runs["text"].stdout.splitlines()
    own: dict[str, str] = {}
    for line in lines[[line.split()[0] for line in lines].index(alias) + 1 :]:
        if not line.startswith(" "):
            break
        label = line.strip().partition("  ")
        own[label[0]] = label[2].strip()
    return own


@pytest.mark.parametrize("alias", FINDINGS)
def test_every_problem_is_named_with_its_fix(runs: dict[str, Done], alias: str) -> None:
    assert found(runs, alias)["problems"] == FINDINGS[alias]


def test_json_tells_everything(runs: dict[str, Done]) -> None:
    assert (runs["json"].returncode, runs["json"].stderr) == (1, "")
    assert json.loads(runs["json"].stdout)["ok"] is False
    good = found(runs, "good")
    assert 0 < good.pop("latency_ms") < 30_000
    facts: dict[str, Any] = {"state": "ready", "era": "legacy", "protocol": "2025-06-18", "tools": 1}
    steps = [step["step"] for step in good.pop("steps")]
    assert steps == ["command", "process", "protocol", "list"]
    assert good == {"ok": True, **facts, "problems": []}
    down = found(runs, "missing")
    del down["problems"]
    nothing = {"era": None, "protocol": None, "latency_ms": None, "tools": 0}
    assert down == {"ok": False, "state": "failed", **nothing, "steps": []}
    assert found(runs, "locked")["state"] == "auth_required"


def test_every_error_has_a_fix_and_only_errors_are_a_failure(runs: dict[str, Done]) -> None:
    for server in json.loads(runs["json"].stdout)["servers"].values():
        errors = [each for each in server["problems"] if each["severity"] == "error"]
        assert all(each["fix"] for each in server["problems"])
        assert server["ok"] == (not errors) == (server["state"] == "ready")


def test_a_process_that_ends_at_once_shows_its_exit_code_and_its_last_words(runs: dict[str, Done]) -> None:
    assert list(steps(runs, "exits").items())[1:] == [
        ("process", "started"),
        ("error", "handshake failed: the process ended with exit code 3"),
        ("stderr", "cannot open the database"),
        ("next step", "read its stderr output"),
    ]
    assert "cannot open the database" in json.dumps(found(runs, "exits"))


def test_a_name_that_had_to_change_is_told(runs: dict[str, Done]) -> None:
    dotted, shortened = found(runs, "names")["problems"]
    assert dotted == problem("info", "tool 'a.b' is exposed as 'names_a_b'", NAMES)
    name = shortened["message"].removeprefix(f"tool {LONG!r} is exposed as ").strip("'")
    assert (name[: len(SHORTENED)], len(name)) == (SHORTENED, 64)
    assert "tool 'a.b' is exposed as 'names_a_b'" in runs["text"].stdout


def test_how_far_a_server_came_is_shown_step_by_step(runs: dict[str, Done]) -> None:
    assert steps(runs, "pages")["list"].startswith("3 tools on 3 pages, ")
    assert steps(runs, "pages") | {"list": ""} == {
        "command": f"{sys.executable}: found",
        "process": "started",
        "protocol": "2025-06-18 (legacy)",
        "list": "",
    }
    assert list(steps(runs, "web")) == ["URL", "authorization", "protocol", "list"]
    assert steps(runs, "web")["authorization"] == "none sent, none required"
    assert list(steps(runs, "locked")) == ["URL", "error", "next step"]
    assert list(steps(runs, "nobody")) == ["error", "next step"]
    assert steps(runs, "good")["list"].startswith("1 tool on 1 page, ")


def test_words_on_standard_output_that_are_no_messages_are_told(runs: dict[str, Done]) -> None:
    message = "skipped a line on its standard output that is not a message; first: 'Welcome!'"
    told = json.loads(runs["junk"].stdout)["servers"]["junk"]["problems"]
    assert told == [problem("warning", message, "report it to the server's author")]


def test_a_server_without_tools_says_so(runs: dict[str, Done]) -> None:
    assert [each["severity"] for each in found(runs, "empty")["problems"]] == ["warning"]
    assert found(runs, "empty")["ok"] is True


def test_the_last_line_says_whether_to_act(runs: dict[str, Done]) -> None:
    act = "14 servers in toolbus.yaml: 8 ready, 6 failed; fix the errors above"
    assert runs["text"].stdout.splitlines()[-1] == act
    assert (runs["text"].returncode, runs["text"].stderr) == (1, "")
    heads = [line.split()[1] for line in runs["text"].stdout.splitlines()[:-1] if not line.startswith(" ")]
    assert heads == ["failed"] * 6 + ["ok"] * 8
    assert runs["fine"].stdout.splitlines()[-1] == "2 servers in toolbus.yaml: 2 ready; nothing to fix"
    assert (runs["fine"].returncode, runs["fine"].stderr) == (0, "")
    may = "2 servers in toolbus.yaml: 2 ready; nothing to fix; 1 warning above"
    assert runs["warned"].stdout.splitlines()[-1] == may
    assert runs["warned"].returncode == 0


def test_what_needs_no_action_is_a_note(runs: dict[str, Done]) -> None:
    assert "  note      tool 'a.b' is exposed as 'names_a_b'\n" in runs["text"].stdout
    assert "info" not in runs["text"].stdout


def test_a_step_that_is_the_same_for_many_tools_is_told_once(tmp_path: Path) -> None:
    tools = [{"name": f"bad_{number}", "inputSchema": "text"} for number in range(3)]
    servers = {alias: scripted(tmp_path, alias, tools=[{"name": "good"}, *tools]) for alias in "ab"}
    write_config(tmp_path, servers)
    lines = [line.split(None, 1) for line in toolbus("check", folder=tmp_path).stdout.splitlines()]
    told = [label for label, text in lines if label in ("warning", "next") and "good" not in text]
    assert told == [*["warning"] * 3, "next"] * 2


def test_a_secret_of_a_server_is_nowhere_on_the_screen(tmp_path: Path) -> None:
    secrets = [f"s3cr3t-number-{number}" for number in range(7)]
    with recording() as locked:
        locked.statuses = {"initialize": 401, "server/discover": 401}
        ends = plain("show_secret", "exit_at_once")["args"]
        servers = {
            "env": plain("show_secret", env={"TOKEN": secrets[0]}),
            "reference": plain("show_secret", env={"TOKEN": "x${KEPT}"}),
            "argument": {"command": sys.executable, "args": [*ends, "--key", "${KEPT}"]},
            "literal": {"command": sys.executable, "args": [*ends, f"--token={secrets[2]}"]},
            "apart": {"command": sys.executable, "args": [*ends, "--api-key", secrets[3]]},
            "headers": {"url": locked.url, "headers": {"Authorization": f"Bearer {secrets[4]}"}},
            "query": {"url": f"{locked.url}?token={secrets[5]}"},
            "user": {"url": locked.url.replace("//", f"//me:{secrets[6]}@")},
        }
        write_config(tmp_path, servers)
        for words in (["check", "-vv"], ["check", "--json"]):
            run = toolbus(*words, folder=tmp_path, env={"KEPT": secrets[1]})
            assert run.returncode == 1
            seen = run.stdout + run.stderr
            assert [secret for secret in secrets if secret in seen] == []
