"""`make demo` in a clean clone: a line for each step, what installers print only if they fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import toolbus
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
# Stands for the Python of the machine, and for the one of the environment that it makes.
PYTHON = """\
#!/bin/sh
echo noise of $2
case "$2" in
venv) mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
uv) exit ${UV_FAILS:-0};;
esac
"""


def make(folder: Path, *targets: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run make in a clone whose Python installs nothing."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed: apt-get install make")
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    (folder / "pyproject.toml").touch()
    shutil.copy(ROOT / "Makefile", folder)
    return subprocess.run(
        ["make", f"PYTHON={folder}/python", *targets],
        cwd=folder,
        # Not those of a make that runs this test: it would print where it works.
        env={name: value for name, value in os.environ.items() if "MAKE" not in name} | env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_each_step_of_setting_up_is_a_line(tmp_path: Path) -> None:
    done = make(tmp_path, ".venv/.ready")
    steps = [line.partition(": ")[2][:3] for line in done.stdout.splitlines()[1:]]
    assert (done.returncode, steps, done.stderr) == (0, ["1/3", "2/3", "3/3"], "")


def test_what_an_installer_prints_is_shown_if_it_fails(tmp_path: Path) -> None:
    failed = make(tmp_path, ".venv/.ready", UV_FAILS="1")
    assert failed.returncode == 2
    assert failed.stderr.startswith("noise of uv\n")
    assert not (tmp_path / ".venv" / ".ready").exists()


def test_the_commands_that_the_demo_ends_with_work(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "toolbus").symlink_to(shutil.which("true") or "/bin/true")
    (tmp_path / ".venv" / ".ready").touch()
    done = make(tmp_path, "demo", "--old-file=.venv/.ready")
    first, *commands = done.stdout.partition("Try next, right here:\n")[2].splitlines()
    assert first == "  source .venv/bin/activate; cd examples"
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    runs = [toolbus(*line.replace('"', "").split(maxsplit=5)[1:], folder=folder) for line in commands]
    assert [run.returncode for run in runs] == [0, 0, 1]
    assert runs[1].stdout == "kept as note 1\n"
    assert "install it, or give its full path" in runs[2].stdout
