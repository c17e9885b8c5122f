"""The words of a text, as they are compared: identifiers taken apart, in lower case, without endings."""

import re
from itertools import chain

# What is most frequent is first; at one place in a text only one of the first three can begin.
_PART = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+(?=[A-Z][a-z])|[A-Z]+|\d+"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\d_a-zA-Z]+"
)
_RUN = re.compile(r"[^\W_]+")
_SPACED = {code: " " for code in range(128) if not chr(code).isalnum()}
_NO_LETTER = re.compile(r"[\W_]+")
_NO_SPACES = "\u3040"
"""From here on, scripts whose words are not separated; their texts are compared by pairs of characters."""
_MOST_KNOWN = 65_536
_LONGEST_KNOWN = 40
_COMMON_TEXT = """
a an and are as at be by can do for from has have how i if in into is it its me my of on or our please should
so such that the their them then there these this to up use used user using via was we what when where which
will with you your
"""
_COMMON = frozenset(_COMMON_TEXT.split())


def parts(text: str) -> list[str]:
    """The words as they are written: `getIssue_list2` has `get`, `Issue`, `list` and `2`."""
    return _PART.findall(text)


def words(text: str) -> list[str]:
    """The words to compare, without the most common ones."""
    # The same runs, faster than by the pattern.
    runs = text.translate(_SPACED).split() if text.isascii() else _RUN.findall(text)
    return list(chain.from_iterable(map(_COMPARED.__getitem__, runs)))


def key(text: str) -> str:
    """The letters and digits of a name: the same for `create_issue`, `createIssue` and `Create issue`."""
    return _NO_LETTER.sub("", text.casefold())


class _ComparisonCache(dict[str, tuple[str, ...]]):
    """What each run of letters is compared as; a bounded cache, because most occur in many texts."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        found = tuple(word for part in _PART.findall(run) for word in _compared(part))
        if len(run) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[run] = found
        return found


def _compared(part: str) -> tuple[str, ...]:
    word = part.casefold()
    if word in _COMMON:
        return ()
    if word[0] >= _NO_SPACES:
        return tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return (_stem(word),)


def _stem(word: str) -> str:
    """The word without the endings of English that do not change what it is about."""
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        word = word[:-3]
    elif len(word) > 4 and word.endswith("ed"):
        word = word[:-2]
    if len(word) > 4 and word.endswith("ation"):
        word = word[:-3]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_COMPARED = _ComparisonCache()
