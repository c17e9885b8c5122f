"""`toolbus run`: output, checks, stubs, and a script that another command resumes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.code.support import config, written

SCRIPT = """
rows = await ledger_rows(count=3)
await ledger_write(line=f"{args[0]}: {len(rows['result'])}")
"done"
"""


def toolbus(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    home = {
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "toolbus", "--config", str(folder / "toolbus.json"), *words]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, **home},
    )


def prepare(folder: Path, **settings: object) -> None:
    (folder / "toolbus.json").write_text(json.dumps(config(folder, **settings)))
    (folder / "report.py").write_text(SCRIPT)


def test_a_script_is_run_from_a_file_and_from_stdin_and_checked(tmp_path: Path) -> None:
    prepare(tmp_path)
    ran = toolbus(tmp_path, "run", "report.py", "may")
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr
    wrong = toolbus(tmp_path, "run", "-", "--check", stdin="await ledger_write(line=1)")
    assert wrong.returncode == 1
    assert "script.py:1:20" in wrong.stderr
    stubs = toolbus(tmp_path, "run", "report.py", "--stubs")
    assert "async def ledger_write(*, line: str)" in stubs.stdout
    assert written(tmp_path) == ["may: 3"]


def test_a_suspended_script_is_resumed_by_another_command_once(tmp_path: Path) -> None:
    prepare(tmp_path, policy=[{"tools": "ledger/write", "do": "ask"}])
    waits = toolbus(tmp_path, "run", "report.py", "june", "--json")
    assert waits.returncode == 0, waits.stderr
    (tmp_path / "call.json").write_text(
        json.dumps({k: json.loads(waits.stdout)[k] for k in ("toolbus", "pending")})
    )
    assert written(tmp_path) == []
    resumed = toolbus(tmp_path, "resume", "call.json", "answer=once")
    assert (resumed.stdout, resumed.returncode) == ("done\n", 0), resumed.stderr
    again = toolbus(tmp_path, "resume", "call.json", "answer=once")
    assert again.returncode == 1
    assert "already resumed" in again.stderr
    assert written(tmp_path) == ["june: 3"]


def test_a_tool_that_no_server_seems_to_have_is_answered_with_the_nearest(tmp_path: Path) -> None:
    prepare(tmp_path)
    wrong = toolbus(tmp_path, "run", "-", stdin='await write(line="x")')
    assert (wrong.returncode, wrong.stdout.splitlines()[0]) == (
        1,
        "the script was not run, because its types are wrong:",
    )
    assert "No tool is named write; near it: ledger_write" in wrong.stdout
    assert written(tmp_path) == []
