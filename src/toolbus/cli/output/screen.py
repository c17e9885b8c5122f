"""Print a command's output: results to stdout, everything else to stderr.

A terminal gets colors, spinners and wrapped lines; anything else gets plain, full lines. Control
characters from servers are escaped, never sent to the terminal.
"""

import json
import logging
import math
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from toolbus.cli.options import SharedOptions, suggested
from toolbus.cli.output.json_log import LOG, JsonFormatter, log_json
from toolbus.cli.terminal import TERMINAL, working_folder
from toolbus.core.text.text import UNSEEN, exact, rewritten_json, visible
from toolbus.schema.values import JSON

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from toolbus.cli.output.spinner import Spinner

_MOST_BITS = 14_000
"""A number with more bits has more digits than Python writes."""
Cell: TypeAlias = "str | tuple[str, str] | Text"
"""A text, or one with its style."""
GAP = "  "
MIN_LAST_COLUMN = 24
"""If the last column is narrower, it moves below the others."""


def wrapped(text: str, stream: TextIO) -> str:
    """The text wrapped to the terminal's width; unchanged if the stream is not a terminal."""
    if not stream.isatty():
        return text
    width = os.get_terminal_size(stream.fileno()).columns
    lines = wrap(text, width or 80, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def short_path(file: str | Path) -> str:
    """The path relative to the current folder, if inside it."""
    path = os.path.relpath(file, working_folder())
    return str(file) if path.startswith(os.pardir) else path


def escaped_json(value: JSON, indent: int | None = None) -> str:
    """JSON in which what a terminal would obey, or hide, is written out.

    Numbers that JSON cannot express, or Python cannot write, become null.
    """
    # What stdout cannot encode would be escaped as Python does it, which is not JSON.
    is_utf = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    options: Any = {"indent": indent, "ensure_ascii": not is_utf, "allow_nan": False, "default": str}
    try:
        text = json.dumps(value, **options)
    except ValueError:
        text = json.dumps(rewritten_json(value, lambda v: v if _is_writable(v) else None), **options)
    return UNSEEN.sub(lambda found: json.dumps(found.group())[1:-1], text)


def _is_writable(scalar: JSON) -> bool:
    if isinstance(scalar, float):
        return math.isfinite(scalar)
    return not isinstance(scalar, int) or scalar.bit_length() < _MOST_BITS


def one_line(text: str) -> str:
    """The first non-empty line."""
    return next((line.strip() for line in visible(text).splitlines() if line.strip()), "").replace("\t", " ")


def about(text: str) -> str:
    """All of the text on one line."""
    return one_line(" ".join(text.split()))


def picked(record: object, names: str) -> dict[str, JSON]:
    """The attributes of these names, for `--json`."""
    return {name: getattr(record, name) for name in names.split()}


def styled(*parts: Cell) -> "Text":
    """The parts as one text."""
    from rich.text import Text

    return Text.assemble(*parts)


def quoted(name: str) -> str:
    """A server's name for something, quoted for a message."""
    return f"'{exact(name)}'"


class Screen:
    """Stdout and stderr of one command."""

    def __init__(self, settings: SharedOptions) -> None:
        from toolbus.cli.output.console import SafeConsole

        options: Any = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": True}
        options["no_color"] = True if settings.no_color else None
        self.out = SafeConsole("stdout", **options)
        self.err = SafeConsole("stderr", **options)
        self.as_json = settings.json
        self._spinner: Spinner | None = None
        if settings.verbose:
            enable_logging(logging.DEBUG if settings.verbose > 1 else logging.INFO)

    @property
    def width(self) -> int | None:
        """The terminal's width; None without a terminal."""
        return self.out.width if self.out.is_terminal else None

    def print(self, *parts: "RenderableType") -> None:
        """Print to stdout, unless `--json` is set."""
        if not self.as_json:
            self.out.print(*parts)

    def line(self, *parts: Cell) -> None:
        """Print parts of a line to stdout, unless `--json` is set."""
        if not self.as_json:
            self.out.print(styled(*parts))

    def summary(self, *parts: Cell) -> None:
        """Print a sentence to stdout, wrapped on a terminal, unless `--json` is set."""
        if not self.as_json:
            self.out.print(styled(*parts), soft_wrap=not self.out.is_terminal)

    def note(self, text: str) -> None:
        """Print a sentence to stderr, wrapped on a terminal; as a line of the log if that is JSON."""
        if LOG.is_json:
            return log_json(suggested(text))
        return self.err.print(visible(suggested(text)), soft_wrap=not self.err.is_terminal)

    def json(self, value: JSON) -> None:
        """Print the JSON document of `--json`."""
        print(escaped_json(value, indent=2), flush=True)

    def json_line(self, value: JSON) -> None:
        """Print one of several documents of `--json`, on a line of its own."""
        print(escaped_json(value), flush=True)

    def show(self, document: JSON | Callable[[], JSON], lines: Callable[[], object] | str) -> None:
        """Print the result of a command: the document of `--json`, or else the lines for a person."""
        if self.as_json:
            self.json(document() if callable(document) else document)
        elif isinstance(lines, str):
            self.line(visible(lines))
        else:
            lines()

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[Cell]], max_lines: int | None = None
    ) -> None:
        """Print rows below a header."""
        self.rows([[(name, "dim") for name in header], *rows], indent=0, max_lines=max_lines)

    def rows(self, cells: Iterable[Sequence[Cell]], indent: int = 2, *, max_lines: int | None = 3) -> None:
        """Print rows in columns; on a terminal, the last column wraps to `max_lines`.

        If the last column would be too narrow, it moves below the others.
        """
        from rich.text import Text

        rows = [[_text(cell) for cell in row] for row in cells]
        widths = [max((cell.cell_len for cell in column), default=0) for column in zip(*rows, strict=True)]
        begin = indent + sum(width + len(GAP) for width in widths[:-1])
        if self.width is not None and self.width - begin < MIN_LAST_COLUMN:
            for row in rows:
                self._print_stacked(row, indent, max_lines)
            return
        if self.width is None:  # one text, without styles: most of the time was for those
            self._print_plain(rows, widths, indent)
            return
        for row in rows:
            line = Text(" " * indent)
            for cell, width in zip(row[:-1], widths[:-1], strict=True):
                line += cell + Text(" " * (width - cell.cell_len) + GAP)
            first, *more = self._wrap_cell(row[-1], begin, max_lines)
            line += first
            line.rstrip()
            for each in (line, *(Text(" " * begin) + part for part in more)):
                self.print(each)

    def _print_plain(self, rows: Sequence[Sequence["Text"]], widths: Sequence[int], indent: int) -> None:
        """Print rows in columns where nothing wraps and nothing is styled."""
        from rich.text import Text

        lines: list[str] = []
        for row in rows:
            gaps = [" " * (width - cell.cell_len) + GAP for cell, width in zip(row, widths, strict=True)]
            cells = zip((cell.plain for cell in row), [*gaps[:-1], ""], strict=True)
            lines.append((" " * indent + "".join(map("".join, cells))).rstrip())
        if lines:
            self.print(Text("\n".join(lines)))

    def _print_stacked(self, row: Sequence["Text"], indent: int, max_lines: int | None) -> None:
        """Print all but the last cell on one line if they fit, and the last one below."""
        from rich.text import Text

        cells = [cell for cell in row[:-1] if cell.plain]
        head = Text(GAP).join(cells)
        fits = self.width is None or indent + head.cell_len <= self.width
        parts = [(cell, indent) for cell in ([head] if fits else cells)]
        for cell, begin in (*parts, (row[-1], indent + 2)):
            for line in self._wrap_cell(cell, begin, max_lines) if cell.plain else ():
                self.print(Text(" " * begin) + line)

    def _wrap_cell(self, cell: "Text", begin: int, max_lines: int | None) -> Sequence["Text"]:
        """Wrap a cell that starts at this column."""
        from rich.text import Text

        if self.width is None:
            return [cell]
        room = max(1, self.width - begin)
        lines = list(cell.wrap(self.out, room)) or [Text()]
        for line in lines:
            line.rstrip()
        if max_lines is None or len(lines) <= max_lines:
            return lines
        last = lines[max_lines - 1]
        last.append("\u2026")
        last.truncate(room, overflow="ellipsis")
        return lines[:max_lines]

    @contextmanager
    def spinner(self, text: str) -> "Generator[Spinner]":
        """Show a spinner on stderr until the block ends, unless the log is JSON."""
        from toolbus.cli.output.spinner import spinner

        before = self._spinner
        with spinner(self.err, one_line(text), is_shown=not LOG.is_json) as self._spinner:
            try:
                yield self._spinner
            finally:
                self._spinner = before

    @contextmanager
    def without_spinner(self) -> Generator[None]:
        """Hide the spinner while the user is asked."""
        line = self._spinner
        if line is not None:
            line.hide()
        try:
            yield
        finally:
            if line is not None:
                line.show()


def _text(cell: Cell) -> "Text":
    from rich.text import Text

    match cell:
        case str():
            return Text(cell)
        case (text, style):
            return Text(text, style=style)
        case _:
            return cell


def enable_logging(level: int) -> None:
    """Log to stderr; at DEBUG, also the SDK and HTTP client."""
    names = ("toolbus",) if level > logging.DEBUG else ("toolbus", "mcp", "client", "httpx2")
    text = _EscapingFormatter("%(asctime)s %(name)s %(levelname)s %(message)s", "%H:%M:%S")
    formatter = JsonFormatter() if LOG.is_json else text
    TERMINAL.get().show_log(level, names, formatter)


def enable_part_log(part: str, dates: str, who: str = "clients") -> None:
    """Log warnings of one part, such as refused clients, to stderr, in the form of `ServeLog`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(lambda record: part in Path(record.pathname).parts)
    text = _EscapingFormatter(f"%(asctime)s  {who:12}  %(message)s", dates)
    handler.setFormatter(JsonFormatter() if LOG.is_json else text)
    logger = logging.getLogger("toolbus")
    logger.setLevel(logging.WARNING)
    logger.addHandler(handler)


class _EscapingFormatter(logging.Formatter):
    """Writes out what a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
