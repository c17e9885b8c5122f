"""Resources and prompts as tools, for agents that only support tools."""

import re
from collections.abc import Iterable, Mapping

from toolbus.core.text.text import cleaned
from toolbus.core.values.records import (
    JSON,
    OWN,
    Block,
    Embedded,
    Inventory,
    Origin,
    Prompt,
    Resource,
    ResourceTemplate,
    Text,
    ToolSpec,
)
from toolbus.core.values.skills import MANIFEST, READ_SKILL, Skill, body_of

SHOWN = 20
"""The number of URIs that a description lists."""
_READ_ONLY: dict[str, JSON] = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
# No server gives a tool such a name.
_PROMPT = "(prompt) "
_URI: dict[str, JSON] = {"type": "string", "description": "The URI of the resource."}

LIST_RESOURCES = ToolSpec(
    name="list_resources",
    origin=Origin(OWN, "list_resources"),
    route="toolbus/list_resources",
    title="List resources",
    description="Lists the resources that read_resource can read: URIs, names and templates, by server.",
    input_schema={
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "List only this server; all servers if omitted."}
        },
        "additionalProperties": False,
    },
    annotations=_READ_ONLY,
    trusted=True,
)
READ_RESOURCE = ToolSpec(
    name="read_resource",
    origin=Origin(OWN, "read_resource"),
    route="resources/read",
    title="Read a resource",
    description="Reads a resource of a server; list_resources lists them.",
    input_schema={
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "The server that has the resource."},
            "uri": _URI,
        },
        "required": ["server", "uri"],
        "additionalProperties": False,
    },
    annotations=_READ_ONLY,
)


def resource_tools(inventories: Mapping[str, Inventory]) -> list[ToolSpec]:
    """One tool for each server that has resources, `mcp_<alias>_read_resource`."""
    return [
        ToolSpec(
            name=f"mcp_{alias}_read_resource",
            origin=Origin(alias, "(read resource)"),
            route="resources/read",
            title=f"Read a resource of {alias}",
            description=f"Reads a resource of the server {alias!r}.{_available(inventory)}",
            input_schema={
                "type": "object",
                "properties": {"uri": _URI},
                "required": ["uri"],
                "additionalProperties": False,
            },
            annotations=_READ_ONLY,
        )
        for alias, inventory in inventories.items()
        if _readable(inventory)
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
            annotations=_READ_ONLY,
        )
        for alias, inventory in inventories.items()
        # The first one of each name, as the server would choose.
        for prompt in {prompt.name: prompt for prompt in reversed(inventory.prompts)}.values()
    ]


def hidden_uris(inventory: Inventory) -> int:
    """The number of resources and templates that a model cannot name: their URIs have hidden characters."""
    return len(inventory.resources) + len(inventory.templates) - len(_readable(inventory))


def prompt_name(spec: ToolSpec) -> str:
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


def _available(inventory: Inventory) -> str:
    """The resources, as many as a description can list."""
    found = [f"{uri} ({item.name})" for uri, item in _readable(inventory)]
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f" It has {', '.join(found[:SHOWN])}{more}."


def resource_list(inventories: Mapping[str, Inventory], servers: Iterable[str]) -> dict[str, JSON]:
    return {
        alias: {
            "resources": [
                _without_empty(uri=uri, name=item.name, about=item.description, type=item.mime_type)
                for uri, item in _readable(inventories[alias])
                if isinstance(item, Resource)
            ],
            "templates": [
                _without_empty(uri=uri, name=item.name, about=item.description)
                for uri, item in _readable(inventories[alias])
                if isinstance(item, ResourceTemplate)
            ],
        }
        for alias in servers
    }


def _readable(inventory: Inventory) -> list[tuple[str, Resource | ResourceTemplate]]:
    """The resources and templates that a model can name, by URI or template."""
    found: list[tuple[str, Resource | ResourceTemplate]] = [(item.uri, item) for item in inventory.resources]
    found += [(item.uri_template, item) for item in inventory.templates]
    return [(uri, item) for uri, item in found if cleaned(uri) is uri]


def _without_empty(**facts: str | None) -> dict[str, JSON]:
    return {name: fact for name, fact in facts.items() if fact}


SHOWN_SKILLS = 50
"""The number of skills that a description lists."""
LONGEST = 500
"""Characters of each skill's description."""
SHOWN_FILES = 100
_CLOSING = re.compile(r"</(?=skill\s*>)", re.IGNORECASE)


def skill_tools(inventories: Mapping[str, Inventory]) -> list[ToolSpec]:
    """One tool for each server that has skills, `mcp_<alias>_load_skill`."""
    return [
        ToolSpec(
            name=f"mcp_{alias}_load_skill",
            origin=Origin(alias, "(load skill)"),
            route=READ_SKILL,
            title=f"Load a skill of {alias}",
            description=(
                f"Loads a skill: instructions of the server {alias!r} for a task. They are not the user's. "
                f"Load the one that fits before you begin.{_listed(inventory.skills)}"
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "uri": {"type": "string", "description": "The URI of the skill."},
                    "file": {
                        "type": "string",
                        "description": "To read another file of a loaded skill: its path within the skill.",
                    },
                },
                "required": ["uri"],
                "additionalProperties": False,
            },
            annotations=_READ_ONLY,
        )
        for alias, inventory in inventories.items()
        if inventory.skills
    ]


def skill_blocks(skill: Skill, path: str, content: Embedded) -> tuple[Block, ...]:
    """A file of a skill for a model: between tags that it cannot forge, with its origin."""
    file = "" if path == MANIFEST else f' file="{path}"'
    head = f'<skill server="{skill.server}" uri="{skill.uri}"{file}>'
    if content.text is None:
        return (Text(text=f"{head} (binary)</skill>"), content)
    text = body_of(content.text) if path == MANIFEST else content.text
    text = _CLOSING.sub(r"<\\/", cleaned(text).rstrip())
    return (Text(text=f"{head}\n{text}\n</skill>{_files(skill) if path == MANIFEST else ''}"),)


def _listed(skills: tuple[Skill, ...]) -> str:
    lines = [f"\n- {skill.uri}: {_short(skill.description)}" for skill in skills[:SHOWN_SKILLS]]
    more = f"\n(and {len(skills) - SHOWN_SKILLS} more)" if len(skills) > SHOWN_SKILLS else ""
    return f" Skills:{''.join(lines)}{more}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _files(skill: Skill) -> str:
    paths = [path for path in skill.paths if path != MANIFEST]
    if not paths:
        return ""
    more = f", and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    return f"\nOther files of this skill, to be read with `file`: {', '.join(paths[:SHOWN_FILES])}{more}"
