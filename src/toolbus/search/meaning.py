"""How near tools are to a query by meaning, together with the words that they share."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy

from toolbus.search.encoders.unit import as_unit

_WORDS, _NAME = 0.5, 0.2
"""How much words, and the meaning of the name alone, count beside the meaning of the whole."""
_LEAST = 0.1
"""How near a tool must be that shares no word with the query."""


class ToolVectors:
    """The vectors of the tools of one index; those that are not there yet are estimated from the words."""

    def __init__(self, wholes: Sequence[Any], names: Sequence[Any]) -> None:
        """For each tool the vector of the whole and of its name, or None; at least one is there."""
        self._known = numpy.array([one is not None for one in wholes])
        length = len(next(one for one in wholes if one is not None))
        empty = numpy.zeros(length, numpy.float32)
        self._wholes = as_unit(numpy.stack([empty if one is None else one for one in wholes]))
        self._names = as_unit(numpy.stack([empty if one is None else one for one in names]))

    def knows(self, number: int) -> bool:
        """Whether it has the vectors of a tool."""
        return bool(self._known[number])

    def ranked(self, query: Any, words: Mapping[int, float], most: int) -> dict[int, float]:
        """The best tools for the vector of a query, at most so many; `words` are scores from 0 to 1."""
        near: Any = self._wholes @ query
        by_words: Any = numpy.zeros(len(self._wholes), numpy.float32)
        by_words[list(words)] = list(words.values())
        near = cast("Any", numpy.where(self._known, near, by_words * near.max()))
        scores: Any = (near + _NAME * (self._names @ query) + _WORDS * by_words) / (1 + _NAME + _WORDS)
        scores[(near < _LEAST) & (by_words == 0)] = -1
        best = numpy.argsort(-scores, kind="stable")[:most]
        return {int(number): float(scores[number]) for number in best if scores[number] > -1}

    def between(self, one: int, other: int) -> float:
        """The likeness of two tools."""
        return float(self._wholes[one] @ self._wholes[other])
