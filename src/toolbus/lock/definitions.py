"""The definitions that are locked: JSON from the records of a server's inventory, and records from JSON.

A definition has everything that a model or a host acts on, as the server sent it. Its digest does not
depend on the order of keys or sets, on white space in texts, or on metadata that nobody acts on. The only
relevant members of `_meta` are `ui`, `ui/visibility`, `ui/resourceUri` and the digest of a script.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

from toolbus.config.script_tools.files import DIGEST
from toolbus.config.settings.limits import ServerLimits
from toolbus.core.text.canonical import digest, digest_of
from toolbus.core.values.apps import FLAT_URI, FLAT_VISIBILITY
from toolbus.core.values.records import (
    JSON,
    Inventory,
    JSONObject,
    Prompt,
    PromptArgument,
    Quarantined,
    ResourceTemplate,
    ToolSpec,
)
from toolbus.core.values.skills import InvalidSkill, Skill, entry_of, skill_of
from toolbus.core.values.tool_definition import tool_spec
from toolbus.schema.values import entries_of, is_array, is_object, items_of

Kind: TypeAlias = Literal["tools", "prompts", "templates", "skills"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "templates", "skills")
_SETS = ("required", "enum", "type")
"""Keywords of JSON Schema whose list is a set."""
_TEXTS = ("title", "description")
_VALUES = ("default", "const", "examples", "example")
"""Keywords whose value is data, in which every order counts."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""Keywords whose value maps names to schemas."""


def tool_definition(tool: ToolSpec) -> dict[str, JSON]:
    """The definition of a tool that was not shaped yet."""
    return _present(
        name=tool.origin.tool,
        title=tool.title,
        description=tool.description,
        inputSchema=tool.input_schema,
        outputSchema=tool.output_schema,
        annotations=tool.annotations,
        **tool.extras,
        _meta=tool.meta,
    )


