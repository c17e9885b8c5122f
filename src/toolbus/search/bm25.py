"""Rank documents of several fields by the words of a query, and by synonyms of names (BM25F)."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SATURATION = 1.2
"""How soon further occurrences of a word stop to count."""


@dataclass(frozen=True, slots=True)
class IndexField:
    """How much the words of a field count."""

    weight: float
    length: float
    """How much a long field counts less, from 0 to 1."""


class Bm25:
    """An index of documents, each a list of words for every field; the first one is the name."""

    def __init__(self, fields: Sequence[IndexField], documents: Sequence[Sequence[Sequence[str]]]) -> None:
        self._size = len(documents)
        self._counts: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """For each word the documents that have it, and how often, as the fields count."""
        self._named: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """The same for names alone."""
        self._scores: dict[tuple[str, tuple[str, ...], float], dict[int, float]] = {}
        """The scores for what was asked for: words with their synonyms."""
        averages = [
            sum(len(document[at]) for document in documents) / max(1, self._size) or 1.0
            for at in range(len(fields))
        ]
        for number, document in enumerate(documents):
            counts: dict[str, float] = {}
            for at, (field, average, words) in enumerate(zip(fields, averages, document, strict=True)):
                per_word = field.weight / (1 - field.length + field.length * len(words) / average)
                for word in words:
                    counts[word] = counts.get(word, 0.0) + per_word
                if at == 0:
                    for word, count in counts.items():
                        self._named[word][number] = count
            for word, count in counts.items():
                self._counts[word][number] = count

    def scores(self, query: Mapping[str, tuple[str, ...]], synonym: float) -> Mapping[int, float]:
        """The score of every document that has a word of the query, or a synonym of one in its name.

        `synonym` is how much a synonym counts, below 1.
        """
        scores: dict[int, float] = {}
        for word, synonyms in query.items():
            for number, score in self._scores_of(word, synonyms, synonym).items():
                scores[number] = scores.get(number, 0.0) + score
        return scores

    def _scores_of(self, word: str, synonyms: tuple[str, ...], synonym: float) -> dict[int, float]:
        if (known := self._scores.get((word, synonyms, synonym))) is not None:
            return known
        own = self._counts.get(word, {})
        named = [self._named[other] for other in synonyms if other in self._named]
        if not own and not named:
            return {}
        shared = self._rarity(len(set(own).union(*named)))
        # Half of it counts what the word may mean, or a rare word for a common thing would win.
        rarity = (self._rarity(len(own)) + shared) / 2
        found = {number: rarity * count / (count + _SATURATION) for number, count in own.items()}
        for counts in named:
            for number, count in counts.items():
                score = synonym * shared * count / (count + _SATURATION)
                if score > found.get(number, 0.0):
                    found[number] = score
        self._scores[word, synonyms, synonym] = found
        return found

    def _rarity(self, having: int) -> float:
        """What a word weighs that so many documents have."""
        return math.log(1 + (self._size - having + 0.5) / (having + 0.5)) * (_SATURATION + 1)
