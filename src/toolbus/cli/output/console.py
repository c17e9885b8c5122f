"""A console that never sends a control character of a server to the terminal."""

from collections.abc import Iterable
from typing import Any, Literal

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment

from toolbus.cli.terminal import TERMINAL, terminal_size
from toolbus.core.text.text import visible


class SafeConsole(Console):
    """Writes out control characters that a terminal would obey or hide; rich's own control codes pass."""

    def __init__(self, stream: Literal["stdout", "stderr"], **options: Any) -> None:
        """Write to a stream of the command."""
        self._terminal = terminal = TERMINAL.get()
        # Of rich's threads none would know whose stream it is.
        options |= {"file": terminal.stream(stream), "_environ": terminal.environ}
        super().__init__(stderr=stream == "stderr", **options)

    @property
    def size(self) -> ConsoleDimensions:
        """The size of the terminal."""
        if self.is_dumb_terminal:
            return super().size
        columns, lines = terminal_size(self._terminal)
        variables = self._terminal.environ
        given = (variables.get("COLUMNS", ""), variables.get("LINES", ""))
        width, height = (int(one) if one.isdigit() else 0 for one in given)
        return ConsoleDimensions((width or columns) - self.legacy_windows, height or lines)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)
