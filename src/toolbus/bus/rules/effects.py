"""The effects of a policy on the tools that are listed, and its rules without effect."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbus.bus.catalog.shaping import CatalogShaper
from toolbus.bus.engine.stores import answers_of
from toolbus.bus.rules.targets import all_targets, listed_target
from toolbus.config import BusConfig
from toolbus.config.settings.policy import PolicyRule
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import Inventory, ToolSpec
from toolbus.lock.definitions import any_digest, definitions
from toolbus.policy.answers import rule_digest
from toolbus.policy.dead import DeadRule
from toolbus.policy.rules import Policy, PolicyTarget

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects of a policy on the tools that are listed."""

    denied: tuple[ToolSpec, ...]
    """Tools that are denied with any arguments."""
    asked: tuple[ToolSpec, ...]
    """Tools that a person may be asked about."""
    dead: tuple[DeadRule, ...]
    """The rules without effect."""
    answered: Mapping[str, str]
    """The stored answers, `always` or `never`, about tools that a rule asks about; by their public names."""


def whole_catalog(config: BusConfig, bus: "Toolbus") -> Catalog:
    """The tools of a bus, with those that its policy denies."""
    shaping = CatalogShaper(config, ())
    return Catalog(shaping.tools(bus.inventories), shaping.own)


def effects(config: BusConfig, catalog: Catalog, listed: Mapping[str, Inventory]) -> Effects:
    """The effects of a config's policy on the tools of the listed servers; `catalog` has all of them."""
    policy = Policy(config.policy)
    targets = decided(spec for spec in catalog if spec.origin.server in listed)
    return Effects(
        denied=tuple(spec for spec, target in targets if policy.removes(target) is not None),
        asked=tuple(spec for spec, target in targets if policy.may_ask(target)),
        dead=tuple(_dead_rules(config, policy, catalog, listed)),
        answered=_answered(config, policy, targets, listed),
    )


def _answered(
    config: BusConfig,
    policy: Policy,
    targets: Iterable[tuple[ToolSpec, PolicyTarget]],
    listed: Mapping[str, Inventory],
) -> dict[str, str]:
    try:
        answers = answers_of(config)
        stored = [] if answers is None else answers.all()
    except (OSError, ValueError, StoreError):  # they are not used
        return {}
    own = {(one.about.target, one.about.rule): one for one in stored if not one.about.user}
    found: dict[str, str] = {}
    for spec, target in targets if own else ():
        steps = policy.explain(target, None)
        asking = next((policy.rules[step.rule] for step in steps if step.decides), None)
        if target.kind != "tool" or asking is None or any(step.matched is None for step in steps):
            continue
        answer = own.get((f"{target.server}/{target.name}", rule_digest(asking)))
        if answer is None:
            continue
        definition = definitions(listed[target.server])["tools"].get(target.name)
        if definition is not None and any_digest(definition) == answer.about.definition:
            found[spec.name] = answer.answer
    return found


def warnings(config: BusConfig, bus: "Toolbus") -> list[str]:
    """Warnings about rules without effect, as far as the servers that are up show it; notes are left out."""
    if not config.policy:
        return []
    listed = {alias: stock for alias, stock in bus.inventories.items() if bus.servers[alias].state == "ready"}
    found = _dead_rules(config, Policy(config.policy), whole_catalog(config, bus), listed)
    return [f"warning: {dead}" for dead in found if not dead.is_note]


def decided(tools: Iterable[ToolSpec]) -> list[tuple[ToolSpec, PolicyTarget]]:
    """The tools that the policy decides about, regardless of their arguments."""
    found = [(spec, listed_target(spec)) for spec in tools]
    return [(spec, target) for spec, target in found if target is not None]


def _dead_rules(
    config: BusConfig, policy: Policy, tools: Iterable[ToolSpec], listed: Mapping[str, Inventory]
) -> list[DeadRule]:
    """The rules without effect, as far as the listed servers show it."""
    # As a model gets them, because only then their hints count; others may be excluded.
    shaped = {spec.origin: spec for spec in tools}
    offered = {
        alias: all_targets(alias, stock, [shaped.get(tool.origin, tool) for tool in stock.tools])
        for alias, stock in listed.items()
    }
    # A disabled server is not listed; a rule about it waits for it.
    return policy.dead(offered, [*config.servers, *config.disabled, *config.outside])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """A rule, and what it decides."""

    rule: PolicyRule
    decides: int
    """The number of listed tools it decides about, unless a rule before it matches their arguments."""
    depends: int
    """The number of further tools it decides about if their arguments match."""
    dead: Sequence[DeadRule]
    """The reasons why it has no effect."""


def rule_facts(config: BusConfig, found: Effects, catalog: Catalog) -> list[RuleFacts]:
    """Each rule of a config, and what it decides about the tools of a whole catalog."""
    policy, tools = Policy(config.policy), decided(catalog)
    steps = [step for _, target in tools for step in policy.explain(target, None)]
    return [
        RuleFacts(
            rule=rule,
            decides=sum(step.decides for step in steps if step.rule == index),
            depends=sum(step.matched is None for step in steps if step.rule == index),
            dead=[one for one in found.dead if one.rule == index],
        )
        for index, rule in enumerate(config.policy)
    ]
