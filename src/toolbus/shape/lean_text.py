"""Trim a description without changing a word: the indentation of docstrings, blank lines, long rulers."""

import re
from inspect import cleandoc

_LINE_END = re.compile(r"[ \t\r]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_RULER = re.compile(r"^([-=*_#~])\1{3,}$", re.MULTILINE)


def lean_text(text: str) -> str:
    """The text, trimmed; lines keep their indentation relative to each other."""
    if "\n" not in text:
        return text.strip(" \t\r")
    # Tabs stay: they may be meant, as in an example of a Makefile.
    lines = _LINE_END.sub("", cleandoc(text) if "\t" not in text else text.strip("\n"))
    return _RULER.sub(r"\1\1\1", _BLANK_LINES.sub("\n\n", lines)).strip(" \r\n")
