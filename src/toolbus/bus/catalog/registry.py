"""Keep a registry of tools in sync with the catalog."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from toolbus.bus.catalog.tool import Tool, ToolView
from toolbus.core.text.text import cleaned
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import Origin, ToolSpec
from toolbus.shape import Shaper, each
from toolbus.shape.naming import named
from toolbus.shape.pipeline import LeaveOut, shaped

logger = logging.getLogger("toolbus")


Warn: TypeAlias = Callable[[str, str | None, str], None]


class Registry(Protocol):
    """Anything with `add_tool`; its `remove_tool(name)` is used if it has one."""

    def add_tool(self, tool: Any, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tools of the catalog to add to a registry, and the shapers to apply first."""

    only: frozenset[Origin] | None = None
    servers: frozenset[str] | None = None
    shapers: tuple[Shaper, ...] = ()
    shows: Callable[[ToolSpec], bool] = lambda spec: True
    """Whether the view that registered them shows a tool."""
    exposed: Callable[[Catalog], Catalog] = lambda catalog: catalog
    """The function that selects the tools of the view to show to a model."""

    def select(self, specs: Iterable[ToolSpec], leave_out: LeaveOut) -> list[ToolSpec]:
        """The selected tools, shaped; `ShaperFailed` if a shaper is broken."""
        chosen: Iterable[ToolSpec] = (
            spec
            for spec in specs
            if self.shows(spec)
            and not spec.is_app_only
            and (self.only is None or spec.origin in self.only)
            and (self.servers is None or spec.origin.server in self.servers)
        )
        if self.only is None:  # tools that were named one by one are all wanted
            chosen = self.exposed(Catalog(chosen))
        return shaped(chosen, self.shapers, leave_out)


def selection_of(
    catalog: Catalog,
    tools: Iterable[Tool | str] | None,
    servers: frozenset[str] | None,
    transform: Callable[[ToolSpec], ToolSpec | None] | None,
    shows: Callable[[ToolSpec], bool],
    exposed: Callable[[Catalog], Catalog],
) -> Selection:
    """The selection of these tools: `Tool` objects, public names or `server/tool`."""
    names = (tool if isinstance(tool, str) else str(tool.origin) for tool in tools or ())
    return Selection(
        only=None if tools is None else frozenset(catalog[name].origin for name in names),
        servers=servers,
        shapers=() if transform is None else (each(transform),),
        shows=shows,
        exposed=exposed,
    )


class Registration:
    """One registry, its selections, and the tools that were added to it."""

    def __init__(self, registry: Registry, view: ToolView, own: Origin, warn: Warn) -> None:
        self.registry = registry
        self._warn = warn
        self.selections: list[Selection] = []
        self._view = view
        self._own = own
        self._added: dict[str, ToolSpec] = {}

    def sync(self, specs: Sequence[ToolSpec]) -> None:
        """Update the registry to its selections of these tools; unchanged ones are left alone."""
        wanted = {spec.name: spec for spec in self._selected_specs(specs)}
        for name, spec in list(self._added.items()):
            if wanted.get(name) != spec:
                self._remove(name)
        rejected: Exception | None = None
        for name, spec in wanted.items():
            if name in self._added:
                continue
            try:
                self.registry.add_tool(Tool(spec, self._view))
            except Exception as error:  # a user's registry; one rejected tool must not affect the others
                rejected = error
                self._leave_out(spec, f"a registry raised {type(error).__name__}: {error}")
            else:
                self._added[name] = spec
        if rejected is not None and not self._added:
            raise rejected  # all were rejected: the registry is broken, not a tool

    def _leave_out(self, spec: ToolSpec, reason: str) -> None:
        self._warn(spec.origin.server, spec.origin.tool, f"left out: {cleaned(reason)}")

    def _selected_specs(self, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
        # The bus's own tool is added unless all tools were selected one by one, and keeps its name, because
        # results mention it.
        includes_own = any(selection.only is None for selection in self.selections)
        own = [spec for spec in specs if spec.origin == self._own and includes_own]
        of_servers = [spec for spec in specs if spec.origin != self._own]
        # By origin: a tool in two selections is added once, shaped by the last one.
        found = {
            spec.origin: spec
            for selection in self.selections
            for spec in selection.select(of_servers, self._leave_out)
        }
        wanted = [*found.values(), *own]
        if not any(selection.shapers for selection in self.selections):
            return wanted
        # A shaper may give two tools one name; both must stay.
        return named("{tool}", {spec.origin.server: "" for spec in wanted})(wanted)

    def _remove(self, name: str) -> None:
        del self._added[name]
        remove: Callable[[str], object] | None = getattr(self.registry, "remove_tool", None)
        if remove is not None:
            remove(name)


class Registrations:
    """All registries of one bus."""

    def __init__(self, own: Origin, warn: Warn) -> None:
        """`own` is the tool of the bus itself."""
        self._own, self._warn = own, warn
        self._all: list[Registration] = []

    def add(
        self, registry: Registry, selection: Selection, specs: Sequence[ToolSpec], view: ToolView
    ) -> None:
        """Fill a registry and keep it in sync; a known registry gets one more selection.

        It replaces an earlier selection of the same servers: they were added again.
        """
        known = next((one for one in self._all if one.registry is registry), None)
        registration = known or Registration(registry, view, self._own, self._warn)
        before = registration.selections
        kept = [old for old in before if selection.servers is None or old.servers != selection.servers]
        registration.selections = [*kept, selection]
        try:
            registration.sync(specs)
        except BaseException:
            registration.selections = before
            raise
        if known is None:
            self._all.append(registration)

    @property
    def active(self) -> bool:
        """Whether there are any."""
        return bool(self._all)

    def sync(self, specs: Sequence[ToolSpec]) -> None:
        """Update all registries; without specs, empty them."""
        for registration in self._all:
            try:
                registration.sync(specs)
            except Exception:  # a user's registry or shaper; its failure must not affect the links
                logger.exception("a registry raised")
