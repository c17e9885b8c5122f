"""Rank documents of several fields by the words of a query (BM25F)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_SATURATION = 1.2
"""How soon further occurrences of a word stop to count."""


@dataclass(frozen=True, slots=True)
class Field:
    """How much the words of a field count."""

    weight: float
    length: float
    """How much a long field counts less, from 0 to 1."""


class Bm25:
    """An index of documents, each a list of words for every field."""

    def __init__(self, fields: Sequence[Field], documents: Sequence[Sequence[Sequence[str]]]) -> None:
        self._size = len(documents)
        self._counts: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        """For each word the documents that have it, and how often, as the fields count."""
        self._scores: dict[str, list[tuple[int, float]]] = {}
        """The same as scores, for the words that were asked for."""
        averages = [
            sum(len(document[at]) for document in documents) / max(1, self._size) or 1.0
            for at in range(len(fields))
        ]
        for number, document in enumerate(documents):
            counts: dict[str, float] = {}
            for field, average, words in zip(fields, averages, document, strict=True):
                per_word = field.weight / (1 - field.length + field.length * len(words) / average)
                for word in words:
                    counts[word] = counts.get(word, 0.0) + per_word
            for word, count in counts.items():
                self._counts[word].append((number, count))

    def scores(self, query: Iterable[str]) -> Mapping[int, float]:
        """The score of every document that has a word of the query."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(query):
            for number, score in self._scores_of(word):
                scores[number] = scores.get(number, 0.0) + score
        return scores

    def _scores_of(self, word: str) -> list[tuple[int, float]]:
        if (known := self._scores.get(word)) is not None:
            return known
        if (counts := self._counts.get(word)) is None:
            return []
        rarity = math.log(1 + (self._size - len(counts) + 0.5) / (len(counts) + 0.5)) * (_SATURATION + 1)
        found = [(number, rarity * count / (count + _SATURATION)) for number, count in counts]
        self._scores[word] = found
        return found
