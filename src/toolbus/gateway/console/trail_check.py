"""The check of the audit trail that a page has asked for, and what it found."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from toolbus.audit.verify import ChainReport, verify
from toolbus.core.display import counted


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

    async def run(self, file: Path) -> None:
        """Check a trail, in a thread: it may be large."""
        if self.is_running:
            return
        self.file, self.is_running = file, True
        self._changed()
        try:
            reports = await asyncio.to_thread(verify, file)
        except OSError as error:
            self.found = f"The trail cannot be read: {error.strerror or type(error).__name__}"
            self.is_intact = None
        else:
            self.found, self.is_intact = _line(reports)
        finally:
            self.is_running = False
            self._changed()


def _line(reports: list[ChainReport]) -> tuple[str, bool | None]:
    """What was found, and whether the trail is intact."""
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
