"""Convert the text of one argument to the type that its schema declares.

Text stays text, a number must be a number. Without a declared type, text that is valid JSON is parsed.
"""

import json
import math
from typing import Any

from toolbus.cli.errors import Usage
from toolbus.schema.describe import type_words
from toolbus.schema.node import Schema
from toolbus.schema.values import JSON, is_array, is_object

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
_MISMATCH: Any = object()
"""The text is not of that type."""


def typed(text: str, schema: Schema, key: str) -> JSON:
    """The value that the text stands for; `Usage` if the schema does not allow it."""
    for value in schema.all_values:
        if text == (value if isinstance(value, str) else json.dumps(value)):
            return value
    types = [kind for kind in schema.all_types if kind != "null"]
    if schema.all_values and (not types or types == ["string"]):
        raise Usage(f"{key}: {text!r} is not allowed; expected {type_words(schema)}")
    if "null" in schema.all_types and text == "null":
        return None
    for kind in ("boolean", "integer", "number", "array", "object"):
        if kind in types and (value := _parsed_as(kind, text, schema, key)) is not _MISMATCH:
            return value
    if "string" in types:
        return text
    if types:
        raise Usage(f"{key}: expected {type_words(schema)}, not {text!r}")
    return text if (value := _json(text)) is _MISMATCH else value


def _parsed_as(kind: str, text: str, schema: Schema, key: str) -> JSON:
    value = _json(text)
    match kind:
        case "boolean":
            # Where nothing else is allowed, other words for it are accepted too.
            alone = set(schema.all_types) <= {"boolean", "null"}
            if alone:
                return _WORDS.get(text.lower(), _MISMATCH)
            return value if isinstance(value, bool) else _MISMATCH
        case "integer" | "number":
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                return _MISMATCH
            return value if kind == "number" else int(value) if value == int(value) else _MISMATCH
        case "object":
            return value if is_object(value) else _MISMATCH
        case _:
            return _parsed_list(text, value, schema, key)


def _parsed_list(text: str, value: JSON, schema: Schema, key: str) -> JSON:
    """A JSON list, or items separated by commas."""
    if is_array(value):
        return value
    if "string" in schema.all_types:
        return _MISMATCH  # text that is not a JSON list stays text
    parts = [text] if is_object(value) else text.split(",") if text else []
    return [typed(part, schema.items, key) for part in parts]


def _json(text: str) -> JSON:
    try:
        return json.loads(text, parse_constant=_reject)
    except (ValueError, RecursionError):
        return _MISMATCH


def _reject(name: str) -> JSON:
    raise ValueError(f"{name} is not JSON, though Python parses it")
