"""`toolbus policy`, and what other commands show of a policy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import Done, scripted, together, toolbus, write_config
from tests.inside.lock import definition_digest
from tests.inside.policy import AnswerKey, file_answers, rule_digest
from toolbus.config import load_config

PATH: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path", "text"],
}
TOOLS: list[dict[str, Any]] = [
    {"name": "read", "annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}},
    {"name": "write", "inputSchema": PATH},
    {"name": "delete", "inputSchema": {"type": "object"}},
]
OFFERS: dict[str, Any] = {
    "tools": TOOLS,
    "resources": [{"uri": "file:///etc/passwd", "name": "passwd"}],
    "prompts": [{"name": "review", "arguments": [{"name": "language"}]}],
}
IN_ETC = {"properties": {"path": {"pattern": "^/etc"}}, "required": ["path"]}
POLICY: list[dict[str, Any]] = [
    {"tools": "*/delete", "do": "deny", "reason": "use the web page"},
    {"hint": "read-only", "do": "allow", "per_minute": 60, "per_run": 200},
    {"tools": "files/write", "arguments": IN_ETC, "do": "deny"},
    {"resources": "files/file:///etc/*", "do": "deny"},
    {"requests": "*/sampling", "do": "deny", "reason": "it costs money"},
    {"do": "ask"},
]
COMMANDS = {
    "all": ["policy"],
    "all json": ["policy", "--json"],
    "read": ["policy", "files/read"],
    "claimed": ["policy", "web_read"],
    "denied": ["policy", "files_delete"],
    "denied json": ["policy", "files_delete", "--json"],
    "open": ["policy", "files_write"],
    "in etc": ["policy", "files/write", "path=/etc/x"],
    "elsewhere": ["policy", "files/write", "--args", '{"path": "/tmp/x"}', "lines=3", "--json"],
    "resource": ["policy", "--resource", "files/file:///etc/passwd"],
    "prompt": ["policy", "--prompt", "files/review", "language=de", "--json"],
    "request": ["policy", "--request", "web/sampling"],
    "other request": ["policy", "--request", "web/roots", "--json"],
    "unknown": ["policy", "files/rite"],
    "no server": ["policy", "--prompt", "filse/review"],
    "no slash": ["policy", "--resource", "passwd"],
    "no request": ["policy", "--request", "web/samples"],
    "two kinds": ["policy", "--prompt", "--resource", "files/x"],
    "kind alone": ["policy", "--prompt"],
    "wrong argument": ["policy", "files/write", "pth=/etc/x"],
    "forget a call": ["policy", "--forget", "files/write", "path=x"],
    "tools": ["tools"],
    "tools json": ["tools", "--json"],
    "tools full": ["tools", "files", "--full"],
    "check": ["check"],
    "check json": ["check", "--json"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trusted server, and one that is not, under a policy."""
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    files = {**scripted(folder, "files", **OFFERS), "trust_annotations": True}
    write_config(folder, {"files": files, "web": scripted(folder, "web", tools=TOOLS[:1])}, policy=POLICY)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    return together(COMMANDS, folder)


def document(run: Done) -> Any:
    assert run.stderr == ""
    return json.loads(run.stdout)


def test_the_rules_are_listed_in_order_with_what_they_decide(runs: dict[str, Done]) -> None:
    run = runs["all"]
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [
        "policy[0]  deny   1 tool        tools */delete: use the web page",
        "policy[1]  allow  1 tool        every tool marked read-only, at most 60 per minute and 200 per run",
        f"policy[2]  deny   up to 1 tool  tools files/write with arguments that match {json.dumps(IN_ETC)}",
        "policy[3]  deny   resources     resources files/file:///etc/*",
        "policy[4]  deny   requests      requests */sampling: it costs money",
        "policy[5]  ask    2 tools       every tool, resource and prompt",
        "4 tools: 1 denied, 2 asked about, 1 allowed",
        "denied: files/delete",
    ]
    found = document(runs["all json"])
    assert [one["label"] for one in found["rules"]] == [f"policy[{index}]" for index in range(6)]
    assert found["rules"][2] == {
        "label": "policy[2]",
        "rule": {**POLICY[2], "tools": ["files/write"]},
        "tools": 0,
        "depends_on_arguments": 1,
        "problems": [],
    }
    assert (found["tools"], found["denied"], found["asked"]) == (
        4,
        ["files/delete"],
        ["files/write", "web/read"],
    )
    assert (found["answers"], found["not_listed"]) == ([], {})


