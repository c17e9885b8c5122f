"""The scope of a view: its servers, tools and caller."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

from toolbus.bus.catalog.exposure import Exposure
from toolbus.bus.rules.targets import is_removed
from toolbus.call.result_store import READ_RESULT
from toolbus.config import BusConfig
from toolbus.config.settings.expose import ExposeMode
from toolbus.config.settings.policy import PolicyRule
from toolbus.core.operation.events import CatalogChanged, Event, Filter
from toolbus.core.operation.operation import PROGRAM, Caller
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import OWN, ToolSpec
from toolbus.policy.layers import Layer

T = TypeVar("T")
Names: TypeAlias = Sequence[str] | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A part of a bus; by default all of it, for a plain program."""

    caller: Caller = PROGRAM
    servers: frozenset[str] | None = None
    patterns: tuple[tuple[str, ...], ...] = ()
    """A group for each nested view; a tool must match a pattern of every group."""
    excluded: tuple[str, ...] = ()
    """Patterns of tools that are not in it."""
    policies: tuple[Layer, ...] = ()
    """The policies of the nested views; each applies in addition to the policy of the bus."""
    expose: ExposeMode | None = None
    """The way its tools are shown to a model; None for the setting of the config."""
    always: tuple[str, ...] | None = None
    """Patterns of tools that are shown in every mode; None for the patterns of the config."""
    during: int | None = None
    """The `id` of the call of a script, for its steps; its owner decides which tools they may call."""
    uses: tuple[str, ...] | None = None
    """Patterns of the tools that the steps of a script may call; None for all of the bus."""

    @property
    def is_whole(self) -> bool:
        """Whether it shows everything."""
        return self.servers is None and not self.has_patterns and not self.policies

    @property
    def has_patterns(self) -> bool:
        """Whether it names tools, and not only servers."""
        return bool(self.patterns or self.excluded or self.uses is not None)

    def narrowed(
        self,
        servers: frozenset[str] | None,
        include: Names,
        caller: Caller | None,
        policy: Layer | None = None,
        exclude: Names = None,
    ) -> "Scope":
        """A narrower scope."""
        if servers is None or self.servers is None:
            both = self.servers if servers is None else servers
        else:
            both = servers & self.servers
        groups = () if include is None else ((include,) if isinstance(include, str) else tuple(include),)
        return replace(
            self,
            servers=both,
            patterns=self.patterns + groups,
            excluded=self.excluded + ((exclude,) if isinstance(exclude, str) else tuple(exclude or ())),
            caller=caller or self.caller,
            policies=self.policies if policy is None else (*self.policies, policy),
        )

    def within(self, bus: "Scope") -> "Scope":
        """The same, inside of the scope of the bus."""
        if bus is WHOLE:
            return self
        if self.during is not None:  # not the tools of a profile, but its rules
            more = tuple(layer for layer in self.policies if layer not in bus.policies)
            return replace(self, policies=bus.policies + more)
        return replace(
            self,
            patterns=bus.patterns + self.patterns,
            excluded=bus.excluded + self.excluded,
            policies=bus.policies + self.policies,
            expose=self.expose or bus.expose,
            always=bus.always if self.always is None else self.always,
        )

    def exposed(self, expose: ExposeMode | None, always: Names) -> "Scope":
        """The same, shown to a model in another way, if one is given."""
        if expose is None and always is None:
            return self
        patterns = (always,) if isinstance(always, str) else self.always if always is None else tuple(always)
        return replace(self, expose=expose or self.expose, always=patterns)

    def exposure(self, config: BusConfig) -> Exposure:
        """The way its tools are shown to a model."""
        return Exposure(
            mode=self.expose or config.expose,
            always=config.always if self.always is None else self.always,
            budget=config.expose_budget,
        )

    def has_server(self, alias: str) -> bool:
        """Whether it shows that server."""
        return self.servers is None or alias in self.servers

    def has(self, spec: ToolSpec) -> bool:
        """Whether it shows that tool."""
        return self.reaches(spec) and not (self.policies and is_removed(spec, self.policies))

    def reaches(self, spec: ToolSpec) -> bool:
        """Whether that tool is in it, shown or denied by a policy."""
        origin = spec.origin
        if origin == READ_RESULT.origin:
            return True
        return (
            (origin.server == OWN or self.has_server(origin.server))
            and all(_matches(spec, group) for group in self.patterns)
            and (self.uses is None or _matches(spec, self.uses))
            and not _matches(spec, self.excluded)
        )

    def visible(self, by_alias: Mapping[str, T]) -> dict[str, T]:
        """The entries of its servers."""
        return {alias: value for alias, value in by_alias.items() if self.has_server(alias)}

    def catalog(self, whole: Catalog) -> Catalog:
        """The catalog of its tools."""
        if self.is_whole:
            return whole
        # The whole record but for what is named here, so that no field can be forgotten: a field more than
        # needed costs another part, one less would show the tools of another view.
        return whole.memo(_part, replace(self, caller=PROGRAM, expose=None, always=None, during=None))

    def filter(self, catalog: Callable[[], Catalog]) -> Filter:
        """A filter for the events of this scope; `catalog` returns its current catalog."""
        before = catalog()

        def filtered(event: Event) -> Event | None:
            nonlocal before
            if isinstance(event, CatalogChanged):
                now = catalog()
                difference, before = now.changes_since(before), now
                return replace(event, **asdict(difference)) if difference else None
            server = getattr(event, "server", None)
            return event if not server or server == OWN or self.has_server(server) else None

        return filtered


WHOLE = Scope()


def bus_scope(config: BusConfig, layer: Callable[[Sequence[PolicyRule], str], Layer]) -> Scope:
    """The scope of a bus: its profile, and the policy of the user's own config."""
    scope, profile = WHOLE, None if config.profile is None else config.profiles[config.profile]
    if config.user is not None and config.user.policy and config.user.policy != config.policy:
        scope = scope.narrowed(None, None, None, layer(config.user.policy, "user."))
    if profile is None:
        return scope
    rules = layer(profile.policy, "profile.") if profile.policy else None
    scope = scope.narrowed(None, profile.include or None, None, rules, profile.exclude)
    return scope.exposed(profile.expose, profile.always)


def _part(whole: Catalog, scope: Scope) -> Catalog:
    return Catalog(filter(scope.has, whole), instructions=scope.visible(whole.instructions))


def _matches(spec: ToolSpec, patterns: Sequence[str]) -> bool:
    origin = str(spec.origin)
    return any(fnmatchcase(spec.name, one) or fnmatchcase(origin, one) for one in patterns)


def is_own_resource(spec: ToolSpec) -> bool:
    """Whether it reads the resources of all servers, so it belongs to none."""
    return spec.route in ("toolbus/list_resources", "resources/read") and spec.origin.server == OWN
