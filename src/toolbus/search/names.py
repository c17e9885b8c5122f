"""Find tools by name: exactly, written in another way, or with one typing mistake."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from toolbus.search.words import key

_KEPT = 4
"""Letters at the start or the end of a name that one mistake leaves as they are."""
_LEAST = 5
"""Letters of a name that may be misspelt; of a shorter one, a mistake would make another word."""
_MOST_NEAR = 50


class Names:
    """The names of documents, each with several ways to write it."""

    def __init__(self, names: Iterable[Sequence[str]]) -> None:
        self._exact: defaultdict[str, dict[int, None]] = defaultdict(dict)
        self._near: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for number, spellings in enumerate(names):
            for spelling in map(key, spellings):
                if spelling:
                    self._exact[spelling][number] = None
        for spelling in self._exact:
            if len(spelling) >= _LEAST:
                for end in _ends(spelling):
                    self._near[end][spelling] = None

    def find(self, query: str) -> dict[int, int]:
        """The documents that a query names, and how: 0 exactly, 1 with a mistake, 2 within a sentence."""
        asked = key(query)
        found = dict.fromkeys(self._exact.get(asked, ()), 0)
        for spelling in self._misspelt(asked):
            for number in self._exact[spelling]:
                found.setdefault(number, 1)
        for word in query.split():
            if _is_identifier(word):
                for number in self._exact.get(key(word), ()):
                    found.setdefault(number, 2)
        return found

    def _misspelt(self, asked: str) -> list[str]:
        if len(asked) < _LEAST:
            return []
        candidates = {spelling: None for end in _ends(asked) for spelling in self._near.get(end, ())}
        return [spelling for spelling in candidates if _differ_by_one(asked, spelling)][:_MOST_NEAR]


def _ends(text: str) -> tuple[str, str]:
    return f"{text[:_KEPT]} ", f" {text[-_KEPT:]}"


def _is_identifier(word: str) -> bool:
    """Whether a word of a sentence can only be the name of something."""
    inner = word.strip("`'\"()[],.:;!?")
    return any(mark in inner for mark in "_-/.") or inner[1:] != inner[1:].lower()


def _differ_by_one(one: str, other: str) -> bool:
    """Whether one letter is missing, added or another, or two neighbours are swapped."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    left, right = one[start:], other[start:]
    end = 0
    while end < min(len(left), len(right)) and left[-1 - end] == right[-1 - end]:
        end += 1
    left, right = left[: len(left) - end], right[: len(right) - end]
    return max(len(left), len(right)) == 1 or (len(left) == len(right) == 2 and left == right[::-1])
