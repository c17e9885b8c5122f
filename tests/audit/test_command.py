"""`toolbus audit`: what it shows, what it finds, and what it says if there is nothing."""

import json
import re
from pathlib import Path

import pytest

from tests.audit.writing import only_chain, write_lines
from tests.cli.running import Done, toolbus
from tests.inside.audit import AuditTrail
from tests.inside.config import Audit
from tests.inside.core import Decision, Failure, Operation, Text, ToolResult, request_spec
from toolbus import Caller

TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.MULTILINE)
CONFIG = "servers:\n  files: {command: x}\naudit: {file: audit.jsonl, content: full}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a config and the trail of some calls, one of them with a hostile reason."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "toolbus.yaml").write_text(CONFIG)
    trail = AuditTrail(Audit(file=str(folder / "audit.jsonl"), content="full"))
    for user, tool, reason in (
        ("ann", "read", ""),
        ("bob", "delete", "no\x1b[31m\nred"),
        ("ann", "write", ""),
    ):
        operation = Operation(
            spec=request_spec("tools/call", "files", tool),
            arguments={"path": "a.txt"},
            caller=Caller(user=user, face="test"),
        )
        call = trail.start(operation)
        action = "deny" if reason else "allow"
        trail.decided(operation, Decision(action=action, by="policy", rule="policy[1]", reason=reason))
        call.end(ToolResult(content=(Text(text="done"),)), Failure("refused") if reason else None)
    trail.close()
    return folder


def audit(folder: Path, *words: str) -> Done:
    return toolbus("--config", "toolbus.yaml", "audit", *words, folder=folder)


def shown(run: Done) -> list[str]:
    assert (run.returncode, run.stderr) == (0, "")
    return [" ".join(line.split()[2:]) for line in run.stdout.splitlines()]


def test_each_event_is_a_line_and_no_text_of_others_is_obeyed(folder: Path) -> None:
    run = audit(folder)
    lines = [re.sub(r"[\d.,]+ ms|process \d+", "N", line) for line in shown(run)]
    assert lines == [
        "started N, audit.jsonl",
        'allow files/read policy[1], for ann, via test, arguments {"path": "a.txt"}',
        "ok files/read N, 4 B, for ann, via test",
        r'deny files/delete policy[1], no\x1b[31m\nred, for bob, via test, arguments {"path": "a.txt"}',
        'allow files/write policy[1], for ann, via test, arguments {"path": "a.txt"}',
        "ok files/write N, 4 B, for ann, via test",
    ]
    assert len(TIME.findall(run.stdout)) == len(lines)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--tool", "files/re*"), ["allow files/read", "ok files/read"]),
        (("--tool", "delete"), ["deny files/delete"]),
        (("--user", "bob"), ["deny files/delete"]),
        (("--decision", "deny"), ["deny files/delete"]),
        (
            ("--decision", "allow", "--user", "ann", "--since", "1h"),
            ["allow files/read", "allow files/write"],
        ),
        (("--since", "2999-01-01"), []),
        (("--tail", "0", "--tool", "nobody/*"), []),
    ],
)
def test_filters(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert [" ".join(line.split()[:2]) for line in shown(audit(folder, *words))] == expected


def test_the_last_events_and_that_there_are_more(folder: Path) -> None:
    run = audit(folder, "--tail", "2")
    assert [line.split()[2] for line in run.stdout.splitlines()] == ["allow", "ok"]
    assert run.stderr == "the last 2 events; --tail 0 shows all\n"


def test_the_number_of_the_last_events_can_be_left_out(folder: Path) -> None:
    plain = audit(folder)
    for options in (("--tail",), ("--tail", "--tool", "*")):
        run = audit(folder, *options)
        assert (run.returncode, run.stderr) == (0, "")
    assert audit(folder, "--tail").stdout == plain.stdout


def test_json_has_the_lines_as_they_are(folder: Path) -> None:
    run = audit(folder, "--json")
    document = json.loads(run.stdout)
    assert document["files"] == [str(folder / "audit.jsonl")]
    assert document["events"] == [
        json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()
    ]


def test_all_chains_are_merged_by_time(folder: Path) -> None:
    kept = AuditTrail(Audit(file=str(folder / "audit.jsonl")))
    kept.decided(
        Operation(spec=request_spec("tools/call", "a", "1"), arguments={}), Decision(action="allow", by="x")
    )
    write_lines(folder / "audit.jsonl", 1)
    kept.decided(
        Operation(spec=request_spec("tools/call", "a", "2"), arguments={}), Decision(action="allow", by="x")
    )
    kept.close()
    events = json.loads(audit(folder, "--json").stdout)["events"]
    times = [event["time"] for event in events]
    assert times == sorted(times)
    assert [event["seq"] for event in events][-4:] == [8, 1, 2, 9]


def test_an_intact_trail_shows_its_head(folder: Path) -> None:
    run = audit(folder, "--verify")
    end = only_chain(folder / "audit.jsonl").end
    assert (run.returncode, run.stdout) == (
        0,
        f"audit.jsonl: intact, 6 lines in 1 file, head {end.seq} {end.hash}\n",
    )
    assert audit(folder, "--expect", end.hash).returncode == 0


def test_a_change_is_named_and_the_exit_code_is_one(folder: Path) -> None:
    file = folder / "audit.jsonl"
    end = only_chain(file).end
    file.write_text(file.read_text().replace('"user":"bob"', '"user":"eve"'))
    run = audit(folder, "--verify")
    assert run.returncode == 1
    assert run.stdout.splitlines() == [
        "audit.jsonl:4: changed",
        f"audit.jsonl: 1 problem, 5 lines in 1 file, head {end.seq} {end.hash}",
    ]
    found = json.loads(audit(folder, "--verify", "--json").stdout)
    assert found["intact"] is False
    assert found["chains"][0]["problems"] == [{"file": str(file), "line": 4, "problem": "changed"}]


def test_a_cut_end_is_found_with_the_head_that_was_noted(folder: Path) -> None:
    file = folder / "audit.jsonl"
    end = only_chain(file).end
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-2]))
    assert audit(folder, "--verify").returncode == 0
    run = audit(folder, "--expect", end.hash)
    assert run.returncode == 1
    assert run.stdout.splitlines()[-1] == f"{end.hash} is not in the audit log: lines at its end are missing"


