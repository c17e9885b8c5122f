"""A tool's name, description and schema in a provider's words; a framework spells the rest itself."""

from dataclasses import dataclass
from typing import cast

from toolbus.bus.tool import Tool
from toolbus.core.records import JSON
from toolbus.shape import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: dict[str, JSON]
    options: dict[str, JSON]
    """What else is said to the provider: `strict`, `defer_loading`."""


def declared(tool: Tool, dialect: Dialect) -> Declared:
    """The three of them; a framework hands them to its provider nearly as they are."""
    definition = tool.definition(dialect)
    # Each provider has its own key for the same thing.
    function = cast(dict[str, JSON], definition.get("function", definition))
    keys = ("parameters", "input_schema", "inputSchema")
    nothing: dict[str, JSON] = {"type": "object", "properties": {}}
    told = {"type", "name", "description", *keys}
    return Declared(
        name=function["name"],
        description=function.get("description", ""),
        parameters=next((function[key] for key in keys if function.get(key)), nothing),
        options={key: value for key, value in function.items() if key not in told},
    )


def json_schema(schema: JSON) -> JSON:
    """A schema of Google's dialect as JSON Schema: null is a type there, not the keyword `nullable`."""
    if not isinstance(schema, dict):
        return schema
    node = cast(dict[str, JSON], schema)
    changed = {key: value for key, value in node.items() if key != "nullable"}
    takes_null = node.get("nullable") is True
    if "properties" in node:
        changed["properties"] = {name: json_schema(inner) for name, inner in node["properties"].items()}
    if "items" in node:
        changed["items"] = json_schema(node["items"])
    if "anyOf" in node:
        takes_null = takes_null or any(option.get("nullable") is True for option in node["anyOf"])
        changed["anyOf"] = [json_schema({**option, "nullable": False}) for option in node["anyOf"]]
    if not takes_null:
        return changed
    told = {"description": changed.pop("description")} if "description" in changed else {}
    options: list[JSON] = changed.pop("anyOf", None) or [changed]
    return {"anyOf": [*options, {"type": "null"}], **told}