def test_the_rule_that_decides_is_explained_with_those_before_it(runs: dict[str, Done]) -> None:
    run = runs["read"]
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [
        "files/read: allowed by policy[1]",
        "  policy[0]  tools do not match",
        "  policy[1]  matches, with the hint 'read-only': allow",
        "  hints      read-only, open-world; the config vouches for them (trust_annotations or hints)",
        "  limits     at most 60 per minute and 200 per run",
    ]
    head, *_ = runs["denied"].stdout.splitlines()
    assert (runs["denied"].returncode, head) == (0, "files/delete: denied by policy[0]: use the web page")
    found = document(runs["denied json"])
    assert (found["kind"], found["name"], found["tool"]) == ("tool", "files/delete", "files_delete")
    assert (found["decision"], found["rule"], found["reason"]) == ("deny", "policy[0]", "use the web page")
    assert found["steps"] == [
        {"rule": "policy[0]", "matches": True, "decides": True, "why": "matches '*/delete': deny"}
    ]
    assert found["hints"]["trusted"] is True
    assert found["hints"]["counts_as"] == ["destructive", "writes", "open-world"]


def test_a_hint_of_a_server_that_is_not_trusted_allows_nothing(runs: dict[str, Done]) -> None:
    lines = runs["claimed"].stdout.splitlines()
    assert lines[0] == "web/read: policy[5] asks a person"
    assert lines[2].startswith("  policy[1]  matches only by the word of a server that is not trusted")
    assert lines[-1] == (
        "  hints      destructive, writes, open-world; its server says readOnlyHint: true, but is not trusted"
    )


def test_arguments_decide_if_a_rule_looks_at_them(runs: dict[str, Done]) -> None:
    assert runs["open"].stdout.splitlines()[0] == "files/write: depends on its arguments"
    assert "none given; pass them to see which rules match them" in runs["open"].stdout
    assert runs["in etc"].stdout.splitlines()[0] == "files/write: denied by policy[2]"
    found = document(runs["elsewhere"])
    assert (found["decision"], found["rule"]) == ("ask", "policy[5]")
    assert found["arguments"] == {"path": "/tmp/x", "lines": 3}
    assert found["steps"][2]["matches"] is False


