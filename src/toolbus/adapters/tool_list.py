"""The tools of a bus, each converted to a framework's type."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, overload

from toolbus.bus.catalog.exposure import OWN_ROUTES
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.connection import Connecting, McpConnection
from toolbus.bus.inner import calls_of, view_of
from toolbus.bus.rules.scope import Names
from toolbus.bus.sync import SyncMcpConnection, SyncTool, SyncView
from toolbus.bus.view import View
from toolbus.config.settings.expose import ExposeMode, check_mode
from toolbus.core.operation.events import CatalogChanged, Event
from toolbus.core.text.text import cleaned
from toolbus.core.values.errors import CallDenied, ToolNotFound
from toolbus.shape import UnknownDialect

T = TypeVar("T")
Bus: TypeAlias = View | SyncView | McpConnection | SyncMcpConnection
ToolSource: TypeAlias = Bus | Iterable[Tool | SyncTool]
"""The source of an adapter's tools: a bus, or a list of its tools."""
Servers: TypeAlias = Sequence[str] | str | None
"""The aliases of the servers to take tools from; None for all."""


def bus_of(source: Bus) -> View:
    """The bus itself, or the view of it."""
    return source if isinstance(source, View) else source.bus


def current_tools(
    source: ToolSource, servers: Servers = None, *, live: bool = False, loadable: bool = False
) -> list[Tool]:
    """The tools the source has now. `live` offers the model `read_result` once a result was cut.

    `loadable` is for providers that load tools, see `View.tools`.
    """
    if isinstance(source, Bus):
        tools = bus_of(source).tools(servers, loadable=loadable)
        return tools if live else [Tool(tool.spec, view_of(tool), can_read_more=False) for tool in tools]
    selected = {servers} if isinstance(servers, str) else set(servers or ())
    return [
        Tool(tool.spec, view_of(tool), can_read_more=False)
        for tool in checked_tools(source)
        if _is_offered(tool) and (servers is None or tool.server in selected)
    ]


def _is_offered(tool: Tool) -> bool:
    # Of those of the bus itself, only some are in the catalog; they do not leave.
    return tool.spec.route in OWN_ROUTES or str(tool.origin) in view_of(tool).catalog


def checked_tools(source: Any) -> list[Tool]:
    """The tools of a list; TypeError if it is not a list of tools, ValueError if two have the same name."""
    if isinstance(source, str | bytes | Path | Mapping) or not isinstance(source, Iterable):
        given = cast(object, source)
        kind = type(given).__name__
        raise TypeError(f"adapters take a Toolbus or a list of its tools, not a {kind}; {_next_step(given)}")
    tools: list[Tool] = []
    for item in cast(Iterable[object], source):
        tool = item.tool if isinstance(item, SyncTool) else item
        if not isinstance(tool, Tool):
            raise TypeError(f"adapters take tools of a bus, not a {type(tool).__name__}")
        tools.append(tool)
    named: dict[str, Tool] = {}
    for tool in tools:
        other = named.setdefault(tool.name, tool)
        if other.origin != tool.origin or view_of(other) is not view_of(tool):
            both = f"{other.origin} and {tool.origin}"
            raise ValueError(f"two tools are named {tool.name!r}: {both}; list one of them with a prefix")
    return tools


def _next_step(source: object) -> str:
    if isinstance(source, Connecting):
        return "await it first: `await connect_mcp(...)`"
    return 'open a bus first: `async with Toolbus("toolbus.yaml") as bus`'


