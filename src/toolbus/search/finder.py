"""Search in catalogs: an index for each, made when it is first searched."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolbus.core.values.catalog import Catalog
from toolbus.search.encoding import Encoding
from toolbus.search.hit import SearchHit, SearchState
from toolbus.search.index import Index, counted
from toolbus.search.words import words

if TYPE_CHECKING:
    from toolbus.search.vectors import ToolVectors

_MOST_CATALOGS = 8
"""Catalogs whose index is kept: views have parts of the whole one."""
_PATIENCE, _PATIENCE_IN_LOOP = 2.0, 0.25
"""Seconds that a search waits for a vector from elsewhere; in an event loop, other tasks also wait."""
_BY_WORDS = SearchState(reason="no encoder is configured")


@dataclass(slots=True)
class _SearchedIndex:
    catalog: Catalog
    index: Index
    encoding: Encoding | None
    """The encoding that makes its vectors."""
    meaning: "tuple[int, ToolVectors] | None" = None
    """The vectors, and how many of them there are."""


class Finder:
    """The indexes of the catalogs of a bus; may be used from any thread."""

    def __init__(self, encoding: Callable[[], Encoding | None] = lambda: None) -> None:
        """`encoding` is the current one; without, tools are searched by words."""
        self._encoding = encoding
        self._searched: OrderedDict[int, _SearchedIndex] = OrderedDict()
        self._latest: Index | None = None
        self._lock = Lock()

    def search(self, catalog: Catalog, queries: Sequence[str] | str, limit: int) -> list[SearchHit]:
        """The tools of a catalog that fit; of several queries, the best for each come before the second best.

        Tools of different servers that do nearly the same are one hit.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        asked = counted([queries] if isinstance(queries, str) else list(queries))
        searched = self.prepare(catalog)
        vectors = self._vectors(searched, asked)
        with self._lock:
            meaning = searched.meaning[1] if searched.meaning and vectors else None
            return list(searched.index.search(asked, limit, meaning, vectors))

    def prepare(self, catalog: Catalog) -> _SearchedIndex:
        """The index of a catalog; its vectors are made from now on."""
        with self._lock:
            found = self._searched.get(id(catalog))
            encoding = self._encoding()
            if found is None or found.catalog is not catalog:
                # What is unchanged of the last one is taken over.
                self._latest = Index(catalog, self._latest)
                self._searched[id(catalog)] = found = _SearchedIndex(catalog, self._latest, None)
            if encoding is not found.encoding:
                found.encoding, found.meaning = encoding, None
                if encoding is not None:
                    encoding.attach(found.index.documents)
            self._searched.move_to_end(id(catalog))
            while len(self._searched) > _MOST_CATALOGS:
                self._searched.popitem(last=False)
            return found

    @property
    def state(self) -> SearchState:
        """By which encoder tools are searched, and how far it is."""
        encoding = self._encoding()
        return _BY_WORDS if encoding is None else encoding.state

    def wait(self, catalog: Catalog, timeout: float | None) -> SearchState:
        """Wait until a catalog can be searched by meaning, or it is known that it cannot."""
        encoding = self.prepare(catalog).encoding
        return _BY_WORDS if encoding is None else encoding.wait(timeout)

    def _vectors(self, searched: _SearchedIndex, asked: Sequence[str]) -> dict[str, Any]:
        """The vectors of the queries, if the tools have theirs."""
        encoding = searched.encoding
        if encoding is None or not len(searched.index):
            return {}
        with self._lock:
            searched.meaning = encoding.meaning(searched.index.documents, searched.meaning)
            if searched.meaning is None:
                return {}
        patience = _PATIENCE_IN_LOOP if _in_loop() else _PATIENCE
        # The meaning of nothing is nothing.
        found = {query: encoding.query(query, patience) for query in asked if words(query)}
        return {query: vector for query, vector in found.items() if vector is not None}


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
