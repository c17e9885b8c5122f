"""The letters that look alike, so that a name cannot pass for another one."""

import unicodedata

from toolbus.core.text import cleaned

_LETTERS = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0432\u043a\u043c"
    "\u043d\u0442\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131\u0261\u1d0f\u217c\u2113",
    "aeopcyxijshdqwbkm" + "htaeikvoptuxigoll",
)
"""Letters of other scripts that look like a Latin letter (Unicode's confusables, the common part)."""


def latin(text: str) -> str:
    """The text in small letters, with compatible forms and letters of other scripts as Latin letters."""
    return unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS)


def look(text: str) -> str:
    """What a person sees of a text: `latin`, without hidden characters and the space around it."""
    small = text.lower() if text.isascii() else latin(text)
    return cleaned(small).strip()
