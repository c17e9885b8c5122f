"""What a view shows a model, and the search in it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from toolbus.bus.calls import Calls
from toolbus.bus.engine.engine import Engine
from toolbus.core.values.catalog import Catalog
from toolbus.search.hit import Hit
from toolbus.search.progress import SearchState


class Searching(ABC):
    """The part of a view that finds tools."""

    _engine: Engine
    calls: Calls

    @property
    @abstractmethod
    def catalog(self) -> Catalog:
        """The tools that can be called now: an immutable snapshot."""

    @property
    def exposed(self) -> Catalog:
        """What a model is shown of the catalog, by `expose`: all of it, or a few tools and a search."""
        return self.calls.shown(self.catalog)

    def search(self, queries: Sequence[str] | str, limit: int = 8) -> list[Hit]:
        """The tools that fit, best first, and one that a query names before all others (see `Finder`)."""
        return self._engine.finder.search(self.catalog.for_models, queries, limit)

    @property
    def search_state(self) -> SearchState:
        """By which encoder tools are searched, and how many of them it has read so far."""
        return self._engine.finder.state

    async def search_ready(self, timeout: float | None = None) -> SearchState:
        """Wait until the tools can be searched by meaning, or it is known that they cannot."""
        return await asyncio.to_thread(self._engine.finder.wait, self.catalog.for_models, timeout)
