"""The index: tools that fit a query, best first.

A tool that is named comes first, always: a model that was told a name must find it. The others are ranked by
the words that they share with the query and, with an encoder, by meaning. Tools that do nearly
the same become one hit.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Protocol

from toolbus.core.values.records import ToolSpec
from toolbus.search.bm25 import Bm25
from toolbus.search.document import FIELDS, Document, document
from toolbus.search.hit import Hit
from toolbus.search.names import Names
from toolbus.search.synonyms import spelled, with_synonyms
from toolbus.search.words import words

MOST_QUERY = 2_000
"""Characters of a query that count."""
MOST_QUERIES = 20
_BY_NAME = ("its name", "its name, spelt differently", "its name, in the query")
_NAMED = 10.0
"""Added to the score of a tool that is named, so that no other one comes before it."""
_SYNONYM, _SYNONYM_BESIDE = 0.8, 0.6
"""How much a synonym counts: alone, and beside an encoder, which knows synonyms itself."""
_SAME_WORDS = 0.6
"""The share of words that descriptions of near-duplicates have in common, at least."""
_SAME_MEANING = 0.92
_DEPTH = 5
"""How many times `limit` is ranked, so that enough is left when near-duplicates are one."""


def counted(queries: Sequence[str]) -> list[str]:
    """What counts of queries: not too many, and none too long."""
    return [query[:MOST_QUERY] for query in queries[:MOST_QUERIES]]


class Meanings(Protocol):
    """How near tools are to a query by meaning; see `meaning.py`, which needs an extra."""

    def knows(self, number: int) -> bool:
        """Whether it has the vectors of a tool."""
        ...

    def ranked(self, query: Any, words: Mapping[int, float], most: int) -> dict[int, float]:
        """The best tools for the vector of a query."""
        ...

    def between(self, one: int, other: int) -> float:
        """The likeness of two tools."""
        ...


class Index:
    """An index of tools; a changed catalog needs another one, which takes over what is unchanged."""

    def __init__(self, specs: Iterable[ToolSpec], known: "Index | None" = None) -> None:
        before: Mapping[int, Document] = {} if known is None else known._by_spec
        self.documents = [before.get(id(spec)) or document(spec) for spec in specs]
        self._by_spec = {id(one.spec): one for one in self.documents}
        self._names = Names(one.spellings for one in self.documents)
        self._words = Bm25(FIELDS, [one.fields for one in self.documents])

    def __len__(self) -> int:
        return len(self.documents)

    def search(
        self,
        queries: Sequence[str],
        limit: int = 8,
        meanings: Meanings | None = None,
        vectors: Mapping[str, Any] | None = None,
    ) -> tuple[Hit, ...]:
        """The tools that fit, best first; of several queries, the best for each before the second best.

        `vectors` are those of queries (see `counted`); one without a vector goes by words.
        """
        known = vectors or {}
        rankings = [self._ranked(query, limit, meanings, known.get(query)) for query in counted(queries)]
        best: dict[int, tuple[int, float, str]] = {}
        for ranking in rankings:
            for rank, (number, score, reason) in enumerate(ranking):
                found = (-rank, score, reason)
                if number not in best or found[:2] > best[number][:2]:
                    best[number] = found
        order = sorted(best, key=lambda number: best[number][:2], reverse=True)
        return self._without_duplicates(order, best, limit, meanings)

    def _ranked(
        self, query: str, limit: int, meanings: Meanings | None, vector: Any
    ) -> list[tuple[int, float, str]]:
        """Tools with score and reason, best first."""
        asked = with_synonyms(words(query))
        if vector is None or not asked:
            meanings = None
        by_words = self._words.scores(asked, _SYNONYM if meanings is None else _SYNONYM_BESIDE)
        most = max(by_words.values(), default=1.0)
        named = self._names.find(query)
        scores = {number: score / most for number, score in by_words.items()}
        if meanings is not None:
            scores = meanings.ranked(vector, scores, _DEPTH * limit)
        for number, distance in named.items():
            scores[number] = scores.get(number, 0.0) + _NAMED - distance
        order = nsmallest(_DEPTH * limit, scores, key=lambda number: (-scores[number], number))
        reasons = {number: _BY_NAME[distance] for number, distance in named.items()}
        return [(one, scores[one], reasons.get(one) or self._reason(one, asked, meanings)) for one in order]

    def _reason(self, number: int, asked: Mapping[str, Sequence[str]], meanings: Meanings | None) -> str:
        fields = self.documents[number].fields
        own = {word for field in fields for word in field}
        shared: list[str] = []
        for word, synonyms in asked.items():
            meant = word if word in own else next((one for one in synonyms if one in fields[0]), "")
            if meant:
                shared.append(spelled(word) if meant == word else f"{spelled(meant)} for {spelled(word)}")
        by_words = f"words: {', '.join(shared)}"
        if meanings is None or not meanings.knows(number):
            return by_words
        return f"its meaning, and {by_words}" if shared else "its meaning"

    def _without_duplicates(
        self,
        order: Sequence[int],
        best: Mapping[int, tuple[int, float, str]],
        limit: int,
        meanings: Meanings | None,
    ) -> tuple[Hit, ...]:
        kept: dict[int, list[int]] = {}
        for number in order:
            same = next((first for first in kept if self._are_alike(first, number, meanings)), None)
            if same is not None:
                kept[same].append(number)
            elif len(kept) < limit:
                kept[number] = []
        return tuple(
            Hit(
                name=self.documents[number].spec.name,
                score=round(min(1.0, max(0.0, best[number][1])), 3),
                reason=best[number][2],
                alternatives=tuple(self.documents[other].spec.name for other in others),
                spec=self.documents[number].spec,
            )
            for number, others in kept.items()
        )

    def _are_alike(self, one: int, other: int, meanings: Meanings | None) -> bool:
        """Whether two tools of different servers do nearly the same."""
        first, second = self.documents[one], self.documents[other]
        if first.spec.origin.server == second.spec.origin.server:
            return False
        if meanings is not None and meanings.between(one, other) > _SAME_MEANING:
            return True
        if first.tool != second.tool:
            return False
        left, right = set(first.fields[1]), set(second.fields[1])
        return len(left & right) >= _SAME_WORDS * max(1, len(left | right))
