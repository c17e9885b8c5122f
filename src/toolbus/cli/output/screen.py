"""Where a command prints: results to stdout, what is only for the moment to stderr.

On a terminal there is colour and movement; anywhere else plain lines, none of them cut. What a server
wrote is never obeyed: control characters are shown, not sent to the terminal.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

from toolbus.cli.options import Settings
from toolbus.core.records import JSON

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from toolbus.cli.output.progress import Moving

# Controls but line feed and tab, C1, soft hyphen, zero width, bidi, surrogates, interlinear, tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
# What counts as printable and shows nothing: fillers, selectors of variants, an empty Braille cell.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
GAP = "  "
NARROW = 24
"""A last column with less room than that goes below the others."""


def visible(text: str) -> str:
    """The text with everything that a terminal would obey, or hide, written out."""
    plain = text.replace("\r\n", "\n")
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), plain)


def wrapped(text: str, stream: TextIO) -> str:
    """The text broken at spaces to fit a terminal; one line as it is for a pipe or a file."""
    if not stream.isatty():
        return text
    width = os.get_terminal_size(stream.fileno()).columns
    lines = wrap(text, width or 80, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def near(file: str | Path) -> str:
    """The file as one would type it here."""
    path = os.path.relpath(file)
    return str(file) if path.startswith(os.pardir) else path


def escaped_json(value: JSON, indent: int | None = None) -> str:
    """JSON in which what a terminal would obey, or hide, is written out."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return _UNSEEN.sub(lambda found: json.dumps(found.group())[1:-1], text)


def one_line(text: str) -> str:
    """The first line that says anything, fit for a table."""
    return next((line.strip() for line in visible(text).splitlines() if line.strip()), "").replace("\t", " ")


def exact(text: str) -> str:
    """The text on one line, with every character written out that does not show, or not as what it is."""
    return "".join(
        letter if letter.isprintable() and letter not in _BLANK else letter.encode("unicode_escape").decode()
        for letter in text
    )


def quoted(name: str) -> str:
    """A name that a server chose, as every command shows it in a sentence."""
    return f"'{exact(name)}'"


class Screen:
    """Both streams, as one command uses them."""

    def __init__(self, settings: Settings) -> None:
        from rich.console import Console

        options: Any = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": True}
        options["no_color"] = True if settings.no_color else None
        self.out = Console(**options)
        self.err = Console(stderr=True, **options)
        self.as_json = settings.json
        self._moving: Moving | None = None
        if settings.verbose:
            _show_log(logging.DEBUG if settings.verbose > 1 else logging.INFO)

    @property
    def width(self) -> int | None:
        """How wide a line may be; without a terminal as wide as it likes."""
        return self.out.width if self.out.is_terminal else None

    def print(self, *parts: "RenderableType") -> None:
        """A line for people; with `--json` there are none."""
        if not self.as_json:
            self.out.print(*parts)

    def summary(self, text: "Text") -> None:
        """A sentence for people, wrapped on a terminal; with `--json` there is none."""
        if not self.as_json:
            self.out.print(text, soft_wrap=not self.out.is_terminal)

    def note(self, text: str) -> None:
        """A sentence for people that is not a result; wrapped on a terminal."""
        self.err.print(visible(text), soft_wrap=not self.err.is_terminal)

    def json(self, value: JSON) -> None:
        """The one document of `--json`."""
        print(escaped_json(value, indent=2), flush=True)

    def rows(self, rows: Sequence[Sequence["Text"]], indent: int = 2, *, most: int | None = 3) -> None:
        """Lines in columns; on a terminal the last column is wrapped, to that many lines at most.

        Where it would get too narrow, it stands below the others.
        """
        from rich.text import Text

        widths = [max((cell.cell_len for cell in column), default=0) for column in zip(*rows, strict=True)]
        begin = indent + sum(width + len(GAP) for width in widths[:-1])
        if self.width is not None and self.width - begin < NARROW:
            for row in rows:
                self._stack(row, indent, most)
            return
        for row in rows:
            line = Text(" " * indent)
            for cell, width in zip(row[:-1], widths[:-1], strict=True):
                line += cell + Text(" " * (width - cell.cell_len) + GAP)
            first, *more = self._wrapped(row[-1], begin, most)
            line += first
            line.rstrip()
            for each in (line, *(Text(" " * begin) + part for part in more)):
                self.print(each)

    def _stack(self, row: Sequence["Text"], indent: int, most: int | None) -> None:
        """All but the last cell in one line if they fit, the last one below."""
        from rich.text import Text

        cells = [cell for cell in row[:-1] if cell.plain]
        head = Text(GAP).join(cells)
        fits = self.width is None or indent + head.cell_len <= self.width
        parts = [(cell, indent) for cell in ([head] if fits else cells)]
        for cell, begin in (*parts, (row[-1], indent + 2)):
            for line in self._wrapped(cell, begin, most) if cell.plain else ():
                self.print(Text(" " * begin) + line)

    def _wrapped(self, cell: "Text", begin: int, most: int | None) -> Sequence["Text"]:
        """The lines of a cell that begins in that column."""
        from rich.text import Text

        if self.width is None:
            return [cell]
        room = max(1, self.width - begin)
        lines = list(cell.wrap(self.out, room)) or [Text()]
        for line in lines:
            line.rstrip()
        if most is None or len(lines) <= most:
            return lines
        last = lines[most - 1]
        last.append("\u2026")
        last.truncate(room, overflow="ellipsis")
        return lines[:most]

    @contextmanager
    def moving(self, text: str) -> "Generator[Moving]":
        """A spinner on stderr while something takes time."""
        from toolbus.cli.output.progress import moving

        before = self._moving
        with moving(self.err, one_line(text)) as self._moving:
            try:
                yield self._moving
            finally:
                self._moving = before

    @contextmanager
    def still(self) -> Generator[None]:
        """Nothing moves meanwhile: somebody is asked."""
        line = self._moving
        if line is not None:
            line.hide()
        try:
            yield
        finally:
            if line is not None:
                line.show()


def _show_log(level: int) -> None:
    """The library's log on stderr; at DEBUG also that of the SDK and the HTTP client below it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Visible("%(asctime)s %(name)s %(levelname)s %(message)s", "%H:%M:%S"))
    for name in ("toolbus",) if level > logging.DEBUG else ("toolbus", "mcp", "client", "httpx2"):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
