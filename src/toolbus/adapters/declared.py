"""A tool's name, description and schema in a provider's words; a framework spells the rest itself."""

from dataclasses import dataclass
from typing import cast

from toolbus.records import JSON
from toolbus.shape import Dialect
from toolbus.tool import Tool


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
