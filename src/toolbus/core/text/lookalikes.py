"""The look of names, so that none can pass for another: the skeletons of UTS #39, ignoring case.

The table is Unicode's own (`confusables.txt` beside this file names its version); it is read when the first
name needs it.
"""

import unicodedata
from functools import cache
from pathlib import Path

from toolbus.core.text.text import cleaned, exact

_SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL "
_MORE = {"\u0138": "k", "\ua793": "e", "\u025b": "e", "\u028d": "m", "\u03c7": "x"}
"""Prototypes that look like a Latin letter of another size; so do the small capitals."""
_ALIKE = str.maketrans("01|5$", "ollss")
"""ASCII characters that are taken for each other."""

_ROUNDS = 6
"""A small letter may look like another one, and that one like a third."""


@cache
def _prototypes() -> dict[int, str]:
    """The look of each character."""
    found: dict[int, str] = {}
    text = Path(__file__).with_name("confusables.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            codes, _, characters = line.partition(": ")
            prototype = "".join(chr(int(code, 16)) for code in codes.split("+")) if codes != "-" else ""
            found |= dict.fromkeys((int(code, 16) for code in characters.split()), prototype)
    return found


def skeleton(text: str) -> str:
    """The skeleton of UTS #39: the same for texts that look the same."""
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFD", apart.translate(_prototypes()))


class _Looks(dict[int, str]):
    """The look of each character as a small letter; found when it first occurs."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        forms = (character, character.lower(), unicodedata.normalize("NFKC", character))
        shown = ["".join(map(_as_latin, skeleton(form))).casefold() for form in forms]
        # One letter for one, so that the `?` of a pattern still matches it; `looks` takes rn for m.
        self[code] = next((text for text in shown if text.isascii()), shown[0]).replace("rn", "m")
        return self[code]


_LOOKS = _Looks()


def _as_latin(prototype: str) -> str:
    if prototype.isascii():
        return prototype
    name = unicodedata.name(prototype, "")
    if name.startswith(_SMALL_CAPITAL) and len(name) == len(_SMALL_CAPITAL) + 1:
        return name[-1]
    return _MORE.get(prototype, prototype)


def look(text: str) -> str:
    """The text as a person sees it, in lowercase, without hidden characters and the space around it."""
    for _ in range(_ROUNDS):
        if text.isascii():
            break
        before, plain = text, cleaned(unicodedata.normalize("NFD", text))
        text = "".join(each.lower() if each.isascii() else _LOOKS[ord(each)] for each in plain)
        if text == before:
            break
    return cleaned(text.lower()).strip()


def spelled_out(text: str) -> str:
    """The text on one line; hidden characters, and those that look like an ASCII one, are escaped."""
    return "".join(
        letter if letter.isascii() or not look(letter).isascii() else letter.encode("unicode_escape").decode()
        for letter in exact(text)
    )


def looks(text: str) -> tuple[str, str, str]:
    """Three forms of a text: as seen, with similar characters unified, and with `i` as `l`.

    The second treats similar ASCII characters as one, including `1` and `l`. The third is for texts with
    capitals, because an `I` looks like an `l`.
    """
    seen = look(text)
    alike = seen.translate(_ALIKE).replace("rn", "m").replace("vv", "w")
    return seen, alike, alike.replace("i", "l")
