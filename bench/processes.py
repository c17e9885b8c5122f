"""Programs that are measured from outside: how they are started and ended, and the CPU time they take."""

import os
import re
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.sides import ROOT, STOPPING

URL = r"(http://[\w.:]+/mcp)"
"""The URL that most programs print once they listen."""
STARTING = 120.0
"""Seconds in which a program has to listen, even on a busy machine."""


@contextmanager
def running(
    command: Sequence[str], printed: str = URL, env: Mapping[str, str] | None = None
) -> Generator[tuple[int, str]]:
    """A program that prints something once it is ready: its process id, and the first group of `printed`."""
    with TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder) / "log"  # not a pipe, which nobody would read later
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=ROOT
            )
        try:
            yield process.pid, _wait(process, log, re.compile(printed))
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], log: Path, printed: re.Pattern[str]) -> str:
    deadline = time.monotonic() + STARTING
    while (found := printed.search(log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise RuntimeError(f"{process.args!r:.60} did not start: {last}")
        time.sleep(0.02)
    return found[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOPPING)


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
