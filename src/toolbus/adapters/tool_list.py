"""The tools of a bus, each made into the type of a framework."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from toolbus.bus.connection import Connecting, McpConnection
from toolbus.bus.sync import SyncTool, SyncToolbus
from toolbus.bus.tool import Tool
from toolbus.bus.toolbus import Toolbus
from toolbus.core.events import CatalogChanged, Event
from toolbus.core.text import cleaned
from toolbus.shape import UnknownDialect

T = TypeVar("T")
Bus: TypeAlias = Toolbus | SyncToolbus | McpConnection
Source: TypeAlias = Bus | Iterable[Tool | SyncTool]
"""Where an adapter takes its tools from: a bus, or tools that were chosen from one."""
Servers: TypeAlias = Sequence[str] | str | None
"""The aliases of the servers whose tools are wanted; None for all."""


def the_bus(source: Bus) -> Toolbus:
    """The bus itself, whichever face of it was given."""
    return source if isinstance(source, Toolbus) else source.bus


def tools_of(source: Source, servers: Servers = None, *, live: bool = False) -> list[Tool]:
    """The tools, as they are now; `live` if the model gets `read_result` once there is something to read."""
    if isinstance(source, Toolbus | SyncToolbus | McpConnection):
        tools = the_bus(source).tools(servers)
        return tools if live else [Tool(tool.spec, tool.runner, reads_on=False) for tool in tools]
    wanted = {servers} if isinstance(servers, str) else set(servers or ())
    return [
        Tool(tool.spec, tool.runner, reads_on=False)
        for tool in chosen(source)
        if tool.offered and (servers is None or tool.server in wanted)
    ]


def chosen(source: Any) -> list[Tool]:
    """Tools that were chosen one by one; TypeError says what else can be given."""
    if isinstance(source, str | bytes | Path | Mapping) or not isinstance(source, Iterable):
        given = cast(object, source)
        kind, way = type(given).__name__, _ways(given)
        raise TypeError(f"an adapter takes a Toolbus or a list of its tools, not a {kind}; {way}")
    tools: list[Tool] = []
    for tool in cast(Iterable[object], source):
        one = tool.tool if isinstance(tool, SyncTool) else tool
        if not isinstance(one, Tool):
            raise TypeError(f"an adapter takes tools of a bus, not a {type(one).__name__}")
        tools.append(one)
    named: dict[str, Tool] = {}
    for tool in tools:
        other = named.setdefault(tool.name, tool)
        if other.origin != tool.origin or other.runner is not tool.runner:
            both = f"{other.origin} and {tool.origin}"
            raise ValueError(f"two tools are named {tool.name!r}: {both}; list one of them with a prefix")
    return tools


def _ways(source: object) -> str:
    if isinstance(source, Connecting):
        return "await it first: `await connect_mcp(...)`"
    return 'open a bus first: `async with Toolbus("toolbus.yaml") as bus`'


class Offer(list[T]):
    """A framework's tools in the order of the catalog: a plain list, with a way to bring it up to date."""

    def __init__(
        self,
        source: Source,
        made: Callable[[Tool], T],
        servers: Servers = None,
        *,
        follow: bool = False,
        live: bool = False,
    ) -> None:
        """With `follow` the list changes with the catalog; `live` says that it is refreshed at every turn."""
        self._source: Source = source if isinstance(source, Bus) else chosen(source)
        self._live = live or follow
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
        failures: list[Exception] = []
        for tool in tools_of(self._source, self._still_there(), live=self._live):
            known = self._known.get(tool.name)
            if known is not None and known[0].spec == tool.spec:
                now[tool.name] = known
                continue
            try:
                now[tool.name] = (tool, self._made(tool))
            except UnknownDialect:
                raise
            except Exception as error:  # a dialect or a framework: one tool must not cost the others
                failures.append(error)
                _warn(tool, error)
        if len(failures) > 1 and not (now or self._known):
            raise failures[0]  # it takes none at all: not the fault of a tool
        self._known = now
        self[:] = [made for _, made in now.values()]

    def _still_there(self) -> Servers:
        """The chosen servers that the bus has now; one that left may come back."""
        if self._servers is None or not isinstance(self._source, Bus):
            return self._servers
        chosen = [self._servers] if isinstance(self._servers, str) else self._servers
        there = the_bus(self._source).servers
        return [alias for alias in chosen if alias in there]


def _warn(tool: Tool, error: Exception) -> None:
    reason = cleaned(f"{type(error).__name__}: {error}")
    tool.runner.warn(tool.server, tool.origin.tool, f"not offered to the framework: {reason}")


def _follow(offer: Offer[T], bus: Toolbus) -> None:
    """Refresh the list when the catalog changes, for as long as somebody holds it."""
    held = weakref.ref(offer)

    def changed(event: Event) -> None:
        if isinstance(event, CatalogChanged) and (still := held()) is not None:
            still.refresh()

    weakref.finalize(offer, bus.on_event(changed)).atexit = False
