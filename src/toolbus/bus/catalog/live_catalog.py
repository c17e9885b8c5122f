"""The live catalog of a tenant: its latest snapshot, and the events and registries that follow it."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock

from toolbus.bus.catalog.registry import Registrations
from toolbus.bus.catalog.snapshot import BusSnapshot, ShapedCatalog, SnapshotInputs, Snapshots
from toolbus.call.result_store import READ_RESULT
from toolbus.core.operation.events import MOST_CHARACTERS, CatalogChanged, Hub, Warned, warn
from toolbus.core.text.text import headed
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import ShaperFailed
from toolbus.core.values.records import OWN

logger = logging.getLogger("toolbus")
MAX_WARNINGS = 100
"""Warnings about the tools of one server at a time."""
MAX_REMEMBERED = 50_000
_QUICK = 0.02
"""Seconds of a rebuild that is never delayed, such as one of some hundred tools."""
_SHARE, _LONGEST_DELAY = 10, 1.0
"""A longer one is delayed by this many times its own duration, but not for longer than a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """The result of one rebuild. It is replaced as a whole, because others read it without waiting."""

    snapshot: BusSnapshot
    shaped: ShapedCatalog
    """Of this snapshot, or the last one that could be shaped."""
    failed: ShaperFailed | None = None
    """The reason if this snapshot could not be shaped."""


class LiveCatalog:
    """Follows what the servers of a tenant offer."""

    def __init__(
        self,
        snapshots: Snapshots,
        inputs: Callable[[], SnapshotInputs],
        hub: Hub,
        reports: Callable[[str], bool],
        taken: Callable[[], Iterable[str]],
        parent: "LiveCatalog | None" = None,
    ) -> None:
        """`inputs` returns the current ones; `reports` tells whether problems of a server are reported here.

        `taken` is called with every new snapshot, and returns what to warn of. With the inputs of the
        `parent`, the snapshot of the parent is used: it is not built twice.
        """
        self._snapshots = snapshots
        self._inputs = inputs
        self._hub = hub
        self._reports = reports
        self._taken = taken
        self._parent = parent
        self._warned: set[tuple[str, str | None, str]] = set()
        self.registrations = Registrations(READ_RESULT.origin, self.warn)
        snapshot = snapshots.of(inputs())
        shaped = ShapedCatalog(catalog=Catalog(own=snapshot.shaping.own))
        self._published = _Published(snapshot=snapshot, shaped=shaped)
        self.current = shaped.catalog
        """The latest catalog, which may be outdated."""
        self.is_outdated = parent is not None
        self._seconds = 0.0
        """The duration of the last rebuild."""
        self._soon: asyncio.TimerHandle | None = None
        self._updating = RLock()

    @property
    def now(self) -> Catalog:
        """The current catalog: an immutable snapshot."""
        if self.is_outdated:
            self._update()
        return self.current

    @property
    def shaped(self) -> ShapedCatalog:
        """The current catalog, and the tools that are not in it; the last one if a shaper is broken."""
        if self.is_outdated:
            self._update()
        return self._published.shaped

    @property
    def snapshot(self) -> BusSnapshot:
        """The offers of the servers now, even if a shaper is broken."""
        if self.is_outdated:
            self._update()
        return self._published.snapshot

    @property
    def failed(self) -> ShaperFailed | None:
        """The error of the last rebuild, if it failed."""
        return self._published.failed

    def outdate(self) -> None:
        """Rebuild the catalog when it is next needed; now if somebody follows it."""
        self.is_outdated = True
        if self._hub.has_listeners or self.registrations.active:
            self._update()

    def change(self) -> None:
        """A server offers something else: rebuild the catalog now, or soon if that takes long.

        Many servers may come up together, and each change would shape the tools of all again. A caller who
        needs the catalog meanwhile has it rebuilt at once.
        """
        self.is_outdated = True
        if self._seconds < _QUICK:
            self._update()
        elif self._soon is None:
            delay = min(_SHARE * self._seconds, _LONGEST_DELAY)
            self._soon = asyncio.get_running_loop().call_later(delay, self._change_now)

    def _change_now(self) -> None:
        self._soon = None
        _ = self.now

    def rebuild(self) -> None:
        """Rebuild the catalog now, and emit the changes."""
        self.is_outdated = True
        self._update()

    def _update(self) -> None:
        if self._parent is not None:
            _ = self._parent.now  # brings it up to date, if need be: not while others wait for this one
        with self._updating:  # it may be needed in several threads
            if self.is_outdated:
                self.is_outdated = False  # first: the next change may come meanwhile
                began = time.perf_counter()
                try:
                    self._rebuild()
                except BaseException:
                    self.is_outdated = True  # whatever it was: the last snapshot must not stay
                    raise
                self._seconds = time.perf_counter() - began

    def _rebuild(self) -> None:
        inputs = self._inputs()
        of_parent = None if self._parent is None else self._parent._published
        if of_parent is not None and of_parent.snapshot.inputs == inputs:
            self._take(of_parent, ())  # the parent warns of it
            return
        snapshot = self._snapshots.of(inputs)
        try:
            shaped = snapshot.shaped
        except ShaperFailed as failed:
            self._published = _Published(snapshot=snapshot, shaped=self._published.shaped, failed=failed)
            # Each time, unlike `warn`: until it is fixed, the catalog does not change.
            logger.error("%s", failed)
            self._hub.emit(Warned(server=OWN, message=str(failed)))
            return
        self._take(_Published(snapshot=snapshot, shaped=shaped), shaped.warnings)

    def _take(self, published: _Published, warnings: Iterable[tuple[str, str | None, str]]) -> None:
        before, fresh = self.current, published.shaped.catalog
        self._published, self.current = published, fresh
        self._warn_new(warnings)
        self._warn_new((OWN, None, message) for message in self._taken())
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
