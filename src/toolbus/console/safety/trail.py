"""The check of an audit trail, with its verdict, its time and its extent."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from toolbus.audit.lines import chains
from toolbus.audit.verify import ChainReport, verify
from toolbus.core.text.display import counted


class TrailCheck:
    """The last check of a trail; one at a time."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.file: Path | None = None
        """The trail that is or was checked."""
        self.is_running = False
        self.found = ""
        """One line; empty before the first check."""
        self.is_intact: bool | None = None
        """None if there was nothing to check."""
        self.at = 0.0
        """The time of the check."""
        self.reports: list[ChainReport] = []
        """The reports on the chains, with the lines that were checked."""
        self._size = 0

    async def run(self, file: Path) -> None:
        """Check a trail, in a thread: it may be large."""
        if self.is_running:
            return
        self.file, self.is_running, self.at, self._size = file, True, time.time(), _size(file)
        self._changed()
        try:
            reports = await asyncio.to_thread(verify, file)
        except OSError as error:
            self.found = f"The audit log cannot be read: {error.strerror or type(error).__name__}"
            self.is_intact, self.reports = None, []
        else:
            self.found, self.is_intact = _line(reports)
            self.reports = reports
        finally:
            self.is_running = False
            self._changed()

    def is_current(self) -> bool:
        """Whether nothing was written since."""
        return self.file is not None and _size(self.file) == self._size


def _size(file: Path) -> int:
    """The bytes of a trail, with its full files."""
    found = {path for files in chains(file).values() for path in files}
    return sum(path.stat().st_size for path in found if path.exists())


def _line(reports: list[ChainReport]) -> tuple[str, bool | None]:
    """The verdict in one line, and whether the trail is intact."""
    problems = [problem for report in reports for problem in report.problems]
    lines = sum(report.lines for report in reports)
    if not lines and not problems:
        return "Nothing is recorded yet.", None
    size = f"{counted(lines, 'line')} in {counted(sum(len(one.files) for one in reports), 'file')}"
    if problems:
        first = problems[0]
        where = f"the first at {first.file.name}:{first.line}: {first.problem}"
        return f"{counted(len(problems), 'problem')} in {size}; {where}", False
    heads = ", ".join(f"{one.end.seq} {one.end.hash}" for one in reports if one.lines)
    return f"{size}, head {heads}", True
