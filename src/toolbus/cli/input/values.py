"""One value as a person types it becomes what its schema asks for.

Text stays text, a number must be a number. Where the schema says nothing, a value that is JSON is JSON.
"""

import json
import math
from typing import Any

from toolbus.cli.input.schema import Schema
from toolbus.cli.outcome import Usage
from toolbus.config.location import is_list, is_mapping
from toolbus.core.records import JSON

_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_NO: Any = object()
"""Not of that type."""


def typed(text: str, schema: Schema, key: str) -> JSON:
    """The value that the text stands for; `Usage` if the schema allows no such value."""
    for value in schema.enum:
        if text == (value if isinstance(value, str) else json.dumps(value)):
            return value
    types = [kind for kind in schema.types if kind != "null"]
    if schema.enum and (not types or types == ["string"]):
        raise Usage(f"{key}: {text!r} is not allowed; expected {schema.words}")
    if "null" in schema.types and text == "null":
        return None
    for kind in ("boolean", "integer", "number", "array", "object"):
        if kind in types and (value := _read_as(kind, text, schema, key)) is not _NO:
            return value
    if "string" in types:
        return text
    if types:
        raise Usage(f"{key}: expected {schema.words}, not {text!r}")
    return text if (value := _json(text)) is _NO else value


def _read_as(kind: str, text: str, schema: Schema, key: str) -> JSON:
    value = _json(text)
    match kind:
        case "boolean":
            # Where nothing else is allowed, also the other words for it.
            alone = set(schema.types) <= {"boolean", "null"}
            return _WORDS.get(text.lower(), _NO) if alone else value if isinstance(value, bool) else _NO
        case "integer" | "number":
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                return _NO
            return value if kind == "number" else int(value) if value == int(value) else _NO
        case "object":
            return value if is_mapping(value) else _NO
        case _:
            return _read_list(text, value, schema, key)


def _read_list(text: str, value: JSON, schema: Schema, key: str) -> JSON:
    """A JSON list, or items with commas between them."""
    if is_list(value):
        return value
    if "string" in schema.types:
        return _NO  # text that is no JSON list is the text itself
    parts = [text] if is_mapping(value) else text.split(",") if text else []
    return [typed(part, schema.items, key) for part in parts]


def _json(text: str) -> JSON:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NO


def _refuse(name: str) -> JSON:
    raise ValueError(f"{name} is no JSON, though Python reads it")