def test_a_trail_that_was_removed(folder: Path) -> None:
    """It is not intact."""
    (folder / "audit.jsonl").unlink()
    run = audit(folder, "--verify", "--json")
    assert (run.returncode, json.loads(run.stdout)["intact"]) == (1, False)


def test_the_rule_that_denied_is_named_once(folder: Path) -> None:
    trail = AuditTrail(Audit(file=str(folder / "audit.jsonl")))
    operation = Operation(spec=request_spec("tools/call", "notes", "forget"), arguments={}, caller=Caller())
    for end in (": notes are kept", ""):
        reason = f"rule policy[0] denies it{end}"
        trail.decided(operation, Decision(action="deny", by="policy", rule="policy[0]", reason=reason))
    trail.close()
    assert shown(audit(folder, "--tool", "forget")) == [
        "deny notes/forget policy[0]: notes are kept",
        "deny notes/forget policy[0]",
    ]


def test_a_trail_is_read_without_a_config(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    (copy / "copy.jsonl").write_bytes((folder / "audit.jsonl").read_bytes())
    run = toolbus("audit", "copy.jsonl", "--verify", folder=copy)
    assert (run.returncode, run.stdout[:19]) == (0, "copy.jsonl: intact,")


@pytest.mark.parametrize(
    ("config", "words", "code", "message"),
    [
        (
            "servers: {a: {command: x}}\n",
            (),
            2,
            "nothing is recorded; add 'audit: audit.jsonl' to toolbus.yaml",
        ),
        (CONFIG.replace("audit.jsonl", "none.jsonl"), (), 0, "nothing is recorded yet in none.jsonl"),
        (
            CONFIG.replace("audit.jsonl", "none.jsonl"),
            ("--verify",),
            1,
            "nothing is recorded yet in none.jsonl",
        ),
        (CONFIG, ("gone.jsonl", "--verify"), 1, "there is no audit log at gone.jsonl"),
        (CONFIG, ("gone.jsonl",), 1, "there is no audit log at gone.jsonl"),
        (CONFIG, ("empty.jsonl", "--verify"), 1, "nothing is recorded yet in empty.jsonl"),
        (CONFIG, ("--since", "soon"), 2, "--since soon: not a time; write such as 30m, 2h, 7d"),
        (CONFIG, ("--expect", "abc"), 2, "--expect abc: not a hash; it has 64 digits"),
    ],
)
def test_what_is_said_if_there_is_nothing_to_show(
    folder: Path, config: str, words: tuple[str, ...], code: int, message: str
) -> None:
    (folder / "toolbus.yaml").write_text(config)
    (folder / "empty.jsonl").touch()
    run = audit(folder, *words)
    assert run.returncode == code
    assert message in " ".join(run.stderr.split())
