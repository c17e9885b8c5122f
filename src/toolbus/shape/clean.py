"""Take out of a tool's texts what a person does not see but a model does."""

from dataclasses import replace
from typing import Any, cast

from toolbus.records import JSON, ToolSpec
from toolbus.shape.pipeline import Shaper
from toolbus.visible import cleaned

_TEXTS = ("description", "title", "$comment")
"""The texts in a schema; names and enum values are what a call has to hold, and stay."""


def cleaned_texts() -> Shaper:
    """A shaper that cleans descriptions and titles, those in the schemas too."""

    def clean(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [_cleaned(tool) for tool in tools]

    return clean


def _cleaned(tool: ToolSpec) -> ToolSpec:
    changes: dict[str, Any] = {}
    for name in ("description", "title"):
        text = getattr(tool, name)
        if text and (clean := cleaned(text)) is not text:
            changes[name] = clean
    if (schema := _schema(tool.input_schema)) is not tool.input_schema:
        changes["input_schema"] = schema
    return replace(tool, **changes) if changes else tool


def _schema(schema: JSON) -> JSON:
    """The schema with clean texts; the very same object if they are clean already."""
    if _is_plain(schema) or all(cleaned(text) is text for _, _, text in _texts(schema)):
        return schema
    fresh = _copied(schema)
    for holder, key, text in _texts(fresh):
        holder[key] = cleaned(text)
    return fresh


def _is_plain(schema: JSON) -> bool:
    """Whether it is ASCII without a control character: true of most schemas, and much faster to know."""
    try:
        shown = repr(schema)
    except RecursionError:
        return False
    return shown.isascii() and "\\" not in shown


def _texts(schema: JSON) -> list[tuple[Any, str, str]]:
    """Every text in the schema, with what holds it. Without recursion: a server may nest as it likes."""
    found: list[tuple[Any, str, str]] = []
    rest: list[Any] = [schema]
    while rest:
        holder = rest.pop()
        if isinstance(holder, dict):
            pairs = cast("dict[str, JSON]", holder).items()
            found += [(holder, key, text) for key, text in pairs if key in _TEXTS and isinstance(text, str)]
            rest += [value for _, value in pairs if isinstance(value, dict | list)]
        elif isinstance(holder, list):
            rest += [value for value in cast("list[JSON]", holder) if isinstance(value, dict | list)]
    return found


def _copied(schema: JSON) -> JSON:
    fresh: list[Any] = [schema]
    rest: list[tuple[Any, Any]] = [(fresh, 0)]
    while rest:
        holder, key = rest.pop()
        holder[key] = value = holder[key].copy()
        inner = cast("Any", value.items() if isinstance(value, dict) else enumerate(value))
        rest += [(value, key) for key, item in inner if isinstance(item, dict | list)]
    return fresh[0]
