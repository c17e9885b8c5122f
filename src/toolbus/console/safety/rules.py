"""The policy of a bus for its page: effects and counts of its rules, and tried decisions; no HTML."""

import asyncio
import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from toolbus.bus.inner import calls_of, tenant_of
from toolbus.bus.rules.effects import RuleFacts, decided, effects, rule_facts, whole_catalog
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig
from toolbus.config.settings.policy import REQUESTS, Action, PolicyRule
from toolbus.core.collector import paused_collector
from toolbus.core.operation.operation import Caller, Operation, request_spec
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import ServerNotFound, ToolbusError
from toolbus.core.values.records import JSON, Inventory, ToolSpec
from toolbus.policy.guard import Foreseen
from toolbus.policy.layers import Layer
from toolbus.policy.rules import ExplainedStep, Policy

TargetKind: TypeAlias = Literal["tool", "resource", "prompt", "request"]
_ROUTES: Mapping[str, str] = {"resource": "resources/read", "prompt": "prompts/get"}
_REQUEST_ROUTES: Mapping[str, str] = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
_READY = "ready"


class NotTried(ToolbusError):
    """The input does not name a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCall:
    """A call that nobody makes, to see what would be decided about it."""

    kind: TargetKind
    name: str
    """A tool's public name, or `server/name`."""
    arguments: str
    """JSON, as a person typed it; empty if they are not known."""
    view: str = ""
    """A view of the gateway, whose rules decide in addition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedDecision:
    """The decision about a tried call, and the reasons."""

    target: str
    """`server/name`, as rules name it."""
    action: Action
    label: str | None
    """The rule that decides; None if no rule matches."""
    reason: str
    settled: str
    """The lasting answer that decides instead of a person; empty without one."""
    depends: bool
    """Whether arguments that are not known may lead to another decision."""
    steps: Sequence[tuple[str, ExplainedStep]]
    """The rules with their labels, up to the one that ends the search."""
    held: str
    """The reason why the lock holds the tool; empty if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOverview:
    """The rules of a bus, and what they do to the tools that are listed."""

    rules: Sequence[RuleFacts]
    tools: int
    denied: int
    asked: int
    down: tuple[str, ...]
    """Servers whose tools are not counted."""


class RulesOfBus:
    """The rules of a bus; their effects are computed in a thread, and only after a change."""

    def __init__(self, bus: Toolbus) -> None:
        self._bus = bus
        self.counts = tenant_of(bus).engine.enforcement.count_decisions()
        self._computing = asyncio.Lock()
        self._known: tuple[BusConfig, dict[str, Inventory], Catalog, PolicyOverview] | None = None

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        return self._bus.policy.rules

    @property
    def views(self) -> Mapping[str, tuple[PolicyRule, ...]]:
        """The rules of the gateway's views, by name."""
        serve = self._bus.config.serve
        return {} if serve is None else {name: view.policy for name, view in serve.views.items()}

    async def overview(self) -> PolicyOverview:
        return (await self._whole())[1]

    async def decide(self, call: TriedCall) -> TriedDecision:
        """Foresee the decision about a call: nobody is asked, and nothing is called, counted or recorded.

        `ToolbusError` if it names no call.
        """
        catalog, _ = await self._whole()
        given = _arguments(call.arguments)
        operation = self._operation(call, catalog, given)
        found = tenant_of(self._bus).guard.foreseen(operation)
        if found is None:
            raise NotTried(f"{call.name!r} is part of toolbus, and always allowed")
        return self._decision(found, operation, given is not None or call.kind == "resource")

    def _decision(self, found: Foreseen, operation: Operation, is_known: bool) -> TriedDecision:
        target, ruling = found.target, found.rulings[0]
        layers = [Layer(self.rules), *cast("tuple[Layer, ...]", operation.policies)]
        steps = [
            (f"{layer.prefix}{step.label}", step)
            for layer in layers
            for step in Policy(layer.policy.rules).explain(target, operation.arguments if is_known else None)
        ]
        open_steps = [step for _, step in steps if step.matched is None]
        held = self._bus.held.get(f"{target.server}/{target.name}") if target.kind == "tool" else None
        return TriedDecision(
            target=f"{target.server}/{target.name}",
            action=found.action,
            label=ruling.label,
            reason=ruling.verdict.reason,
            settled="" if found.settled is None else found.settled.by,
            depends=bool(open_steps),
            steps=steps,
            held="" if held is None else held.change,
        )

    def _operation(self, call: TriedCall, catalog: Catalog, given: Mapping[str, JSON] | None) -> Operation:
        rules = self.views.get(call.view, ())
        policies = (Layer(rules, "view."),) if rules else ()
        spec, arguments = self._spec(call, catalog), dict(given or {})
        if call.kind == "tool" and given is not None:
            arguments = dict(spec.to_server(arguments))
        if call.kind == "resource":
            arguments = {"uri": spec.origin.tool}
        return Operation(spec=spec, arguments=arguments, caller=Caller(face="console"), policies=policies)

    def _spec(self, call: TriedCall, catalog: Catalog) -> ToolSpec:
        if call.kind == "tool":
            if (spec := catalog.get(call.name)) is not None:
                return spec
            whole = [str(one.origin) if "/" in call.name else one.name for one in catalog]
            raise calls_of(self._bus).missing(call.name, whole)
        servers = list(self._bus.config.servers)
        alias = next((one for one in servers if call.name.startswith(f"{one}/")), None)
        if alias is None:
            raise ServerNotFound(call.name.partition("/")[0], servers)
        name = call.name.removeprefix(f"{alias}/")
        route = _REQUEST_ROUTES.get(name) if call.kind == "request" else _ROUTES[call.kind]
        if route is None:
            raise NotTried(f"a server asks for {', '.join(REQUESTS)}, not {name!r}")
        return request_spec(route, alias, name)

    async def _whole(self) -> tuple[Catalog, PolicyOverview]:
        """All tools, those that the policy denies included, and what the rules do to them."""
        bus = self._bus
        async with self._computing:
            config, statuses = bus.config, bus.servers  # which are computed for each reader
            listed = {alias: one for alias, one in bus.inventories.items() if statuses[alias].state == _READY}
            known = self._known
            if known is None or known[0] is not config or not _same(known[1], listed):
                catalog, overview = await asyncio.to_thread(_computed, config, bus, listed)
                self._known = known = config, listed, catalog, overview
            return known[2], known[3]


def _same(one: Mapping[str, Inventory], other: Mapping[str, Inventory]) -> bool:
    return one.keys() == other.keys() and all(one[alias] is other[alias] for alias in one)


def _computed(
    config: BusConfig, bus: Toolbus, listed: Mapping[str, Inventory]
) -> tuple[Catalog, PolicyOverview]:
    with paused_collector():
        catalog = whole_catalog(config, bus)
        found = effects(config, catalog, listed)
        gc.collect(0)  # in this thread, and not in the loop that goes on
    overview = PolicyOverview(
        rules=rule_facts(config, found, catalog),
        tools=len(decided(catalog)),
        denied=len(found.denied),
        asked=len(found.asked),
        down=tuple(alias for alias in config.servers if alias not in listed),
    )
    return catalog, overview


def _arguments(text: str) -> Mapping[str, JSON] | None:
    """The arguments that a person typed; None if they typed none."""
    if not text.strip():
        return None
    try:
        found: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = (
            f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise NotTried(f"the arguments are not JSON{f' ({where})' if where else ''}") from None
    if not isinstance(found, dict):
        raise NotTried('the arguments must be a JSON object, such as {"path": "x"}')
    return cast("Mapping[str, JSON]", found)
