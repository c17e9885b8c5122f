"""Keep someone else's tool registry in step with the catalog."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolbus.bus.tool import Runner, Tool
from toolbus.core.records import Origin, ToolSpec
from toolbus.core.text import cleaned
from toolbus.shape import LeaveOut, Shaper, named, shaped

logger = logging.getLogger("toolbus")


class Registry(Protocol):
    """Anything tools can be added to; a `remove_tool(name)` is used where it has one."""

    def add_tool(self, tool: Any, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which tools of the catalog a registry wants, and what to change of them on the way."""

    only: frozenset[Origin] | None = None
    servers: frozenset[str] | None = None
    shapers: tuple[Shaper, ...] = ()
    shows: Callable[[ToolSpec], bool] = lambda spec: True
    """Whether the view that the registry was filled from shows a tool."""

    def of(self, specs: Iterable[ToolSpec], leave_out: LeaveOut) -> list[ToolSpec]:
        """The tools it takes of these; `ShaperFailed` if a shaper is broken."""
        chosen = (
            spec
            for spec in specs
            if self.shows(spec)
            and (self.only is None or spec.origin in self.only)
            and (self.servers is None or spec.origin.server in self.servers)
        )
        return shaped(chosen, self.shapers, leave_out)


class Registration:
    """One registry, what it wants, and the tools that were put into it."""

    def __init__(self, registry: Registry, runner: Runner, own: Origin) -> None:
        self.registry = registry
        self.choices: list[Choice] = []
        self._runner = runner
        self._own = own
        self._there: dict[str, ToolSpec] = {}

    def follow(self, specs: Sequence[ToolSpec]) -> None:
        """Make the registry hold what it wants of these; tools that did not change are left alone."""
        wanted = {spec.name: spec for spec in self._wanted(specs)}
        for name, spec in list(self._there.items()):
            if wanted.get(name) != spec:
                self._remove(name)
        refused: Exception | None = None
        for name, spec in wanted.items():
            if name in self._there:
                continue
            try:
                self.registry.add_tool(Tool(spec, self._runner))
            except (
                Exception
            ) as error:  # a user's registry: one tool that it refuses is not to cost the others
                refused = error
                self._leave_out(spec, f"a registry raised {type(error).__name__}: {error}")
            else:
                self._there[name] = spec
        if refused is not None and not self._there:
            raise refused  # it takes none: the registry is broken, not a tool

    def _leave_out(self, spec: ToolSpec, reason: str) -> None:
        self._runner.warn(spec.origin.server, spec.origin.tool, f"left out: {cleaned(reason)}")

    def _wanted(self, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
        # What the bus itself offers goes with all that was not chosen one by one, under its own name:
        # results speak of it.
        asked_for_own = any(choice.only is None for choice in self.choices)
        own = [spec for spec in specs if spec.origin == self._own and asked_for_own]
        of_servers = [spec for spec in specs if spec.origin != self._own]
        # By origin: what two choices ask for is put in once, as the last of them wants it.
        found = {
            spec.origin: spec for choice in self.choices for spec in choice.of(of_servers, self._leave_out)
        }
        wanted = [*found.values(), *own]
        if not any(choice.shapers for choice in self.choices):
            return wanted
        # A shaper may give one name to two tools; both are to stay.
        return named("{tool}", {spec.origin.server: "" for spec in wanted})(wanted)

    def _remove(self, name: str) -> None:
        del self._there[name]
        remove: Callable[[str], object] | None = getattr(self.registry, "remove_tool", None)
        if remove is not None:
            remove(name)


class Registrations:
    """All registries that follow one bus."""

    def __init__(self, own: Origin) -> None:
        """`own` is the tool of the bus itself."""
        self._own = own
        self._all: list[Registration] = []

    def add(self, registry: Registry, choice: Choice, specs: Sequence[ToolSpec], runner: Runner) -> None:
        """Fill a registry, now and from now on; a registry that is known gets this on top.

        A choice of the same servers takes the place of the earlier one: the server was added anew.
        """
        known = next((one for one in self._all if one.registry is registry), None)
        registration = known or Registration(registry, runner, self._own)
        before = registration.choices
        kept = [old for old in before if choice.servers is None or old.servers != choice.servers]
        registration.choices = [*kept, choice]
        try:
            registration.follow(specs)
        except BaseException:
            registration.choices = before
            raise
        if known is None:
            self._all.append(registration)

    def follow(self, specs: Sequence[ToolSpec]) -> None:
        """Bring all of them up to date; with none, empty them."""
        for registration in self._all:
            try:
                registration.follow(specs)
            except Exception:  # a user's registry or shaper: its failure must not reach the links
                logger.exception("a registry raised")
