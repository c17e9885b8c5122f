"""The live catalog: rebuilt whenever a server changes."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Protocol

from toolbus.bus.catalog.registry import Registrations
from toolbus.bus.catalog.shaping import CatalogShaper
from toolbus.call import READ_RESULT
from toolbus.config import BusConfig
from toolbus.core.collector import paused_collector
from toolbus.core.operation.events import MOST_CHARACTERS, CatalogChanged, Hub, Warned, warn
from toolbus.core.text.text import headed
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import ShaperFailed
from toolbus.core.values.records import OWN, Inventory, ToolSpec
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


_QUICK = 0.02
"""Seconds of a rebuild that need not be saved: that of some hundred tools."""
_SHARE, _LONGEST_DELAY = 10, 1.0
"""A longer one waits for so many times what it takes, but not for longer than a second."""


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
        base: "LiveCatalog | None" = None,
        is_like_base: Callable[[], bool] = lambda: True,
    ) -> None:
        """`reports` tells whether problems with the tools of a server are reported here.

        With a `base`, as long as everything `is_like_base`, the catalog is that one: it is not built twice.
        """
        self._policy = policy
        self._base = base
        self._is_like_base = is_like_base
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
        self._config = config
        self._has_own_shaping = base is None
        self.shaping = CatalogShaper(config, self._own_shapers) if base is None else base.shaping
        self._now = Catalog(own=self.shaping.own)
        self._tools: Sequence[ToolSpec] = ()
        """All tools, denied or not."""
        self.removed = Catalog()
        """The tools that the policy denies, by the names that they would have."""
        self.version = 0
        """Counts how often it was rebuilt."""
        self._is_outdated = False
        self._seconds = 0.0
        """What the last rebuild took."""
        self._soon: asyncio.TimerHandle | None = None
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
        self._config = config
        self._shape_by(self._same_base)

    @property
    def is_base(self) -> bool:
        """Whether it is the catalog of the base."""
        return not self._has_own_shaping

    @property
    def _same_base(self) -> "LiveCatalog | None":
        """The base, if the catalog would be the same."""
        base = self._base
        is_same = base is not None and base.offers_kept_results is self.offers_kept_results
        return base if is_same and self._is_like_base() else None

    def _shape_by(self, base: "LiveCatalog | None") -> None:
        self._has_own_shaping = base is None
        self.shaping = CatalogShaper(self._config, self._own_shapers) if base is None else base.shaping

    def outdate(self) -> None:
        """Rebuild the catalog when it is next needed; now if somebody follows it."""
        self._is_outdated = True
        if self._hub.has_listeners or self.registrations.active:
            self._update()

    def change(self) -> None:
        """A server offers something else: rebuild the catalog now, or soon if that takes long.

        Of many servers that come up together, each would have the tools of all shaped again. Whoever needs
        the catalog meanwhile has it rebuilt then.
        """
        self._is_outdated = True
        if self._seconds < _QUICK:
            self._update()
        elif self._soon is None:
            delay = min(_SHARE * self._seconds, _LONGEST_DELAY)
            self._soon = asyncio.get_running_loop().call_later(delay, self._change_now)

    def _change_now(self) -> None:
        self._soon = None
        _ = self.now

    def _update(self) -> None:
        if self._base is not None:
            _ = self._base.now  # brings it up to date, if need be: not while others wait for this one
        with self._updating:  # it may be needed in several threads
            if self._is_outdated:
                self._is_outdated = False  # first: the next change may come meanwhile
                began = time.perf_counter()
                self.rebuild()
                self._seconds = time.perf_counter() - began

    def offer_kept_results(self) -> None:
        """Add `read_result` to the catalog."""
        self.offers_kept_results = True
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the catalog, and emit what changed."""
        self.version += 1
        if (base := self._same_base) is not None:
            self._shape_by(base)
            self.failed = base.failed
            self._replace(base.now, base.removed, base._tools)
            return
        if not self._has_own_shaping:
            self._shape_by(None)
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
        self.failed = None
        self._replace(fresh, Catalog(removed), tools, self.shaping.warnings(inventories, fresh.specs))

    def _replace(
        self,
        fresh: Catalog,
        removed: Catalog,
        tools: Sequence[ToolSpec],
        warnings: Iterable[tuple[str, str | None, str]] = (),
    ) -> None:
        before, self._now = self._now, fresh
        self.removed, self._tools = removed, tools
        self.version += 1  # again: another thread may have looked meanwhile
        self._warn_new(warnings)
        self._warn_new((OWN, None, message) for message in self._policy.warnings(tools))
        if before is not fresh and (difference := fresh.changes_since(before)):
            self.registrations.sync(fresh.specs)
            self._hub.emit(
                CatalogChanged(added=difference.added, removed=difference.removed, changed=difference.changed)
            )

    def _warn_new(self, warnings: Iterable[tuple[str, str | None, str]]) -> None:
        """Emit the warnings that are new; of one server, up to a limit."""
        short = ((server, tool, headed(message, MOST_CHARACTERS)) for server, tool, message in warnings)
        new = [warning for warning in short if warning not in self._warned and self._reports(warning[0])]
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
        message = headed(message, MOST_CHARACTERS)
        if len(self._warned) > MAX_REMEMBERED:
            self._warned.clear()  # a server can send ever new ones
        if (server, tool, message) not in self._warned:
            self._warned.add((server, tool, message))
            warn(self._hub.emit, server, message, tool)
