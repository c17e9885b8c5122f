"""`tests/programs.sh` installs missing programs, once, where it can, and never fails."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE

SCRIPT = Path(__file__).with_name("programs.sh")
NEEDED = ("cat", "dirname", "mkdir", "sh", "timeout")
PROGRAMS = ("zsh", "fish", "bwrap", "haproxy")


class Machine:
    """A clone on a machine that has these programs, and an apt-get that writes down what it is asked."""

    def __init__(self, folder: Path, *programs: str, user: int = 0, installs: bool = True) -> None:
        self._bin, self._calls = folder / "bin", folder / "calls"
        self._script = folder / "clone" / "tests" / SCRIPT.name
        self._script.parent.mkdir(parents=True)
        shutil.copy(SCRIPT, self._script)
        self._bin.mkdir()
        for name in NEEDED:
            (self._bin / name).symlink_to(str(shutil.which(name)))
        for name in programs:
            self._program(name, "")
        self._program("id", f"echo {user}")
        self._program("uname", "echo x86_64")
        link = (
            f'[ "$1" = update ] || {shutil.which("ln")} -s sh "{self._bin}/$package"'
            if installs
            else "exit 1"
        )
        last = 'for package; do :; done\n[ "$package" != bubblewrap ] || package=bwrap'
        self._program("apt-get", f'echo "$*" >>"{self._calls}"\n{last}\n{link}')

    def _program(self, name: str, does: str) -> None:
        (self._bin / name).write_text(f"#!/bin/sh\n{does}\n")
        (self._bin / name).chmod(0o755)

    def run(self) -> list[str]:
        """The requests to apt-get: the first and the last word of each command."""
        self._calls.write_text("")
        done = subprocess.run(
            [self._script], env={"PATH": str(self._bin)}, capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stderr) == (0, "")
        called = [line.split() for line in self._calls.read_text().splitlines()]
        assert bool(called) == done.stdout.startswith("installing programs for the tests, once: ")
        return [f"{words[0]} {words[-1]}" if words[1:] else words[0] for words in called]


def test_only_what_is_missing_is_installed_and_only_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "zsh", "haproxy")
    assert machine.run() == ["update", "install fish", "install bubblewrap"]
    assert machine.run() == []


def test_nothing_is_installed_if_nothing_is_missing(tmp_path: Path) -> None:
    assert Machine(tmp_path, *PROGRAMS).run() == []


def test_only_root_installs(tmp_path: Path) -> None:
    assert Machine(tmp_path, user=1000).run() == []


def test_what_cannot_be_installed_is_tried_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "zsh", "fish", installs=False)
    assert machine.run() == ["update", "install bubblewrap", "install haproxy"]
    assert machine.run() == []


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed: apt-get install make")
@pytest.mark.parametrize("target", ["test", "test-all"])
def test_make_installs_them_before_the_tests(target: str) -> None:
    # Without what the make that runs these tests was given.
    env = {name: value for name, value in os.environ.items() if name != "ARGS" and "MAKE" not in name}
    planned = subprocess.run(
        ["make", "--dry-run", target],
        cwd=SCRIPT.parents[1],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = planned.stdout.splitlines()
    assert lines.index("tests/programs.sh") < next(i for i, line in enumerate(lines) if "pytest" in line)
