"""What the policy of a config means for the tools that its servers list."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbus.bus.shaping import Shaping
from toolbus.bus.targets import all_targets, listed_target
from toolbus.core.catalog import Catalog
from toolbus.core.records import Inventory, ToolSpec
from toolbus.policy.rules import DeadRule, Policy, Target

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import BusConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The tools that are denied whatever their arguments are, and those that may be asked about."""

    denied: tuple[ToolSpec, ...]
    asked: tuple[ToolSpec, ...]


def whole_catalog(config: "BusConfig", bus: "Toolbus") -> Catalog:
    """The tools of a bus, with those that its policy denies."""
    shaping = Shaping(config, ())
    return Catalog(shaping.tools(bus.inventories), shaping.own)


def effects(policy: Policy, tools: Iterable[ToolSpec]) -> Effects:
    """What the policy does to these tools."""
    targets = decided(tools)
    return Effects(
        denied=tuple(spec for spec, target in targets if policy.removes(target) is not None),
        asked=tuple(spec for spec, target in targets if policy.may_ask(target)),
    )


def decided(tools: Iterable[ToolSpec]) -> list[tuple[ToolSpec, Target]]:
    """The tools that the policy decides about, whatever their arguments name."""
    found = [(spec, listed_target(spec)) for spec in tools]
    return [(spec, target) for spec, target in found if target is not None]


def dead_rules(
    config: "BusConfig", policy: Policy, tools: Iterable[ToolSpec], listed: Mapping[str, Inventory]
) -> list[DeadRule]:
    """The rules without effect, as far as the listed servers show it."""
    # As a model gets them, because only then their hints count; others may be excluded.
    shaped = {spec.origin: spec for spec in tools}
    offered = {
        alias: all_targets(stock, alias, [shaped.get(tool.origin, tool) for tool in stock.tools])
        for alias, stock in listed.items()
    }
    # A disabled server is not listed; a rule about it waits for it.
    return policy.dead(offered, [*config.servers, *config.disabled])
