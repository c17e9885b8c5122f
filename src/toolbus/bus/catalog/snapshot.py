"""A snapshot: all that follows from what servers offer, the lock, the config and the policy of the bus.

It is a function of `SnapshotInputs` alone. Tenants with equal inputs share one, and what views make of it is
remembered by its memo, which ends with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from weakref import WeakValueDictionary

from toolbus.bus.catalog.shaping import CatalogShaper
from toolbus.bus.rules.lock import LockApprovals
from toolbus.bus.rules.targets import all_targets, is_removed, offered
from toolbus.call.result_store import READ_RESULT
from toolbus.core.collector import paused_collector
from toolbus.core.values.catalog import Catalog, Memo, Same
from toolbus.core.values.records import Inventory, Origin, Quarantined, ToolSpec
from toolbus.lock.definitions import any_digest, prompt_definition, tool_definition
from toolbus.policy.dead import DeadRule
from toolbus.policy.layers import Layer
from toolbus.policy.rules import PolicyTarget

_NOTHING = Inventory()
_PER_TOOL = 50_000
"""Values of one kind that are kept if there is one for each tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInputs:
    """Everything that a snapshot depends on."""

    shaping: Same[CatalogShaper]
    """The config and the shapers of the program: made once for each config."""
    approvals: Same[LockApprovals]
    """The approvals of the lockfile, read once for each config."""
    listed: tuple[tuple[str, Same[Inventory]], ...]
    """The inventory of each server, approved or not."""
    policy: Layer | None
    """The policy of the bus; None if it has no rules."""
    keeps_results: bool
    """Whether `read_result` is in the catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedCatalog:
    """The catalog of a snapshot, and the tools that are not in it."""

    catalog: Catalog
    removed: Catalog = field(default_factory=Catalog)
    """The tools that the policy denies, by the names that they would have."""
    tools: Sequence[ToolSpec] = ()
    """All tools, denied or not."""
    quarantined: Mapping[str, Sequence[Quarantined]] = field(default_factory=dict[str, list[Quarantined]])
    """The tools that were left out, with the reasons."""
    warnings: Sequence[tuple[str, str | None, str]] = ()
    """Problems of the definitions: server, tool if it is about one, and the message."""
    _memo: Memo = field(default_factory=Memo)

    def known(self, name: str) -> ToolSpec | None:
        """The tool of that public name or `server/tool`, denied or not."""
        return self.catalog.get(name) or self.removed.get(name)

    def target(self, origin: Origin) -> PolicyTarget | None:
        """The target of the calls of a tool, with its hints as they are now; None if it is not known."""
        return self._memo(_target, self, (origin.server, origin.tool), _PER_TOOL)


def _target(shaped: ShapedCatalog, tool: tuple[str, str]) -> PolicyTarget | None:
    server, name = tool
    spec = shaped.known(f"{server}/{name}")
    return None if spec is None else PolicyTarget(kind="tool", server=server, name=name, spec=spec)


class BusSnapshot:
    """The offers of some servers, as far as the lock and the policy of the bus allow them."""

    def __init__(self, inputs: SnapshotInputs) -> None:
        self.inputs = inputs
        self._memo = Memo()
        self.shaping, self.approvals = inputs.shaping.value, inputs.approvals.value
        self.listed = {alias: inventory.value for alias, inventory in inputs.listed}
        """The inventory of each server, approved or not."""
        self.inventories = {alias: self.approvals.approved(alias, one) for alias, one in self.listed.items()}
        """The inventories as far as the lock allows them; before a server is listed, its approved tools."""
        self.held = self.approvals.held(self.listed)
        """The differences that the lock holds, by `server/tool`."""

    @cached_property
    def shown(self) -> Mapping[str, Inventory]:
        """The inventories without the resources that the policy of the bus denies; prompts stay.

        Which tools there are must not depend on what is denied, because it would change their names.
        """
        policy = self.inputs.policy
        if policy is None:
            return self.inventories
        return {alias: offered(one, (policy,), prompts=False) for alias, one in self.inventories.items()}

    @cached_property
    def shaped(self) -> ShapedCatalog:
        """The catalog; `ShaperFailed` if a shaper is broken."""
        policy, quarantined = self.inputs.policy, dict[str, list[Quarantined]]()
        own = [*([READ_RESULT] if self.inputs.keeps_results else []), *self.shaping.own]
        with paused_collector():
            tools = kept = self.shaping.tools(self.shown, quarantined)
            removed = [] if policy is None else [spec for spec in tools if is_removed(spec, (policy,))]
            if removed:
                denied = {spec.name for spec in removed}
                kept = [spec for spec in tools if spec.name not in denied]
            catalog = Catalog(kept, own, self.instructions)
        warnings = tuple(self.shaping.warnings(self.shown, catalog.specs, quarantined))
        return ShapedCatalog(
            catalog=catalog,
            removed=Catalog(removed),
            tools=tools,
            quarantined=quarantined,
            warnings=warnings,
        )

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of the servers that have some, by alias."""
        return self.shaping.instructions(self.shown)

    @cached_property
    def unreviewed(self) -> dict[str, Inventory]:
        """The inventories, approved or not; before a server is listed, its approved tools."""
        reviewers = self.approvals.reviewers
        return {
            alias: reviewers[alias].known if one == _NOTHING and alias in reviewers else one
            for alias, one in self.listed.items()
        }

    def offered(self, policies: tuple[Layer, ...]) -> Mapping[str, Inventory]:
        """The inventories without the resources and prompts that policies deny; all tools stay.

        The policy of the bus counts in addition to `policies`, which are of views.
        """
        own = self.inputs.policy
        layers = policies if own is None else (own, *policies)
        return self._memo(_offered, self, layers) if layers else self.inventories

    def digest(self, kind: str, server: str, name: str) -> str | None:
        """The digest of a definition as in the lockfile, before anything was renamed or cut; None if unknown.

        `kind` is "tool" or "prompt", and the name is the server's own.
        """
        if name not in self._memo(_names, self, (kind, server), _PER_TOOL):
            return None  # not remembered: a client may ask for any name
        return self._memo(_digest, self, (kind, server, name), _PER_TOOL)

    def dead_rules(self, use: "RuleUse") -> Sequence[DeadRule]:
        """The rules that match nothing of what the servers offer, as far as these are listed."""
        return self._memo(_dead_rules, self, use)


