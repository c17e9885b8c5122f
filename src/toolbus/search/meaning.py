"""How close tools are to a query by meaning: the products of their vectors."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy

from toolbus.search.encoders import Encoder
from toolbus.search.encoders.unit import as_unit

_MOST_QUERIES = 256


class Meaning:
    """The vectors of the tools of one index."""

    def __init__(self, encoder: Encoder, wholes: Sequence[Any], names: Sequence[Any]) -> None:
        self._encoder = encoder
        self._wholes = as_unit(numpy.stack([numpy.asarray(one, numpy.float32) for one in wholes]))
        self._names = as_unit(numpy.stack([numpy.asarray(one, numpy.float32) for one in names]))
        self._queries: OrderedDict[str, Any] = OrderedDict()

    def of(self, query: str) -> tuple[Sequence[float], Sequence[float]]:
        """The likeness of each tool as a whole, and of its name alone, from -1 to 1."""
        vector = self._queries.get(query)
        if vector is None:
            vector = self._queries[query] = as_unit(self._encoder.encode([query]))[0]
            if len(self._queries) > _MOST_QUERIES:
                self._queries.popitem(last=False)
        return (self._wholes @ vector).tolist(), (self._names @ vector).tolist()

    def between(self, one: int, other: int) -> float:
        """The likeness of two tools."""
        return float(self._wholes[one] @ self._wholes[other])