def prompt_definition(prompt: Prompt) -> dict[str, JSON]:
    arguments = [
        _present(name=argument.name, description=argument.description, required=argument.required)
        for argument in prompt.arguments
    ]
    return _present(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def template_definition(template: ResourceTemplate) -> dict[str, JSON]:
    return _present(
        uriTemplate=template.uri_template,
        name=template.name,
        title=template.title,
        description=template.description,
        mimeType=template.mime_type,
    )


def definitions(inventory: Inventory) -> dict[Kind, dict[str, dict[str, JSON]]]:
    """The definitions of everything that a server offers, by kind and by its own name."""
    return {
        "tools": {tool.origin.tool: tool_definition(tool) for tool in inventory.tools},
        "prompts": {prompt.name: prompt_definition(prompt) for prompt in inventory.prompts},
        "templates": {item.uri_template: template_definition(item) for item in inventory.templates},
        "skills": {skill.uri: entry_of(skill) for skill in inventory.skills},
    }


def definition_digest(definition: JSONObject) -> str:
    """The digest of a definition; `NotCanonical` if it has none."""
    return digest(_normalized(definition))


def any_digest(definition: JSONObject) -> str:
    """Like `definition_digest`, but even for a definition that no lockfile can have."""
    return digest_of(_normalized(definition))


def text_digest(text: str) -> str:
    """The digest of a text, white space aside."""
    return digest(folded(text))


def encodable(text: str) -> str:
    """The text without lone surrogates, which are not text."""
    return text.encode(errors="replace").decode()


def changed_fields(old: JSONObject, new: JSONObject) -> tuple[str, ...]:
    """The names of the fields in which two definitions differ."""
    before, after = _normalized(old), _normalized(new)
    return tuple(name for name in sorted({*before, *after}) if _differ(before.get(name), after.get(name)))


def inventory_of(
    server: str, locked: Mapping[Kind, Mapping[str, JSONObject]], instructions: str, limits: ServerLimits
) -> Inventory:
    """The inventory of the server when it was locked."""
    longest, largest = limits.description, limits.schema_size
    records = [tool_spec(server, one, longest, largest) for one in locked["tools"].values()]
    return Inventory(
        tools=tuple(record for record in records if isinstance(record, ToolSpec)),
        quarantined=tuple(record for record in records if isinstance(record, Quarantined)),
        prompts=tuple(_prompt(server, definition) for definition in locked["prompts"].values()),
        templates=tuple(_template(server, definition) for definition in locked["templates"].values()),
        skills=tuple(_skills(server, locked["skills"].values())),
        instructions=instructions or None,
    )


def _skills(server: str, entries: Iterable[JSONObject]) -> Iterator[Skill]:
    for entry in entries:
        with suppress(InvalidSkill):  # by the rules of another version, then; its server's own is held
            yield skill_of(server, entry)


def unlockable(definition: JSONObject) -> str | None:
    """The reason why a definition with a digest cannot be locked; None if it can."""
    if definition.get("resources") == "dynamic":
        return "its files are generated when they are read, so their content cannot be locked"
    return None


def _prompt(server: str, definition: JSONObject) -> Prompt:
    arguments = (entries_of(argument) for argument in items_of(definition.get("arguments")))
    return Prompt(
        server=server,
        name=str(definition["name"]),
        title=definition.get("title"),
        description=str(definition.get("description", "")),
        arguments=tuple(
            PromptArgument(
                name=str(argument.get("name", "")),
                description=str(argument.get("description", "")),
                required=argument.get("required") is True,
            )
            for argument in arguments
        ),
    )


def _template(server: str, definition: JSONObject) -> ResourceTemplate:
    return ResourceTemplate(
        server=server,
        uri_template=str(definition["uriTemplate"]),
        name=str(definition.get("name", "")),
        title=definition.get("title"),
        description=str(definition.get("description", "")),
        mime_type=definition.get("mimeType"),
    )


def _present(**fields: JSON) -> dict[str, JSON]:
    """The fields that say something: the input schema of a tool always does."""
    return {name: value for name, value in fields.items() if value or name == "inputSchema"}


def locked_meta(meta: JSON) -> dict[str, JSON]:
    """The part of the `_meta` of a tool that a lock covers.

    Clients ignore the flat URI of a tool with `ui.resourceUri`.
    """
    given = entries_of(meta)
    keys = ["ui", FLAT_VISIBILITY, DIGEST]
    if "resourceUri" not in entries_of(given.get("ui")):
        keys.append(FLAT_URI)
    return {key: value for key, value in given.items() if key in keys}


def _normalized(definition: JSONObject) -> dict[str, JSON]:
    found = {name: _normalized_field(name, value) for name, value in definition.items()}
    if meta := locked_meta(found.pop("_meta", None)):
        found["_meta"] = meta
    return found


def _normalized_field(name: str, value: JSON) -> JSON:
    if name in ("inputSchema", "outputSchema"):
        return _normalized_schema(value)
    if name == "annotations":
        return _with_folded_texts(entries_of(value))
    if name == "arguments":  # of a prompt: they are passed by name
        folded_arguments = [_with_folded_texts(entries_of(argument)) for argument in items_of(value)]
        return sorted(folded_arguments, key=lambda argument: str(argument.get("name")))
    return folded(value) if name in _TEXTS and isinstance(value, str) else value


def _with_folded_texts(value: JSONObject) -> dict[str, JSON]:
    return {
        key: folded(item) if key in _TEXTS and isinstance(item, str) else item for key, item in value.items()
    }


def _normalized_schema(schema: JSON, *, is_schema: bool = True) -> JSON:
    """The schema with sets sorted and texts folded; without `is_schema`, a mapping of names to schemas."""
    if is_array(schema):
        return [_normalized_schema(item) for item in schema]
    if not is_object(schema):
        return schema
    result: dict[str, JSON] = {}
    for key, value in schema.items():
        if not is_schema:
            result[key] = _normalized_schema(value)
        elif key in _SETS and is_array(value):
            result[key] = _sorted_set(value)
        elif key in _TEXTS and isinstance(value, str):
            result[key] = folded(value)
        elif key in _VALUES:
            result[key] = value
        else:
            result[key] = _normalized_schema(value, is_schema=key not in _NAMED)
    return result


def _sorted_set(values: Iterable[JSON]) -> list[JSON]:
    return sorted(values, key=digest)


def folded(text: str) -> str:
    """The text with white space as single spaces."""
    return " ".join(text.split())


def _differ(a: JSON, b: JSON) -> bool:
    return (a is None) is not (b is None) or digest(a) != digest(b)
