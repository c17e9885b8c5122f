"""A tool's name, description and schema in a provider's dialect."""

from dataclasses import dataclass
from typing import cast

from toolbus.bus.catalog.tool import Tool
from toolbus.core.values.records import JSON
from toolbus.shape import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a model sees of a tool."""

    name: str
    description: str
    parameters: dict[str, JSON]
    options: dict[str, JSON]
    """Other options for the provider: `strict`, `defer_loading`."""


def definition_of(tool: Tool, dialect: Dialect) -> Definition:
    """The definition of a tool, for frameworks that pass it to their provider nearly unchanged."""
    definition = tool.definition(dialect)
    # Each provider has its own key for the parameters.
    function = cast(dict[str, JSON], definition.get("function", definition))
    keys = ("parameters", "input_schema", "inputSchema")
    empty: dict[str, JSON] = {"type": "object", "properties": {}}
    standard = {"type", "name", "description", *keys}
    return Definition(
        name=function["name"],
        description=function.get("description", ""),
        parameters=next((function[key] for key in keys if function.get(key)), empty),
        options={key: value for key, value in function.items() if key not in standard},
    )


def json_schema(schema: JSON) -> JSON:
    """Convert a schema from Google's dialect to JSON Schema: `nullable` becomes the type null."""
    if not isinstance(schema, dict):
        return schema
    node = cast(dict[str, JSON], schema)
    changed = {key: value for key, value in node.items() if key != "nullable"}
    nullable = node.get("nullable") is True
    if "properties" in node:
        changed["properties"] = {name: json_schema(inner) for name, inner in node["properties"].items()}
    if "items" in node:
        changed["items"] = json_schema(node["items"])
    if "anyOf" in node:
        nullable = nullable or any(option.get("nullable") is True for option in node["anyOf"])
        changed["anyOf"] = [json_schema({**option, "nullable": False}) for option in node["anyOf"]]
    if not nullable:
        return changed
    description = {"description": changed.pop("description")} if "description" in changed else {}
    options: list[JSON] = changed.pop("anyOf", None) or [changed]
    return {"anyOf": [*options, {"type": "null"}], **description}