class ToolList(list[T]):
    """A framework's tools in catalog order: a plain list that can be refreshed."""

    def __init__(
        self,
        source: ToolSource,
        convert: Callable[[Tool], T],
        servers: Servers = None,
        *,
        face: str = "",
        follow: bool = False,
        live: bool = False,
        loadable: bool = False,
    ) -> None:
        """With `follow` the list changes with the catalog; with `live` its owner refreshes it every turn.

        `face` is the caller of the tools, such as `langchain`. `loadable` as for `View.tools`.
        """
        self._loadable = loadable
        self._source: ToolSource = (
            with_face(bus_of(source), face) if isinstance(source, Bus) else _tools_with_face(source, face)
        )
        self._live = live or follow
        self._convert = convert
        self._servers = servers
        self._converted: dict[str, tuple[Tool, T]] = {}
        current_tools(self._source, servers)  # raises for an unknown server; a known one may leave later
        self.refresh()
        if follow and isinstance(source, Bus):
            _follow(self, bus_of(source))

    def refresh(self) -> None:
        """Update the list in place; an unchanged tool stays the same object."""
        converted: dict[str, tuple[Tool, T]] = {}
        failures: list[Exception] = []
        servers = self._connected_servers()
        for tool in current_tools(self._source, servers, live=self._live, loadable=self._loadable):
            known = self._converted.get(tool.name)
            if known is not None and known[0].spec == tool.spec:
                converted[tool.name] = known
                continue
            try:
                converted[tool.name] = (tool, self._convert(tool))
            except UnknownDialect:
                raise
            except Exception as error:  # a dialect or a framework: one tool must not cost the others
                failures.append(error)
                _warn(tool, error)
        if len(failures) > 1 and not (converted or self._converted):
            raise failures[0]  # every tool failed: the cause is not one tool
        self._converted = converted
        self[:] = [item for _, item in converted.values()]

    def missing(self, name: str, known: Sequence[str]) -> ToolNotFound | CallDenied:
        """The error for a name that is not among the known ones: held, or unknown."""
        if isinstance(self._source, Bus):
            return calls_of(bus_of(self._source)).missing(name, known)
        views = set(map(view_of, checked_tools(self._source)))
        errors = [calls_of(view).missing(name, known) for view in views]
        held = (error for error in errors if isinstance(error, CallDenied))
        return next(held, ToolNotFound(name, known))

    def _connected_servers(self) -> Servers:
        """The selected servers that the bus has now; one that was removed may come back."""
        if self._servers is None or not isinstance(self._source, Bus):
            return self._servers
        selected = [self._servers] if isinstance(self._servers, str) else self._servers
        known = bus_of(self._source).servers
        return [alias for alias in selected if alias in known]


def with_face(view: View, face: str) -> View:
    return view.view(caller=replace(view.caller, face=face))


def _tools_with_face(source: ToolSource, face: str) -> list[Tool]:
    tools = checked_tools(source)
    views = {view: with_face(view, face) for view in map(view_of, tools)}
    return [Tool(tool.spec, views[view_of(tool)]) for tool in tools]


def _warn(tool: Tool, error: Exception) -> None:
    reason = cleaned(f"{type(error).__name__}: {error}")
    calls_of(view_of(tool)).warn(tool.server, tool.origin.tool, f"not offered to the framework: {reason}")


def _follow(tools: ToolList[T], bus: View) -> None:
    """Refresh the list whenever the catalog changes, until the list is garbage collected."""
    reference = weakref.ref(tools)

    def on_event(event: Event) -> None:
        if isinstance(event, CatalogChanged) and (alive := reference()) is not None:
            alive.refresh()

    weakref.finalize(tools, bus.on_event(on_event)).atexit = False


@overload
def shown(source: Bus, expose: ExposeMode | None, always: Names) -> Bus: ...
@overload
def shown(source: ToolSource, expose: ExposeMode | None, always: Names) -> ToolSource: ...
def shown(source: ToolSource, expose: ExposeMode | None, always: Names) -> ToolSource:
    """The source, shown in that way; ValueError if it is a list of tools, which are shown as they are."""
    check_mode(expose)
    if expose is None and always is None:
        return source
    if not isinstance(source, Bus):
        raise ValueError("expose and always are for the tools of a bus, not for a list of tools")
    return bus_of(source).view(expose=expose, always=always)
