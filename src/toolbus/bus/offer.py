"""What the policies leave of what the servers offer: for the catalog, the lists, and each view."""

from collections.abc import Callable, Mapping, Sequence

from toolbus.bus.policing import Policing
from toolbus.bus.targets import all_targets, is_removed, offered
from toolbus.core.operation import Operation
from toolbus.core.records import Inventory, ToolSpec
from toolbus.policy.dead import DeadRule
from toolbus.policy.layers import Layer, layers_of


class Offer:
    """The part of the inventories that the policies do not deny."""

    def __init__(
        self, policing: Policing, inventories: Callable[[], Mapping[str, Inventory]], *, warns: bool
    ) -> None:
        """`warns`: about rules without effect; the bus does, its users do not."""
        self._policing = policing
        self._inventories = inventories
        self._warns = warns
        self._tools: Sequence[ToolSpec] = ()
        """All tools of the last catalog, denied or not."""

    def inventories(self, policies: Sequence[Layer] = (), *, prompts: bool = True) -> dict[str, Inventory]:
        """What each server offers, without the resources and `prompts` that policies deny; all tools stay.

        They are the policies of the bus and those of views.
        """
        layers = self._layers(policies)
        return {
            alias: offered(inventory, layers, prompts=prompts)
            for alias, inventory in self._inventories().items()
        }

    def listed(self, operation: Operation) -> dict[str, Inventory]:
        """What an operation may list."""
        return self.inventories(layers_of(operation.policies))

    def removes(self, spec: ToolSpec, /) -> bool:
        """Whether the policy of the bus denies every call of a tool."""
        return is_removed(spec, self._layers(()))

    def warnings(self, tools: Sequence[ToolSpec], /) -> list[str]:
        """Warnings about rules without effect, given all tools."""
        self._tools = tools
        return [str(dead) for dead in self.dead_rules()] if self._warns else []

    def dead_rules(self) -> list[DeadRule]:
        """The rules that match nothing of what the servers offer, as far as these are listed."""
        policy = self._policing.now.layer.policy
        if not policy.rules:
            return []
        inventories = self._inventories()
        shaped = {spec.origin: spec for spec in self._tools if spec.route == "tools/call"}
        found = {
            alias: all_targets(alias, inventory, [shaped.get(tool.origin, tool) for tool in inventory.tools])
            for alias, inventory in inventories.items()
            if inventory != _NOTHING
        }
        return policy.dead(found, inventories)

    def _layers(self, policies: Sequence[Layer]) -> tuple[Layer, ...]:
        own = self._policing.now.layer
        return (own, *policies) if own.policy.rules else tuple(policies)


_NOTHING = Inventory()
