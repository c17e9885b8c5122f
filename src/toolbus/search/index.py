"""The index: tools that fit a query, best first.

A tool that is named comes first, always: a model that was told a name must find it. The others are ranked by
the words that they share with the query and, with an encoder, by meaning. Tools that do nearly
the same become one hit.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, cast

from toolbus.core.values.records import JSONObject, ToolSpec
from toolbus.search.hit import SearchHit
from toolbus.search.words import digest, key, parts, spelled, with_synonyms, words

if TYPE_CHECKING:
    from toolbus.search.vectors import ToolVectors


@dataclass(frozen=True, slots=True)
class IndexField:
    """The weight of the words in a field."""

    weight: float
    length: float
    """The reduction for a long field, from 0 to 1."""


FIELDS = (IndexField(6.0, 0.6), IndexField(1.0, 0.75), IndexField(0.3, 0.75), IndexField(1.0, 0.3))
"""Name, description, arguments, server."""
_MOST_TEXT = 4_000
"""The number of relevant characters in a description; later text is rarely about a tool's purpose."""
_MOST_ARGUMENTS = 50
_MOST_ARGUMENT_TEXT = 200


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """One tool in the index."""

    spec: ToolSpec
    fields: tuple[list[str], ...]
    tool: frozenset[str]
    """The words of its name on its server."""

    @property
    def text(self) -> str:
        """Server, name and description, for an encoder."""
        server = " ".join(parts(self.spec.origin.server))
        return f"{server} {self.name}: {self.spec.description[:_MOST_TEXT]}"

    @property
    def name(self) -> str:
        """The name alone, in words."""
        return " ".join(parts(self.spec.origin.tool)) or self.spec.origin.tool

    @property
    def digests(self) -> tuple[bytes, bytes]:
        """The keys for the vectors of its text and of its name."""
        return digest(self.text), digest(self.name)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names by which it may be asked for."""
        origin = self.spec.origin
        return self.spec.name, origin.tool, f"{origin.server} {origin.tool}"


def document(spec: ToolSpec) -> ToolDocument:
    fields = (
        words(f"{spec.origin.tool} {spec.title or ''}"),
        words(spec.description[:_MOST_TEXT]),
        words(_arguments(spec.input_schema)),
        words(spec.origin.server),
    )
    return ToolDocument(spec, fields, frozenset(words(spec.origin.tool)))


def _arguments(schema: JSONObject) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    texts: list[str] = []
    for name, argument in list(cast("JSONObject", properties).items())[:_MOST_ARGUMENTS]:
        about = cast("JSONObject", argument).get("description") if isinstance(argument, Mapping) else None
        texts.append(f"{name} {about[:_MOST_ARGUMENT_TEXT]}" if isinstance(about, str) else name)
    return " ".join(texts)


_SATURATION = 1.2
"""The point at which further occurrences of a word stop adding to the score."""


class Bm25:
    """BM25F: documents, each a list of words for every field, ranked by the words of a query.

    The first field is the name; a synonym counts only there.
    """

    def __init__(self, fields: Sequence[IndexField], documents: Sequence[Sequence[Sequence[str]]]) -> None:
        self._size = len(documents)
        self._counts: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """For each word the documents that have it, and how often, as the fields count."""
        self._named: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """The same for names alone."""
        self._scores: dict[tuple[str, tuple[str, ...], float], dict[int, float]] = {}
        """The scores of earlier queries: words with their synonyms."""
        averages = [
            sum(len(texts[at]) for texts in documents) / max(1, self._size) or 1.0
            for at in range(len(fields))
        ]
        for number, texts in enumerate(documents):
            counts: dict[str, float] = {}
            for at, (field, average, text) in enumerate(zip(fields, averages, texts, strict=True)):
                per_word = field.weight / (1 - field.length + field.length * len(text) / average)
                for word in text:
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
        """The weight of a word that occurs in this many documents."""
        return math.log(1 + (self._size - having + 0.5) / (having + 0.5)) * (_SATURATION + 1)


MOST_QUERY = 2_000
"""Characters of a query that count."""
MOST_QUERIES = 20
_BY_NAME = ("its name", "its name, spelt differently", "its name, in the query")
_NAMED = 10.0
"""Added to the score of a tool that is named, so that no other one comes before it."""
_SYNONYM, _SYNONYM_BESIDE = 0.8, 0.6
"""The weight of a synonym: alone, and beside an encoder, which knows synonyms itself."""
_SAME_WORDS = 0.6
"""The share of words that descriptions of near-duplicates have in common, at least."""
_SAME_MEANING = 0.92
_DEPTH = 5
"""The multiple of `limit` to rank, so that enough is left after near-duplicates are merged."""


def counted(queries: Sequence[str]) -> list[str]:
    """The queries that are used: limited in number and in length."""
    return [query[:MOST_QUERY] for query in queries[:MOST_QUERIES]]


class Index:
    """An index of tools; a changed catalog needs a new index, which reuses unchanged entries."""

    def __init__(self, specs: Iterable[ToolSpec], known: "Index | None" = None) -> None:
        before: Mapping[int, ToolDocument] = {} if known is None else known._by_spec
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
        meanings: "ToolVectors | None" = None,
        vectors: Mapping[str, Any] | None = None,
    ) -> tuple[SearchHit, ...]:
        """The matching tools, best first; of several queries, the best for each before the second best.

        `vectors` are the vectors of queries (see `counted`); a query without one is searched by words.
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
        self, query: str, limit: int, meanings: "ToolVectors | None", vector: Any
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

    def _reason(self, number: int, asked: Mapping[str, Sequence[str]], meanings: "ToolVectors | None") -> str:
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
        meanings: "ToolVectors | None",
    ) -> tuple[SearchHit, ...]:
        kept: dict[int, list[int]] = {}
        for number in order:
            same = next((first for first in kept if self._are_alike(first, number, meanings)), None)
            if same is not None:
                kept[same].append(number)
            elif len(kept) < limit:
                kept[number] = []
        return tuple(
            SearchHit(
                name=self.documents[number].spec.name,
                score=round(min(1.0, max(0.0, best[number][1])), 3),
                reason=best[number][2],
                alternatives=tuple(self.documents[other].spec.name for other in others),
                spec=self.documents[number].spec,
            )
            for number, others in kept.items()
        )

    def _are_alike(self, one: int, other: int, meanings: "ToolVectors | None") -> bool:
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
