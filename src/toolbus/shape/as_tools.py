"""Resources and prompts as tools, for agents that know nothing else."""

from collections.abc import Iterable, Mapping

from toolbus.core.records import JSON, OWN, Inventory, Origin, Prompt, ToolSpec

SHOWN = 20
"""How many addresses a description names."""
_READS: dict[str, JSON] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
}
# No server names a tool so.
_PROMPT = "(prompt) "
_URI: dict[str, JSON] = {"type": "string", "description": "The address of the resource."}

LIST_RESOURCES = ToolSpec(
    name="list_resources",
    origin=Origin(OWN, "list_resources"),
    route="toolbus/list_resources",
    title="List resources",
    description="Lists what can be read with read_resource: addresses, names and templates, by server.",
    input_schema={
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "Only those of this server; all if left out."}
        },
        "additionalProperties": False,
    },
    annotations=_READS,
)
READ_RESOURCE = ToolSpec(
    name="read_resource",
    origin=Origin(OWN, "read_resource"),
    route="resources/read",
    title="Read a resource",
    description="Reads a resource of a server; list_resources tells what there is.",
    input_schema={
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "The server that has the resource."},
            "uri": _URI,
        },
        "required": ["server", "uri"],
        "additionalProperties": False,
    },
    annotations=_READS,
)


def reading_tools(inventories: Mapping[str, Inventory]) -> list[ToolSpec]:
    """One tool for each server that has resources, `mcp_<alias>_read_resource`."""
    return [
        ToolSpec(
            name=f"mcp_{alias}_read_resource",
            origin=Origin(alias, "(read resource)"),
            route="resources/read",
            title=f"Read a resource of {alias}",
            description=f"Reads a resource of the server {alias!r}.{_offer(stock)}",
            input_schema={
                "type": "object",
                "properties": {"uri": _URI},
                "required": ["uri"],
                "additionalProperties": False,
            },
            annotations=_READS,
        )
        for alias, stock in inventories.items()
        if stock.resources or stock.templates
    ]


def prompt_tools(inventories: Mapping[str, Inventory]) -> list[ToolSpec]:
    """One tool for each prompt, `mcp_<alias>_get_prompt_<name>`."""
    return [
        ToolSpec(
            name=f"mcp_{alias}_get_prompt_{prompt.name}",
            origin=Origin(alias, f"{_PROMPT}{prompt.name}"),
            route="prompts/get",
            title=prompt.title,
            description=prompt.description or f"The prompt {prompt.name!r} of the server {alias!r}.",
            input_schema=_arguments(prompt),
            annotations=_READS,
        )
        for alias, stock in inventories.items()
        # The first one of a name, as the server would take it.
        for prompt in {prompt.name: prompt for prompt in reversed(stock.prompts)}.values()
    ]


def prompt_of(spec: ToolSpec) -> str:
    """The server's own name of the prompt that a tool gets."""
    return spec.origin.tool.removeprefix(_PROMPT)


def _arguments(prompt: Prompt) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": {
            argument.name: {"type": "string", "description": argument.description}
            if argument.description
            else {"type": "string"}
            for argument in prompt.arguments
        },
        "required": [argument.name for argument in prompt.arguments if argument.required],
        "additionalProperties": False,
    }


def _offer(stock: Inventory) -> str:
    """What there is to read, as far as it fits into a description."""
    fixed = [f"{item.uri} ({item.name})" for item in stock.resources]
    patterns = [f"{item.uri_template} ({item.name})" for item in stock.templates]
    found = [*fixed, *patterns]
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f" It has {', '.join(found[:SHOWN])}{more}."


def listing(inventories: Mapping[str, Inventory], servers: Iterable[str]) -> dict[str, JSON]:
    """What `list_resources` gives."""
    return {
        alias: {
            "resources": [
                _without_none(uri=item.uri, name=item.name, about=item.description, type=item.mime_type)
                for item in inventories[alias].resources
            ],
            "templates": [
                _without_none(uri=item.uri_template, name=item.name, about=item.description)
                for item in inventories[alias].templates
            ],
        }
        for alias in servers
    }


def _without_none(**facts: str | None) -> dict[str, JSON]:
    return {name: fact for name, fact in facts.items() if fact}
