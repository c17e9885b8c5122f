"""The target of an operation, for the policy: a tool, resource or prompt of a server, or its request."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import OWN, Inventory, ToolSpec
from toolbus.core.values.skills import MANIFEST, file_uri
from toolbus.policy.layers import Layer, removal
from toolbus.policy.rules import PolicyTarget
from toolbus.shape.as_tools import prompt_name

_REQUESTS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_UNDECIDED = frozenset(
    {
        "tasks/get",
        "tasks/cancel",
        "resources/unsubscribe",
        "toolbus/read_result",
        "toolbus/list_resources",
        "toolbus/search_tools",
        "toolbus/search_functions",
    }
)
"""Operations without a policy decision: the bus's own, and operations that follow another one."""


def decides_nothing(route: str) -> bool:
    """Whether nobody decides about operations of that route."""
    return route in _UNDECIDED


def other_target(operation: Operation) -> PolicyTarget:
    """The target of an operation that is not a tool call."""
    spec, server = operation.spec, str(operation.server)
    if (request := _REQUESTS.get(spec.route)) is not None:
        return PolicyTarget(kind="request", server=server, name=request)
    match spec.route:
        case "resources/read":
            return PolicyTarget(kind="resource", server=server, name=str(operation.arguments.get("uri")))
        case "toolbus/read_skill":  # of a skill, a file is a resource
            given = operation.arguments
            uri = file_uri(str(given.get("uri")), str(given.get("file") or MANIFEST))
            return PolicyTarget(kind="resource", server=server, name=uri)
        case "resources/subscribe":
            return PolicyTarget(kind="resource", server=server, name=spec.name)
        case "prompts/get":
            return PolicyTarget(kind="prompt", server=server, name=prompt_name(spec))
        case "completion/complete":
            is_template = operation.arguments.get("is_template")
            return PolicyTarget(kind="resource" if is_template else "prompt", server=server, name=spec.name)
        case _:  # a route that is not known here is not a way around the policy
            return PolicyTarget(kind="tool", server=server, name=spec.origin.tool)


def listed_target(spec: ToolSpec) -> PolicyTarget | None:
    """The target of every call of a tool in the catalog; None if it depends on the arguments."""
    server = spec.origin.server
    if spec.route == "tools/call":
        return PolicyTarget(kind="tool", server=server, name=spec.origin.tool, spec=spec)
    if spec.route == "prompts/get" and server != OWN:
        return PolicyTarget(kind="prompt", server=server, name=prompt_name(spec))
    return None


def is_removed(spec: ToolSpec, layers: Iterable[Layer]) -> bool:
    """Whether policies deny every call of a tool."""
    target = listed_target(spec)
    return target is not None and removal(layers, target) is not None


def offered(inventory: Inventory, layers: Sequence[Layer], *, prompts: bool = True) -> Inventory:
    """The inventory without the resources that policies deny, and without such `prompts`; all tools stay."""
    if not layers:
        return inventory

    def is_offered(target: PolicyTarget) -> bool:
        return removal(layers, target) is None

    return replace(
        inventory,
        resources=tuple(
            item
            for item in inventory.resources
            if is_offered(PolicyTarget(kind="resource", server=item.server, name=item.uri))
        ),
        templates=tuple(
            item
            for item in inventory.templates
            if is_offered(PolicyTarget(kind="resource", server=item.server, name=item.uri_template))
        ),
        skills=tuple(
            item
            for item in inventory.skills
            if is_offered(PolicyTarget(kind="resource", server=item.server, name=item.uri))
        ),
        prompts=tuple(
            item
            for item in inventory.prompts
            if not prompts or is_offered(PolicyTarget(kind="prompt", server=item.server, name=item.name))
        ),
    )


def all_targets(server: str, inventory: Inventory, tools: Iterable[ToolSpec]) -> list[PolicyTarget]:
    """Everything that a server offers, and may request; `tools` have the hints that count."""
    return [
        *(PolicyTarget(kind="tool", server=server, name=tool.origin.tool, spec=tool) for tool in tools),
        *(PolicyTarget(kind="resource", server=server, name=item.uri) for item in inventory.resources),
        *(
            PolicyTarget(kind="resource", server=server, name=item.uri_template)
            for item in inventory.templates
        ),
        *(PolicyTarget(kind="resource", server=server, name=item.uri) for item in inventory.skills),
        *(PolicyTarget(kind="prompt", server=server, name=item.name) for item in inventory.prompts),
        *(PolicyTarget(kind="request", server=server, name=name) for name in _REQUESTS.values()),
    ]