def test_resources_prompts_and_requests_are_explained_without_a_server(runs: dict[str, Done]) -> None:
    assert runs["resource"].stdout.splitlines()[0] == "files/file:///etc/passwd: denied by policy[3]"
    prompt = document(runs["prompt"])
    assert (prompt["kind"], prompt["decision"], prompt["arguments"]) == ("prompt", "ask", {"language": "de"})
    assert runs["request"].stdout.splitlines()[0] == "web/sampling: denied by policy[4]: it costs money"
    request = document(runs["other request"])
    assert (request["decision"], request["rule"], request["hints"]) == ("allow", None, None)


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("unknown", 1, "did you mean 'files/write' or"),
        ("no server", 2, "did you mean 'files'?"),
        ("no slash", 2, "'passwd' names no server; write SERVER/URI"),
        ("no request", 2, "a server asks for elicitation, sampling, roots, not 'samples'"),
        ("two kinds", 2, "--resource and --prompt exclude each other; keep one"),
        ("kind alone", 2, "--prompt needs a name: SERVER/PROMPT"),
        ("wrong argument", 2, "pth: no such argument; did you mean 'path'?"),
        ("forget a call", 2, "arguments belong to a call"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(
    command: str, code: int, problem: str, runs: dict[str, Done]
) -> None:
    run = runs[command]
    assert (run.returncode, run.stdout) == (code, "")
    assert problem in run.stderr


def test_tools_marks_what_is_asked_about_and_counts_what_is_denied(runs: dict[str, Done]) -> None:
    run = runs["tools"]
    assert run.returncode == 0
    rows = [line.split() for line in run.stdout.splitlines()]
    assert ["files_read"] in rows
    assert ["files_write", "asks", "path", "text", "[lines]"] in rows
    assert ["web_read", "asks"] in rows
    assert "files_delete" not in run.stdout
    assert run.stderr == "1 tool is denied by the policy; 'toolbus policy' lists them\n"
    found = document(runs["tools json"])
    assert {tool["name"]: tool["asks"] for tool in found["tools"]} == {
        "files_read": False,
        "files_write": True,
        "web_read": True,
    }
    assert found["denied"] == ["files/delete"]
    assert "policy: a person may be asked" in runs["tools full"].stdout


def test_check_has_a_line_about_the_policy(runs: dict[str, Done]) -> None:
    assert runs["check"].returncode == 0
    assert "policy: 6 rules, 1 tool denied, 2 asked about" in runs["check"].stdout.splitlines()
    assert document(runs["check json"])["policy"] == {
        "ok": True,
        "rules": 6,
        "denied": ["files/delete"],
        "asked": ["files/write", "web/read"],
        "problems": [],
    }


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """Writes a config with this policy in a folder of its own."""

    def write(*policy: dict[str, Any], **settings: Any) -> Path:
        folder = tmp_path / "home" / "work"
        folder.mkdir(parents=True, exist_ok=True)
        files = {**scripted(folder, "files", marker=str(folder / "started"), **OFFERS), **settings}
        write_config(folder, {"files": files}, **({"policy": list(policy)} if policy else {}))
        return folder

    return write


def test_a_rule_that_matches_nothing(changed: Callable[..., Path]) -> None:
    """The check fails, and names similar tools."""
    folder = changed(
        {"tools": "files/delte", "do": "deny"},
        {"tools": "flies/*", "do": "deny"},
        {"do": "ask"},
        {"tools": "files/read", "do": "allow"},
    )
    shown = toolbus("check", folder=folder)
    told = toolbus("check", "--json", folder=folder)
    listed = toolbus("policy", folder=folder)
    tools = toolbus("tools", folder=folder)
    called = toolbus("call", "files/read", "--json", folder=folder)

    assert (shown.returncode, told.returncode, listed.returncode) == (1, 1, 0)
    problems = [line.split(maxsplit=1)[1] for line in shown.stdout.splitlines() if "  error " in line]
    assert problems == [
        "policy[0]: tools: 'files/delte' matches no tool; did you mean 'files/delete'?",
        "policy[1]: tools: 'flies/*' matches no server; did you mean 'files'?",
        "policy[3]: is never reached: policy[2] always matches before it",
    ]
    assert tools.stderr.splitlines() == [f"warning: {problem}" for problem in problems]
    assert called.stderr.splitlines()[:3] == [f"warning: {problem}" for problem in problems]
    assert "next step  fix or remove the rule" in shown.stdout
    assert shown.stdout.splitlines()[-1].endswith("1 ready; fix the errors above")
    found = json.loads(told.stdout)
    assert (found["ok"], found["servers"]["files"]["ok"], found["policy"]["ok"]) == (False, True, False)
    assert found["policy"]["problems"][0] == {
        "rule": "policy[0]",
        "severity": "error",
        "problem": "tools: 'files/delte' matches no tool",
        "near_misses": ["files/delete"],
    }
    assert [
        line.removeprefix("error: ") for line in listed.stdout.splitlines() if "error: " in line
    ] == problems


def test_a_config_without_a_policy_shows_nothing_new(changed: Callable[..., Path]) -> None:
    folder = changed()
    check, listing = (toolbus(command, "--json", folder=folder) for command in ("check", "tools"))
    assert "policy" not in toolbus("check", folder=folder).stdout
    assert "policy" not in json.loads(check.stdout)
    assert "denied" not in listing.stdout
    assert "asks" not in listing.stdout
    shown = toolbus("policy", folder=folder)
    assert (shown.returncode, shown.stdout.partition(";")[0]) == (0, "no policy: every call is allowed")
    one = toolbus("policy", "files/delete", folder=folder)
    assert one.stdout.splitlines()[0] == "files/delete: allowed: no rule matches"
    example = yaml.safe_load(shown.stdout.splitlines()[1])
    asked = toolbus("policy", "files/delete", folder=changed(*example["policy"]))
    assert asked.stdout.startswith("files/delete: policy[1] asks a person\n")


def test_with_a_lockfile_no_server_is_started(changed: Callable[..., Path]) -> None:
    folder = changed({"tools": "files/delete", "do": "deny"})
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    (folder / "started").unlink()
    assert toolbus("policy", folder=folder).stdout.splitlines()[-1] == "denied: files/delete"
    one = toolbus("policy", "files_delete", folder=folder)
    assert one.stdout.splitlines()[0] == "files/delete: denied by policy[0]"
    assert toolbus("policy", "files_other", folder=folder).returncode == 1
    assert toolbus("tools", folder=folder).stderr.startswith("1 tool is denied by the policy")
    assert not (folder / "started").exists()


def test_resources_prompts_and_requests_need_no_server(changed: Callable[..., Path]) -> None:
    folder = changed({"prompts": "files/*", "do": "deny"})
    run = toolbus("policy", "--prompt", "files/review", folder=folder)
    assert (run.returncode, run.stdout.splitlines()[0]) == (0, "files/review: denied by policy[0]")
    assert not (folder / "started").exists()


def store(folder: Path, tool: str, answer: Any, rule: int, definition: str, user: str = "") -> None:
    """Store an answer as a bus would."""
    config = load_config(folder / "toolbus.yaml")
    about = AnswerKey(
        user=user,
        kind="tool",
        target=f"files/{tool}",
        definition=definition,
        rule=rule_digest(config.policy[rule]),
    )
    file_answers(folder / "toolbus.yaml").add(about, answer)


def test_stored_answers_are_shown_and_forgotten(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed({"tools": "files/write", "do": "ask"}, {"do": "ask"})
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / ".state"))
    store(folder, "write", "always", 0, definition_digest({"name": "write", "inputSchema": PATH}))
    store(folder, "read", "never", 1, "sha256:of-another", user="ann")

    listed = toolbus("policy", folder=folder).stdout.partition("stored answers\n")[2].splitlines()
    assert listed[0].startswith("  always  files/write  policy[0]  since 20")
    assert listed[0].endswith(" UTC")
    assert listed[1].startswith("  never   files/read   policy[1]  since 20")
    assert listed[1].endswith(" UTC by ann, expired: its definition has changed")
    (write, read) = json.loads(toolbus("policy", "--json", folder=folder).stdout)["answers"]
    assert (write["answer"], write["name"], write["rule"], write["expired"]) == (
        "always",
        "files/write",
        "policy[0]",
        None,
    )
    assert (read["user"], read["expired"]) == ("ann", "its definition has changed")
    assert "  answer     always, stored 20" in toolbus("policy", "files/write", folder=folder).stdout

    unknown = toolbus("policy", "--forget", "files/delete", folder=folder)
    assert (unknown.returncode, unknown.stderr) == (
        1,
        "toolbus: no answer is stored for 'files/delete'; answers are stored for files/read, files/write\n",
    )
    one = toolbus("policy", "--forget", "files_write", folder=folder)
    assert (one.returncode, one.stdout) == (0, "forgot 'always' for files/write\n")
    rest = toolbus("policy", "--forget", "--json", folder=folder)
    assert [one["name"] for one in json.loads(rest.stdout)["forgotten"]] == ["files/read"]
    again = toolbus("policy", "--forget", folder=folder)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "there are no stored answers\n")


