"""The size limits of OpenAI's strict mode."""

from toolbus.core.values.records import JSON
from toolbus.schema.values import Node

MOST_PROPERTIES = 5_000
MOST_ENUM_VALUES = 1_000
MOST_TEXT = 120_000  # characters of all names and enum values together
LARGE_ENUM = 250  # from here on, one enum has its own limit
MOST_TEXT_IN_LARGE_ENUM = 15_000


def beyond_strict_limits(schema: Node) -> str | None:
    """The limit of strict mode that a converted schema exceeds, if any."""
    properties = values = text = 0
    waiting: list[JSON] = [schema]
    while waiting:
        node = waiting.pop()
        names = node.get("properties", {})
        enum = [value for value in node.get("enum", ()) if isinstance(value, str)]
        length = sum(map(len, enum))
        if len(enum) > LARGE_ENUM and length > MOST_TEXT_IN_LARGE_ENUM:
            return (
                f"an enum of more than {LARGE_ENUM} values has more than {MOST_TEXT_IN_LARGE_ENUM} characters"
            )
        properties += len(names)
        values += len(node.get("enum", ()))
        text += length + sum(map(len, names))
        waiting += [*names.values(), *node.get("anyOf", ())]
        if "items" in node:
            waiting.append(node["items"])
    for count, most, what in (
        (properties, MOST_PROPERTIES, "properties"),
        (values, MOST_ENUM_VALUES, "enum values"),
        (text, MOST_TEXT, "characters of names and values"),
    ):
        if count > most:
            return f"strict mode accepts at most {most} {what}"
    return None
