"""The tools of a bus, each made into the type of a framework."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from toolbus.bus import Toolbus
from toolbus.connection import McpConnection
from toolbus.events import CatalogChanged, Event
from toolbus.sync import SyncToolbus
from toolbus.tool import Tool

T = TypeVar("T")
Bus: TypeAlias = Toolbus | SyncToolbus | McpConnection
Source: TypeAlias = Bus | Iterable[Tool]
"""Where an adapter takes its tools from: a bus, or tools that were chosen from one."""
Servers: TypeAlias = Sequence[str] | str | None
"""The aliases of the servers whose tools are wanted; None for all."""


def the_bus(source: Bus) -> Toolbus:
    """The bus itself, whichever face of it was given."""
    return source if isinstance(source, Toolbus) else source.bus


def tools_of(source: Source, servers: Servers = None) -> list[Tool]:
    """The tools, as they are now."""
    if isinstance(source, Toolbus | SyncToolbus | McpConnection):
        return the_bus(source).tools(servers)
    wanted = {servers} if isinstance(servers, str) else set(servers or ())
    return [tool for tool in source if tool.offered and (servers is None or tool.server in wanted)]


class Offer(list[T]):
    """A framework's tools in the order of the catalog: a plain list, with a way to bring it up to date."""

    def __init__(
        self, source: Source, made: Callable[[Tool], T], servers: Servers = None, *, follow: bool = False
    ) -> None:
        self._source: Source = source if isinstance(source, Bus) else list(source)
        self._made = made
        self._servers = servers
        self._known: dict[str, tuple[Tool, T]] = {}
        tools_of(self._source, servers)  # refuses a server that is not there; one may leave later
        self.refresh()
        if follow and isinstance(source, Bus):
            _follow(self, the_bus(source))

    def refresh(self) -> None:
        """Take over what the catalog has now, in place; a tool that did not change stays the same object."""
        now: dict[str, tuple[Tool, T]] = {}
        for tool in tools_of(self._source, self._still_there()):
            known = self._known.get(tool.name)
            same = known is not None and known[0].spec == tool.spec
            now[tool.name] = known if known is not None and same else (tool, self._made(tool))
        self._known = now
        self[:] = [made for _, made in now.values()]

    def _still_there(self) -> Servers:
        """The chosen servers that the bus has now; one that left may come back."""
        if self._servers is None or not isinstance(self._source, Bus):
            return self._servers
        chosen = [self._servers] if isinstance(self._servers, str) else self._servers
        there = the_bus(self._source).servers
        return [alias for alias in chosen if alias in there]


def _follow(offer: Offer[T], bus: Toolbus) -> None:
    """Refresh the list when the catalog changes, for as long as somebody holds it."""
    held = weakref.ref(offer)

    def changed(event: Event) -> None:
        if isinstance(event, CatalogChanged):
            still = held()
            if still is None:
                end()
            else:
                still.refresh()

    end = bus.on_event(changed)
