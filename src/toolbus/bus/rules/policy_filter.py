"""The parts of the inventories that no policy denies: for the catalog, the lists and each view."""

from collections.abc import Callable, Mapping, Sequence

from toolbus.bus.rules.enforcement import Enforcement
from toolbus.bus.rules.targets import all_targets, is_removed, offered
from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import Inventory, ToolSpec
from toolbus.policy.dead import DeadRule
from toolbus.policy.layers import Layer, layers_of
from toolbus.policy.rules import Policy


class PolicyFilter:
    """The part of the inventories that the policies do not deny."""

    def __init__(
        self, enforcement: Enforcement, inventories: Callable[[], Mapping[str, Inventory]], *, warns: bool
    ) -> None:
        """`warns`: about rules without effect; the bus does, its users do not."""
        self._enforcement = enforcement
        self._inventories = inventories
        self._warns = warns
        self._tools: Sequence[ToolSpec] = ()
        """All tools of the last catalog, denied or not."""
        self._known: dict[tuple[str, bool], tuple[Inventory, tuple[Layer, ...], Inventory]] = {}
        """What was last left of an inventory, and by which policies."""
        self._compared: dict[str, tuple[Sequence[ToolSpec], list[DeadRule]]] = {}
        """The rules of views without effect, by the digest of the policy, for the tools at that time."""

    def inventories(self, policies: Sequence[Layer] = (), *, prompts: bool = True) -> dict[str, Inventory]:
        """What each server offers, without the resources and `prompts` that policies deny; all tools stay.

        They are the policies of the bus and those of views.
        """
        layers = self._layers(policies)
        inventories = self._inventories()
        if not layers:
            return dict(inventories)
        return {
            alias: self._offered(alias, inventory, layers, prompts=prompts)
            for alias, inventory in inventories.items()
        }

    def _offered(
        self, alias: str, inventory: Inventory, layers: tuple[Layer, ...], *, prompts: bool
    ) -> Inventory:
        known = self._known.get((alias, prompts))
        if known is None or known[0] is not inventory or known[1] != layers:
            known = inventory, layers, offered(inventory, layers, prompts=prompts)
            self._known[alias, prompts] = known
        return known[2]

    def listed(self, operation: Operation) -> dict[str, Inventory]:
        """What an operation may list."""
        return self.inventories(layers_of(operation.policies))

    def removes(self, spec: ToolSpec, /) -> bool:
        """Whether the policy of the bus denies every call of a tool."""
        layers = self._layers(())
        return bool(layers) and is_removed(spec, layers)

    def warnings(self, tools: Sequence[ToolSpec], /) -> list[str]:
        """Warnings about rules without effect, given all tools."""
        self._tools = tools
        return [str(dead) for dead in self.dead_rules()] if self._warns else []

    def warnings_of_view(self, layer: Layer) -> list[str]:
        """As `warnings`, for the rules of a view; programs may make many views with the same rules."""
        content = layer.content
        known = self._compared.get(content)
        if known is None or known[0] is not self._tools:
            if len(self._compared) > _MOST_COMPARED:
                self._compared.clear()
            known = self._compared[content] = self._tools, self.dead_rules(layer.policy)
        return [f"{layer.prefix}{one}" for one in known[1]]

    def dead_rules(self, policy: Policy | None = None) -> list[DeadRule]:
        """The rules that match nothing of what the servers offer, as far as these are listed."""
        policy = self._enforcement.now.layer.policy if policy is None else policy
        if not policy.rules:
            return []
        inventories = self._inventories()
        shaped = {spec.origin: spec for spec in self._tools if spec.route == "tools/call"}
        found = {
            alias: all_targets(alias, inventory, [shaped.get(tool.origin, tool) for tool in inventory.tools])
            for alias, inventory in inventories.items()
            if inventory != _NOTHING
        }
        return policy.dead(found, [*inventories, *self._enforcement.disabled])

    def _layers(self, policies: Sequence[Layer]) -> tuple[Layer, ...]:
        own = self._enforcement.now.layer
        return (own, *policies) if own.policy.rules else tuple(policies)


_NOTHING = Inventory()
_MOST_COMPARED = 1_000