def test_an_answer_to_a_rule_that_changed_has_expired(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed({"tools": "files/write", "do": "ask"})
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / ".state"))
    store(folder, "write", "always", 0, definition_digest({"name": "write", "inputSchema": PATH}))
    changed({"tools": "files/*", "do": "ask"})
    (answer,) = json.loads(toolbus("policy", "files/write", "--json", folder=folder).stdout)["answers"]
    assert (answer["rule"], answer["expired"]) == (None, "its rule was changed or removed")


def test_damaged_answers_are_not_used_and_can_be_deleted(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed({"tools": "files/write", "do": "ask"})
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / ".state"))
    store(folder, "write", "always", 0, "sha256:x")
    (file,) = (folder.parent / ".state" / "toolbus" / "approvals").glob("*.json")
    file.write_text("{")
    run = toolbus("policy", "files/write", "--json", folder=folder)
    assert (run.returncode, json.loads(run.stdout)["answers"]) == (0, [])
    assert run.stderr.startswith("stored answers are not used: ")
    assert run.stderr.endswith("; delete them: toolbus policy --forget\n")
    assert toolbus("policy", "--forget", folder=folder).returncode == 0
    assert not file.exists()


def test_a_name_in_hostile_letters(changed: Callable[..., Path]) -> None:
    """It is written out, and never reaches the terminal."""
    folder = changed({"tools": "files/\x1b[2K", "do": "deny", "reason": "a\x07b"}, {"do": "deny"})
    for words in (["policy"], ["policy", "files/delete"], ["check"]):
        run = toolbus(*words, folder=folder)
        assert "\x1b" not in run.stdout + run.stderr
        assert "\x07" not in run.stdout + run.stderr


