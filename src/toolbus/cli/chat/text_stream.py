"""Stream a model's text to stdout, without control sequences."""

import re

from toolbus.core.text.text import cleaned

# What the next piece may continue: an escape sequence, a line ending, a joined emoji.
_UNFINISHED = re.compile(
    "[\x1b\x90\x98\x9b\x9d-\x9f][^\n]{0,80}\\Z|[\r\u200c\u200d\ufe0e\ufe0f\u2190-\u2bff\U0001f000-\U0001faff]+\\Z"
)


class TextStream:
    """Writes text piece by piece."""

    def __init__(self) -> None:
        self._held = ""
        self._in_line = False

    def write(self, piece: str) -> None:
        """Write a piece; an incomplete sequence at its end is held back for the next one."""
        text = self._held + piece
        cut = _UNFINISHED.search(text)
        self._held = "" if cut is None else text[cut.start() :]
        self._write(text if cut is None else text[: cut.start()])

    def end_line(self) -> None:
        """Write what was held back, and move to the start of a line, for other output."""
        held, self._held = self._held, ""
        self._write(held)
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if plain := cleaned(text):
            print(plain, end="", flush=True)
            self._in_line = not plain.endswith("\n")
