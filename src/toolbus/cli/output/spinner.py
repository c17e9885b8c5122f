"""A spinner line with text and progress."""

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

from toolbus.cli.terminal import TERMINAL


class _AmountColumn(ProgressColumn):
    """A progress bar if the total is known, otherwise the amount done."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=30)

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text(f"{task.completed:g}" if task.completed else "")
        return self._bar.render(task)


class Spinner:
    """The spinner line while it is shown."""

    def __init__(self, progress: Progress, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(text, total=None)
        self._is_over = False

    def set_text(self, text: str) -> None:
        """Set the text next to the spinner."""
        self._progress.update(self._task, description=text)

    def set_progress(self, done: float, total: float | None) -> None:
        """Set the progress; some servers report no total."""
        self._progress.update(self._task, completed=done, total=total)

    def hide(self) -> None:
        """Hide it until `show`."""
        self._progress.stop()

    def show(self) -> None:
        """Show it again, unless it has ended."""
        if not self._is_over:
            self._progress.start()

    def end(self) -> None:
        """Never show it again."""
        self._is_over = True


@contextmanager
def spinner(console: Console, text: str, *, is_shown: bool = True) -> Generator[Spinner]:
    """Show a spinner on a terminal until the block ends."""
    progress = Progress(
        SpinnerColumn("line" if console.legacy_windows else "dots"),
        TextColumn("{task.description}", markup=False),
        _AmountColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (is_shown and console.is_terminal),
        # In the background bus, the streams of the process are not those of the command.
        redirect_stdout=TERMINAL.get().has_process,
        redirect_stderr=TERMINAL.get().has_process,
    )
    with progress:
        line = Spinner(progress, text)
        try:
            yield line
        finally:
            line.end()
