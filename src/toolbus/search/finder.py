"""Search in catalogs: an index for each, made when it is first searched."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from toolbus.core.catalog import Catalog
from toolbus.search.hit import Hit
from toolbus.search.index import Index

_MOST_CATALOGS = 8
"""Catalogs whose index is kept: views have parts of the whole one."""


class Finder:
    """The indexes of the catalogs of a bus; may be used from any thread."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[int, tuple[Catalog, Index]] = OrderedDict()
        self._latest: Index | None = None
        self._lock = Lock()

    def search(self, catalog: Catalog, queries: Sequence[str] | str, limit: int) -> list[Hit]:
        """The tools of a catalog that fit; of several queries, the best for each come before the second best.

        Tools of different servers that do nearly the same are one hit.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        asked = [queries] if isinstance(queries, str) else list(queries)
        with self._lock:
            return list(self._index(catalog).search(asked, limit))

    def _index(self, catalog: Catalog) -> Index:
        found = self._indexes.get(id(catalog))
        if found is None or found[0] is not catalog:
            # What is unchanged of the last one is taken over.
            self._latest = Index(catalog, self._latest)
            self._indexes[id(catalog)] = found = catalog, self._latest
        self._indexes.move_to_end(id(catalog))
        while len(self._indexes) > _MOST_CATALOGS:
            self._indexes.popitem(last=False)
        return found[1]
