"""The words of a model on stdout, as they come, without anything that a terminal would obey."""

import re

from toolbus.core.text import cleaned

# What the next piece may belong to: an escape sequence, a line end, an emoji that is joined to another one.
_UNFINISHED = re.compile(
    "[\x1b\x90\x98\x9b\x9d-\x9f][^\n]{0,80}\\Z|[\r\u200c\u200d\ufe0e\ufe0f\u2190-\u2bff\U0001f000-\U0001faff]+\\Z"
)


class Words:
    """Pieces of a text, written one after another."""

    def __init__(self) -> None:
        self._held = ""
        self._in_line = False

    def say(self, piece: str) -> None:
        """Write some more; what cannot be judged yet waits for the next piece."""
        text = self._held + piece
        cut = _UNFINISHED.search(text)
        self._held = "" if cut is None else text[cut.start() :]
        self._write(text if cut is None else text[: cut.start()])

    def end_line(self) -> None:
        """Write what waited, and leave the cursor at the start of a line: others write there too."""
        held, self._held = self._held, ""
        self._write(held)
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if plain := cleaned(text):
            print(plain, end="", flush=True)
            self._in_line = not plain.endswith("\n")