def test_the_review_of_a_config_shows_its_policy(tmp_path: Path) -> None:
    policy = [
        {"tools": "own/delete_*", "do": "deny", "reason": "use the\x1b[2K page"},
        {"hint": "read-only", "do": "allow", "per_minute": 60, "per_run": 1000},
        {"resources": ["own/file:///a", "own/file:///b"], "prompts": "own/*", "do": "ask"},
        {"arguments": {"required": ["path"]}, "do": "ask"},
    ]
    servers = {"own": {"command": "run", "trust_annotations": True}}
    (tmp_path / "toolbus.yaml").write_text(json.dumps({"servers": servers, "policy": policy}))

    assert toolbus("trust", folder=tmp_path).stdout.splitlines() == [
        "own",
        "  command            run",
        "  trust_annotations  true: its read-only tools run without approval",
        "policy",
        "  deny   tools own/delete_*: use the\\x1b[2K page",
        "  allow  every tool marked read-only, at most 60 per minute and 1,000 per run",
        "  ask    resources own/file:///a, own/file:///b and prompts own/*",
        '  ask    every tool, resource and prompt with arguments that match {"required": ["path"]}',
    ]
    document = json.loads(toolbus("trust", "--json", folder=tmp_path).stdout)
    assert document["policy"][0] == {**policy[0], "tools": ["own/delete_*"]}
    shown = yaml.safe_load(toolbus("config", folder=tmp_path).stdout)
    assert shown["policy"] == document["policy"]


def test_a_denied_prompt_is_refused_by_its_rule(changed: Callable[..., Path]) -> None:
    folder = changed({"prompts": "files/review", "do": "deny", "reason": "not here"})
    for name in ("files/review", "review"):
        done = toolbus("prompt", name, folder=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "toolbus: prompt 'review' was refused: rule policy[0] denies it: not here\n"
