"""One line that changes while something takes time: what is under way, and how far it has come."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text


class _Amount(ProgressColumn):
    """A bar, once there is a total to measure by; until then what there is to say."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=30)

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text(f"{task.completed:g}" if task.completed else "")
        return self._bar.render(task)


class Moving:
    """The line, while it is there."""

    def __init__(self, progress: Progress, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(text, total=None)
        self._is_over = False

    def say(self, text: str) -> None:
        """What is under way now."""
        self._progress.update(self._task, description=text)

    def came(self, done: float, total: float | None) -> None:
        """How far it has come; some servers never tell a total."""
        self._progress.update(self._task, completed=done, total=total)

    def hide(self) -> None:
        """Leave the place to others, until `show`."""
        self._progress.stop()

    def show(self) -> None:
        """Be there again, unless what was under way has ended meanwhile."""
        if not self._is_over:
            self._progress.start()

    def end(self) -> None:
        """Never be shown again."""
        self._is_over = True


@contextmanager
def moving(console: Console, text: str) -> Generator[Moving]:
    """A spinner and that text; on a terminal only, and gone afterwards."""
    progress = Progress(
        SpinnerColumn("line" if console.legacy_windows else "dots"),
        TextColumn("{task.description}", markup=False),
        _Amount(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        line = Moving(progress, text)
        try:
            yield line
        finally:
            line.end()
