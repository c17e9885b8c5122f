"""Completion in bash, which breaks words at `=`, `:` and `@`: arguments and addresses are full of them.

The words are put together again before they are looked at. Of what is offered, bash then wants only what
follows the last break.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

_BREAK = re.compile("[=:@]+")
_ESCAPED = re.compile(r"\\(.)")
_SPECIAL = re.compile(r"([\s\\'\"`$&|;<>()*?\[\]#!{},])")


def completed(run: Callable[[], int]) -> int:
    """Run the completion that the environment asks for, with the words as they were typed."""
    # One to a line, as the shell's part of it joins them; a test or another shell may join them by blanks.
    line = os.environ.get("COMP_WORDS", "")
    words = line.split("\n") if "\n" in line else line.split(" ")
    at = int(os.environ.get("COMP_CWORD", "0"))
    whole, place, done = mended(words, at)
    os.environ |= {"COMP_WORDS": "\n".join(whole), "COMP_CWORD": str(place)}
    is_quoted = at < len(words) and words[at][:1] in ("'", '"')
    code: Any = 0
    with redirect_stdout(StringIO()) as offered:
        try:
            code = run()
        except SystemExit as end:  # how it ends, well or not
            code = end.code
    for choice in filter(None, offered.getvalue().splitlines()):
        rest = choice.removeprefix(_ESCAPED.sub(r"\1", done))
        print(rest if is_quoted else _SPECIAL.sub(r"\\\1", rest))
    sys.stdout.flush()
    return code or 0


def mended(words: Sequence[str], at: int) -> tuple[list[str], int, str]:
    """The words as they were typed, which of them is meant, and how much of it bash has done with."""
    whole: list[str] = []
    place, done = at, ""
    glues = False
    for index, word in enumerate(words):
        is_break = bool(_BREAK.fullmatch(word))
        before = whole.pop() if whole and word and (is_break or glues) else ""
        if index == at:
            place = len(whole)
            done = before + word if is_break else before
        whole.append(before + word)
        glues = is_break
    return whole, place, done
