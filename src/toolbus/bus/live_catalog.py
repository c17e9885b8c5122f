"""The live catalog: rebuilt whenever a server changes."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Protocol

from toolbus.bus.registry import Registrations
from toolbus.bus.shaping import Shaping
from toolbus.call import READ_RESULT
from toolbus.config import BusConfig
from toolbus.core.catalog import Catalog
from toolbus.core.collector import paused_collector
from toolbus.core.errors import ShaperFailed
from toolbus.core.events import CatalogChanged, Hub, Warned, warn
from toolbus.core.records import OWN, Inventory, ToolSpec
from toolbus.shape import Shaper

logger = logging.getLogger("toolbus")
MAX_WARNINGS = 100
"""Warnings about the tools of one server at a time."""
MAX_REMEMBERED = 50_000


class CatalogPolicy(Protocol):
    """What the policy means for the catalog."""

    def removes(self, spec: ToolSpec, /) -> bool:
        """Whether every call of a tool is denied."""
        ...

    def warnings(self, tools: Sequence[ToolSpec], /) -> Iterable[str]:
        """Warnings about rules without effect, given all tools."""
        ...


class LiveCatalog:
    """Builds the current catalog."""

    def __init__(
        self,
        config: BusConfig,
        shapers: Sequence[Shaper],
        inventories: Callable[[], Mapping[str, Inventory]],
        hub: Hub,
        reports: Callable[[str], bool],
        policy: "CatalogPolicy",
    ) -> None:
        """`reports` tells whether problems with the tools of a server are reported here."""
        self._policy = policy
        self._reports = reports
        self._own_shapers = tuple(shapers)
        self._inventories = inventories
        self._hub = hub
        self._warned: set[tuple[str, str | None, str]] = set()
        self.registrations = Registrations(READ_RESULT.origin)
        self.offers_kept_results = False
        """Whether `read_result` is in the catalog."""
        self.failed: ShaperFailed | None = None
        """Why the last rebuild failed."""
        self.shaping = Shaping(config, self._own_shapers)
        self._now = Catalog(own=self.shaping.own)
        self.removed = Catalog()
        """The tools that the policy denies, by the names that they would have."""
        self.version = 0
        """Counts how often it was rebuilt."""
        self._is_outdated = False
        self._updating = RLock()

    @property
    def now(self) -> Catalog:
        """The current catalog: an immutable snapshot."""
        if self._is_outdated:
            self._update()
        return self._now

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of the servers that have some, by alias."""
        return self.shaping.instructions(self._inventories())

    def use(self, config: BusConfig) -> None:
        """Use another config from the next rebuild on."""
        self.shaping = Shaping(config, self._own_shapers)

    def outdate(self) -> None:
        """Rebuild the catalog when it is next needed; now if somebody follows it."""
        self._is_outdated = True
        if self._hub.has_listeners or self.registrations.active:
            self._update()

    def _update(self) -> None:
        with self._updating:  # it may be needed in several threads
            if self._is_outdated:
                self._is_outdated = False  # first: the next change may come meanwhile
                self.rebuild()

    def offer_kept_results(self) -> None:
        """Add `read_result` to the catalog."""
        self.offers_kept_results = True
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the catalog, and emit what changed."""
        self.version += 1
        inventories = self._inventories()
        own = [*([READ_RESULT] if self.offers_kept_results else []), *self.shaping.own]
        try:
            with paused_collector():
                # After naming, so that a policy does not change the names of other tools.
                tools = self.shaping.tools(inventories)
                removed = [spec for spec in tools if self._policy.removes(spec)]
                denied = {spec.name for spec in removed}
                kept = [spec for spec in tools if spec.name not in denied] if denied else tools
                fresh = Catalog(kept, own, self.instructions)
        except ShaperFailed as failed:
            self.failed = failed
            # Each time, unlike `warn`: until it is fixed, the catalog does not change.
            logger.error("%s", failed)
            self._hub.emit(Warned(server=OWN, message=str(failed)))
            return
        before, self._now, self.failed = self._now, fresh, None
        self.removed = Catalog(removed)
        self.version += 1  # again: another thread may have looked meanwhile
        self._warn_new(self.shaping.warnings(inventories, fresh.specs))
        self._warn_new((OWN, None, message) for message in self._policy.warnings(tools))
        if difference := fresh.changes_since(before):
            self.registrations.sync(fresh.specs)
            added, removed, changed = difference.added, difference.removed, difference.changed
            self._hub.emit(CatalogChanged(added=added, removed=removed, changed=changed))

    def _warn_new(self, warnings: Iterable[tuple[str, str | None, str]]) -> None:
        """Emit the warnings that are new; of one server, up to a limit."""
        new = [warning for warning in warnings if warning not in self._warned and self._reports(warning[0])]
        counts: Counter[str] = Counter()
        for server, tool, message in new:
            counts[server] += 1
            if counts[server] <= MAX_WARNINGS:
                self.warn(server, tool, message)
            else:
                self._warned.add((server, tool, message))
        for server, count in counts.items():
            if count > MAX_WARNINGS:
                self.warn(server, None, f"{count - MAX_WARNINGS:,} more warnings about its tools")

    def warn(self, server: str, tool: str | None, message: str) -> None:
        """Log a warning and emit it as an event, once."""
        if len(self._warned) > MAX_REMEMBERED:
            self._warned.clear()  # a server can send ever new ones
        if (server, tool, message) not in self._warned:
            self._warned.add((server, tool, message))
            warn(self._hub.emit, server, message, tool)
