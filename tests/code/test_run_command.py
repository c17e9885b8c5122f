"""`toolbus script`: output, checks, stubs, and a script that another command resumes."""

import json
from pathlib import Path

import pytest

from tests.cli.running import toolbus, write_config
from tests.code.support import config, written

SCRIPT = """
rows = await ledger_rows(count=3)
await ledger_write(line=f"{args[0]}: {len(rows['result'])}")
"done"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "report.py").write_text(SCRIPT)
    return made


def prepare(folder: Path, **settings: object) -> None:
    made = config(folder, **settings)
    write_config(folder, made.pop("servers"), **made)


def test_a_script_is_run_from_a_file_and_from_stdin_and_checked(folder: Path) -> None:
    prepare(folder)
    ran = toolbus("script", "report.py", "may", folder=folder)
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr
    wrong = toolbus("script", "-", "--check", input="await ledger_write(line=1)", folder=folder)
    assert wrong.returncode == 1
    assert "script.py:1:20" in wrong.stderr
    stubs = toolbus("script", "report.py", "--stubs", folder=folder)
    assert "async def ledger_write(*, line: str)" in stubs.stdout
    assert written(folder) == ["may: 3"]


def test_a_suspended_script_is_resumed_by_another_command_once(folder: Path) -> None:
    prepare(folder, policy=[{"tools": "ledger/write", "do": "ask"}])
    waits = toolbus("script", "report.py", "june", "--json", folder=folder)
    assert waits.returncode == 0, waits.stderr
    (folder / "call.json").write_text(
        json.dumps({k: json.loads(waits.stdout)[k] for k in ("toolbus", "pending")})
    )
    assert written(folder) == []
    resumed = toolbus("call", "--resume", "call.json", "answer=once", folder=folder)
    assert (resumed.stdout, resumed.returncode) == ("done\n", 0), resumed.stderr
    again = toolbus("call", "--resume", "call.json", "answer=once", folder=folder)
    assert again.returncode == 1
    assert "already resumed" in again.stderr
    assert written(folder) == ["june: 3"]


def test_a_tool_that_no_server_seems_to_have_is_answered_with_the_nearest(folder: Path) -> None:
    prepare(folder)
    wrong = toolbus("script", "-", input='await write(line="x")', folder=folder)
    assert (wrong.returncode, wrong.stdout.splitlines()[0]) == (
        1,
        "the script was not run, because it would fail:",
    )
    assert "No tool is named write; near it: ledger_write" in wrong.stdout
    assert written(folder) == []


def test_a_check_prints_what_may_fail_as_notes(folder: Path) -> None:
    prepare(folder)
    script = 'import re\nre.search("o", (await ledger_write(line="one"))["result"]).group()'
    checked = toolbus("script", "-", "--check", input=script, folder=folder)
    assert (checked.returncode, checked.stdout) == (0, "")
    assert "it may run, although:\nscript.py:2:1: " in checked.stderr
    answer = json.loads(toolbus("--json", "script", "-", "--check", input=script, folder=folder).stdout)
    assert (answer["ok"], answer["problem"], len(answer["notes"])) == (True, None, 1)
    assert written(folder) == []
