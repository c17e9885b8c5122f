"""`toolbus check` finds a trail that cannot be written, and adds nothing to one that can."""

import json
import os
from pathlib import Path

import pytest

from tests.audit.writing import write_lines
from tests.cli.running import scripted, toolbus, write_config
from tests.inside.audit import Chain
from tests.inside.config import Audit
from toolbus.errors import AuditFailed


def configured(folder: Path, file: str) -> Path:
    return write_config(folder, {"own": scripted(folder, "own", tools=[{"name": "x"}])}, audit=file)


def test_a_trail_that_can_be_written(tmp_path: Path) -> None:
    config = configured(tmp_path, "logs/audit.jsonl")

    def run(*words: str) -> tuple[int, str]:
        done = toolbus("--config", str(config), "check", *words, folder=tmp_path)
        return done.returncode, done.stdout

    file = tmp_path / "logs" / "audit.jsonl"
    code, output = run()
    assert (code, "audit: logs/audit.jsonl, can be written" in output) == (0, True), output
    assert not file.parent.exists()
    write_lines(file, 3)
    content = file.read_bytes()
    code, output = run("--json")
    assert (code, json.loads(output)["audit"]) == (0, {"ok": True, "file": str(file)})
    assert (os.listdir(file.parent), file.read_bytes()) == (["audit.jsonl"], content)


def test_a_trail_that_is_damaged(tmp_path: Path) -> None:
    config = configured(tmp_path, "audit.jsonl")
    (tmp_path / "audit.jsonl").write_text("somebody was here\n")
    done = toolbus("--config", str(config), "check", folder=tmp_path)
    assert done.returncode == 1
    lines = [" ".join(line.split()) for line in (done.stdout + done.stderr).splitlines()]
    assert f"error {tmp_path}/audit.jsonl: it is damaged at its end" in lines
    assert lines[-1].endswith("fix the errors above")
    done = toolbus("--config", str(config), "check", "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert (found["ok"], found["audit"]["problem"]) == (False, "it is damaged at its end")
    assert "toolbus audit --verify" in found["audit"]["fix"]


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "file as folder", "damaged full file"])
def test_a_trail_that_cannot_be_written(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    match kind:
        case "link":
            file.symlink_to(tmp_path / "other.jsonl")
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "file as folder":
            (tmp_path / "x").touch()
            file = tmp_path / "x" / "y" / "audit.jsonl"
        case _:
            (tmp_path / "audit.jsonl.7").write_text("somebody was here\n")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(AuditFailed):
        Chain(Audit(file=str(file))).check()
    assert sorted(os.listdir(tmp_path)) == before


def test_a_trail_that_another_process_writes(tmp_path: Path) -> None:
    """The next one would be used."""
    writing = Chain(Audit(file=str(tmp_path / "audit.jsonl")))
    writing.append("x", "")
    Chain(Audit(file=str(tmp_path / "audit.jsonl"))).check()
    assert os.listdir(tmp_path) == ["audit.jsonl"]
    (tmp_path / "audit.2.jsonl").write_text("somebody was here\n")
    with pytest.raises(AuditFailed, match="damaged"):
        Chain(Audit(file=str(tmp_path / "audit.jsonl"))).check()
    writing.close()
