"""Remove characters that a user cannot see but a model can, from tools and from content."""

from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from toolbus.core.text.text import cleaned, cleaned_json
from toolbus.core.values.records import Block, Text, ToolSpec
from toolbus.shape.clean_schema import cleaned_definition, is_plain, is_plain_json
from toolbus.shape.limit import TextLimits
from toolbus.shape.pipeline import Shaper


def cleaned_texts() -> Shaper:
    """A shaper that cleans all texts of tools; arguments are mapped back to the server's own names."""

    def clean(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [_cleaned(tool) for tool in tools]

    return clean


def cleaned_block(block: Block) -> Block:
    """The block without invisible and control characters; the same object if it has none."""
    if isinstance(block, Text):  # nearly every block
        text = cleaned(block.text)
        return block if text is block.text else replace(block, text=text)
    names = ("text", "uri", "name", "title", "description", "mime_type")
    texts = {name: text for name in names if isinstance(text := getattr(block, name, None), str)}
    clean = {name: cleaned(text) for name, text in texts.items()}
    return block if all(clean[name] is texts[name] for name in texts) else replace(block, **clean)


def _cleaned(tool: ToolSpec) -> ToolSpec:
    changes: dict[str, Any] = {}
    for name in ("description", "title"):
        text = getattr(tool, name)
        if text and (clean := cleaned(text)) is not text:
            changes[name] = clean
    schema, to_originals = cleaned_definition(tool.input_schema)
    if schema is not tool.input_schema:
        changes["input_schema"] = schema
    if to_originals is not None:
        changes["maps"] = (*tool.maps, to_originals)
    if tool.output_schema is not None:
        schema, _ = cleaned_definition(tool.output_schema)
        if schema is not tool.output_schema:
            changes["output_schema"] = schema
    hints = tool.annotations
    if hints and not is_plain(hints) and (clean := cleaned_json(hints)) is not hints:
        changes["annotations"] = clean
    return replace(tool, **changes) if changes else tool


def is_ordinary(tool: ToolSpec, limits: TextLimits) -> bool:
    """Whether it is short, and has no character that could be hidden."""
    whole = (tool.description, tool.title, tool.input_schema, tool.output_schema, tool.annotations)
    try:
        data = to_json(whole, inf_nan_mode="constants")
    except ValueError:  # not JSON, or too deep
        return False
    return len(data) <= min(limits.description, limits.schema) and is_plain_json(data)
