"""What an operation is about, for the policy: a tool, a resource or a prompt of a server, or its request."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from toolbus.bus.catalog.live_catalog import LiveCatalog
from toolbus.bus.rules.definitions import Definitions
from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import OWN, Inventory, ToolSpec
from toolbus.core.values.skills import MANIFEST, file_uri
from toolbus.policy.layers import Layer, removal
from toolbus.policy.rules import Target
from toolbus.shape import prompt_name

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
"""Operations that nobody decides about: those of the bus itself, and those that follow another one."""


class Targets:
    """The targets of operations, with the tools as the catalog has them now."""

    def __init__(self, catalog: LiveCatalog, definitions: Definitions) -> None:
        self._catalog = catalog
        self._definitions = definitions
        self._version = -1
        self._tools: dict[tuple[str, str], Target] = {}

    def target(self, operation: Operation, /) -> Target | None:
        """The target of an operation; None if nobody decides about it."""
        spec = operation.spec
        if spec.route == "tools/call":
            return self._tool(spec)
        return None if spec.route in _UNDECIDED else _other(operation)

    def definition(self, target: Target, /) -> str | None:
        """The digest of the definition of a tool or a prompt, as in the lockfile."""
        match target.kind:
            case "tool":
                return self._definitions.tool(target.server, target.name)
            case "prompt":
                return self._definitions.prompt(target.server, target.name)
            case "resource" | "request":
                return None

    def _tool(self, spec: ToolSpec) -> Target:
        catalog = self._catalog
        now = catalog.now  # first: it may be outdated
        if self._version != catalog.version:
            self._tools, self._version = {}, catalog.version
        origin = spec.origin
        key = origin.server, origin.tool  # not the origin itself, whose hash is slow
        found = self._tools.get(key)
        if found is None:
            # Not the given one, which may be of a `Tool` that is older than the tool's hints.
            known = now.get(str(origin)) or catalog.removed.get(str(origin)) or spec
            found = Target(kind="tool", server=origin.server, name=origin.tool, spec=known)
            self._tools[key] = found
        return found


def _other(operation: Operation) -> Target:
    spec, server = operation.spec, str(operation.server)
    if (request := _REQUESTS.get(spec.route)) is not None:
        return Target(kind="request", server=server, name=request)
    match spec.route:
        case "resources/read":
            return Target(kind="resource", server=server, name=str(operation.arguments.get("uri")))
        case "toolbus/read_skill":  # of a skill, a file is a resource
            given = operation.arguments
            uri = file_uri(str(given.get("uri")), str(given.get("file") or MANIFEST))
            return Target(kind="resource", server=server, name=uri)
        case "resources/subscribe":
            return Target(kind="resource", server=server, name=spec.name)
        case "prompts/get":
            return Target(kind="prompt", server=server, name=prompt_name(spec))
        case "completion/complete":
            is_template = operation.arguments.get("is_template")
            return Target(kind="resource" if is_template else "prompt", server=server, name=spec.name)
        case _:  # a route that is not known here is not a way around the policy
            return Target(kind="tool", server=server, name=spec.origin.tool)


def listed_target(spec: ToolSpec) -> Target | None:
    """The target of every call of a tool in the catalog; None if it depends on the arguments."""
    server = spec.origin.server
    if spec.route == "tools/call":
        return Target(kind="tool", server=server, name=spec.origin.tool, spec=spec)
    if spec.route == "prompts/get" and server != OWN:
        return Target(kind="prompt", server=server, name=prompt_name(spec))
    return None


def is_removed(spec: ToolSpec, layers: Iterable[Layer]) -> bool:
    """Whether policies deny every call of a tool."""
    target = listed_target(spec)
    return target is not None and removal(layers, target) is not None


def offered(inventory: Inventory, layers: Sequence[Layer], *, prompts: bool = True) -> Inventory:
    """The inventory without the resources that policies deny, and without such `prompts`; all tools stay."""
    if not layers:
        return inventory

    def is_offered(target: Target) -> bool:
        return removal(layers, target) is None

    return replace(
        inventory,
        resources=tuple(
            item
            for item in inventory.resources
            if is_offered(Target(kind="resource", server=item.server, name=item.uri))
        ),
        templates=tuple(
            item
            for item in inventory.templates
            if is_offered(Target(kind="resource", server=item.server, name=item.uri_template))
        ),
        skills=tuple(
            item
            for item in inventory.skills
            if is_offered(Target(kind="resource", server=item.server, name=item.uri))
        ),
        prompts=tuple(
            item
            for item in inventory.prompts
            if not prompts or is_offered(Target(kind="prompt", server=item.server, name=item.name))
        ),
    )


def all_targets(server: str, inventory: Inventory, tools: Iterable[ToolSpec]) -> list[Target]:
    """Everything that a server offers, and may request; `tools` have the hints that count."""
    return [
        *(Target(kind="tool", server=server, name=tool.origin.tool, spec=tool) for tool in tools),
        *(Target(kind="resource", server=server, name=item.uri) for item in inventory.resources),
        *(Target(kind="resource", server=server, name=item.uri_template) for item in inventory.templates),
        *(Target(kind="resource", server=server, name=item.uri) for item in inventory.skills),
        *(Target(kind="prompt", server=server, name=item.name) for item in inventory.prompts),
        *(Target(kind="request", server=server, name=name) for name in _REQUESTS.values()),
    ]