def _offered(snapshot: BusSnapshot, layers: tuple[Layer, ...]) -> Mapping[str, Inventory]:
    return {alias: offered(one, layers) for alias, one in snapshot.inventories.items()}


def _names(snapshot: BusSnapshot, part: tuple[str, str]) -> frozenset[str]:
    kind, server = part
    inventory = snapshot.inventories.get(server, _NOTHING)
    if kind == "tool":
        return frozenset(tool.origin.tool for tool in inventory.tools)
    return frozenset(prompt.name for prompt in inventory.prompts)


def _digest(snapshot: BusSnapshot, definition: tuple[str, str, str]) -> str | None:
    kind, server, name = definition
    inventory = snapshot.inventories.get(server, _NOTHING)
    found = (
        (tool_definition(tool) for tool in inventory.tools if tool.origin.tool == name)
        if kind == "tool"
        else (prompt_definition(prompt) for prompt in inventory.prompts if prompt.name == name)
    )
    return next((any_digest(one) for one in found), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUse:
    """A policy, and the tools that its rules are compared with to find rules that match nothing."""

    layer: Layer
    shaped: Same[ShapedCatalog]
    """The tools with the hints that count."""
    disabled: tuple[str, ...]
    """The aliases of disabled servers; a rule about one waits for it."""


def _dead_rules(snapshot: BusSnapshot, use: RuleUse) -> Sequence[DeadRule]:
    if not use.layer.policy.rules:
        return ()
    tools: Iterable[ToolSpec] = use.shaped.value.tools
    shaped = {spec.origin: spec for spec in tools if spec.route == "tools/call"}
    found = {
        alias: all_targets(alias, one, [shaped.get(tool.origin, tool) for tool in one.tools])
        for alias, one in snapshot.inventories.items()
        if one != _NOTHING
    }
    return use.layer.policy.dead(found, [*snapshot.inventories, *use.disabled])


def with_quarantined(
    inventories: Mapping[str, Inventory], quarantined: Mapping[str, Sequence[Quarantined]]
) -> dict[str, Inventory]:
    """The inventories, with the tools that were left out of the catalog as quarantined."""
    return {
        alias: replace(one, quarantined=(*one.quarantined, *bad)) if (bad := quarantined.get(alias)) else one
        for alias, one in inventories.items()
    }


class Snapshots:
    """The snapshots in use, one for equal inputs. Can be used from any thread."""

    def __init__(self) -> None:
        # Weak: a snapshot is kept by the tenants that show it.
        self._used: WeakValueDictionary[SnapshotInputs, BusSnapshot] = WeakValueDictionary()
        self._lock = Lock()

    def of(self, inputs: SnapshotInputs) -> BusSnapshot:
        """The snapshot of these inputs."""
        with self._lock:
            known = self._used.get(inputs)
        if known is None:
            fresh = BusSnapshot(inputs)
            with self._lock:
                known = self._used.setdefault(inputs, fresh)
        return known
