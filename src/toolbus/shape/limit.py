"""Keep what a model reads about a tool short: its texts, and its schema as a whole.

A real schema is far below these limits. One above them loses first its long texts, then everything that only
explains, and finally its details; the server's own schema still checks every call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from toolbus.core.text.text import schema_texts, with_schema_texts
from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.schema.keywords import CHECKS, IDENTITY, REFERENCES, part_kind, quoted
from toolbus.schema.values import is_array, is_larger, is_object
from toolbus.shape.budget import fair_shares
from toolbus.shape.pipeline import Shaper

_MOST_VALUES = 50
"""Values that a schema lists if it is too long."""
_MOST_PARTS = 10_000
"""JSON values of a schema that is worth shortening: it takes time, and more of them never fit."""
_EXPLAINING = ("default", "examples", "$comment")
_BOOLEANS = (True, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """The most characters about one tool."""

    description: int
    """In its description, in its title, and in all texts of its schema together."""
    schema: int
    """In its schema, as JSON."""


def limited(limits: Mapping[str, TextLimits]) -> Shaper:
    """A shaper that shortens the tools of these servers, by alias, to the limits of each."""

    def limit(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [
            _limited(tool, limits[tool.origin.server]) if tool.origin.server in limits else tool
            for tool in tools
        ]

    return limit


def cut_text(text: str, longest: int) -> str:
    """The text in about this many characters; the same object if it fits."""
    return text if len(text) <= longest else f"{text[:longest]}..."


def _limited(tool: ToolSpec, limits: TextLimits) -> ToolSpec:
    changes: dict[str, Any] = {}
    for name in ("description", "title"):
        text = getattr(tool, name)
        if text and len(text) > limits.description:
            changes[name] = cut_text(text, limits.description)
    for name in ("input_schema", "output_schema"):
        schema = getattr(tool, name)
        if schema is not None and (shorter := _limited_schema(schema, limits)) is not schema:
            changes[name] = shorter
    if tool.annotations and _is_longer(tool.annotations, limits.description):
        changes["annotations"] = {key: hint for key, hint in tool.annotations.items() if hint in _BOOLEANS}
    return replace(tool, **changes) if changes else tool


def _limited_schema(schema: JSONObject, limits: TextLimits) -> JSONObject:
    if not _is_longer(schema, min(limits.description, limits.schema)):
        return schema
    length = _length(schema)
    bare: JSONObject = {
        "type": "object",
        "description": f"This schema has {length:,} characters, too many to be shown.",
    }
    if is_larger(schema, _MOST_PARTS):
        return bare
    texts = schema_texts(schema)
    if sum(map(len, texts)) > limits.description:
        room = fair_shares([len(text) for text in texts], limits.description)
        schema = with_schema_texts(
            schema, [cut_text(text, share) for text, share in zip(texts, room, strict=True)]
        )
    if _is_longer(schema, limits.schema):
        schema = _without_explanations(schema)
    return bare if _is_longer(schema, limits.schema) else schema


def _without_explanations(schema: JSON, depth: int = 0) -> JSON:
    """The schema without defaults, examples, unknown keywords and long lists of values."""
    if not is_object(schema) or depth > 100:
        return schema
    result: dict[str, JSON] = {}
    for key, value in schema.items():
        kind = part_kind(key, value)
        if key == "enum" and is_array(value) and len(value) > _MOST_VALUES:
            some = ", ".join(map(quoted, value[:3]))
            result["description"] = f"One of {len(value):,} values, such as {some}."
        elif kind is not None:
            result[key] = _PARTS[kind](value, depth + 1)
        elif key not in _EXPLAINING and (key in CHECKS or key in IDENTITY or key in REFERENCES):
            result.setdefault(key, value)
    return result


_PARTS: Mapping[str, Callable[[Any, int], JSON]] = {
    "one": _without_explanations,
    "many": lambda value, depth: [_without_explanations(inner, depth) for inner in value],
    "named": lambda value, depth: {
        name: _without_explanations(inner, depth) for name, inner in value.items()
    },
}


def _is_longer(value: JSON, longest: int) -> bool:
    # Bytes first: nearly every definition is short.
    return len(to_json(value, inf_nan_mode="constants")) > longest and _length(value) > longest


def _length(value: JSON) -> int:
    return len(to_json(value, inf_nan_mode="constants").decode())
