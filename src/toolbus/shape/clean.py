"""Remove characters from a tool's texts that a user cannot see but a model can."""

from dataclasses import replace
from typing import Any

from toolbus.core.records import ToolSpec
from toolbus.core.text import cleaned, cleaned_schema
from toolbus.shape.pipeline import Shaper


def cleaned_texts() -> Shaper:
    """A shaper that cleans descriptions and titles, including those in schemas."""

    def clean(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [_cleaned(tool) for tool in tools]

    return clean


def _cleaned(tool: ToolSpec) -> ToolSpec:
    changes: dict[str, Any] = {}
    for name in ("description", "title"):
        text = getattr(tool, name)
        if text and (clean := cleaned(text)) is not text:
            changes[name] = clean
    if (schema := cleaned_schema(tool.input_schema)) is not tool.input_schema:
        changes["input_schema"] = schema
    return replace(tool, **changes) if changes else tool
