"""Programs that write a trail in processes of their own."""

import os
import subprocess
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from tests import warm
from tests.inside.audit import Chain, ChainReport, verify
from tests.inside.config import Audit
from tests.patience import PATIENCE

ROTATE = 1_000_000_000
WRITERS = """
import os, sys
from toolbus.audit.chain import Chain
from toolbus.config.settings.audit import Audit

def write(out, path, name, count, size, rotate):
    chain = Chain(Audit(file=path, rotate=rotate))
    number = 0
    while number != count:
        chain.append("decided", f',"id":"{name}-{number}","by":"{"x" * (number * 7919 % size)}"')
        number += 1
        os.write(out, b".")

sys.stdout.write("\\n")
sys.stdout.flush()
for line in sys.stdin:
    path, out, name, *numbers = line.rstrip("\\n").split("\\t")
    child = os.fork()  # a new interpreter would take a second each
    if child == 0:
        try:
            write(os.open(out, os.O_WRONLY), path, name, *map(int, numbers))
        finally:
            os._exit(0)
    print(child, flush=True)
"""


class Writers:
    """Processes that write a trail, each with a pipe on which it reports every line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [warm.python(), "-c", WRITERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._stdout.readline()

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *raised: object) -> None:
        self._stdin.close()
        self._stdout.close()
        self._process.wait(PATIENCE)

    def start(self, name: str, count: int = -1, *, size: int = 100, rotate: int = ROTATE) -> "Writer":
        """A process that writes so many lines, by default without end."""
        reports = self.path.with_name(f"{name}.reports")
        os.mkfifo(reports)
        self._stdin.write("\t".join(map(str, (self.path, reports, name, count, size, rotate))) + "\n")
        self._stdin.flush()
        return Writer(int(self._stdout.readline()), reports.open("rb", buffering=0))


class Writer(NamedTuple):
    """A process that writes a dot for each line."""

    pid: int
    reports: FileIO

    def wait_for(self, lines: int) -> int:
        """Wait until it has written so many lines."""
        seen = 0
        while seen < lines and (dots := self.reports.read(lines - seen)):
            seen += len(dots)
        return seen

    def wait(self) -> int:
        """Wait until it has ended; how many lines it reported meanwhile."""
        with self.reports:
            return len(self.reports.readall() or b"")


def write_lines(
    path: Path, count: int, *, first: int = 0, rotate: int = ROTATE, keep: int | None = None
) -> None:
    """Write lines in this process."""
    chain = Chain(Audit(file=str(path), rotate=rotate, keep=keep))
    for number in range(first, first + count):
        chain.append("decided", f',"id":"me-{number}","by":"test"')
    chain.close()


def only_chain(path: Path) -> ChainReport:
    """The report on a trail with one chain."""
    (report,) = verify(path)
    return report


def problems(path: Path) -> list[str]:
    """All that is wrong with a trail."""
    return [
        f"{found.file.name}:{found.line}: {found.problem}"
        for report in verify(path)
        for found in report.problems
    ]
