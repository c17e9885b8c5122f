"""Remove characters that a user cannot see but a model can, from tools and from content."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote, unquote

from pydantic_core import to_json

from toolbus.core.text.text import cleaned, cleaned_json, rewritten_json, strings
from toolbus.core.values.argument_restore import ArgumentMap
from toolbus.core.values.records import Block, Text, ToolSpec
from toolbus.schema.keywords import REFERENCES, part_kind
from toolbus.schema.values import JSON, JSONObject, is_array, is_object
from toolbus.shape.limit import TextLimits
from toolbus.shape.pipeline import Shaper

_DEEPEST = 200
"""Levels that are read as schemas; deeper ones only as values."""
_NAMELESS = "unnamed"


def cleaned_definition(schema: JSONObject) -> tuple[JSONObject, ArgumentMap | None]:
    """The schema without hidden characters, and the map to the original names and values, if any changed.

    The same object if there is nothing to remove.
    """
    if is_plain(schema) or all(cleaned(text) is text for text in strings(schema)):
        return schema, None
    cleaning = _Cleaning(schema)
    clean = cast("JSONObject", cleaning.schema(schema))
    if not cleaning.table:
        return clean, None
    originals = {clean: original for original, clean in cleaning.table.items()}
    return clean, ArgumentMap(originals=originals, schema=schema)


def is_plain(value: JSON) -> bool:
    """Whether it is ASCII without control characters: true for most schemas, and much faster to check."""
    try:
        data = to_json(value, inf_nan_mode="constants")
    except ValueError:  # too deep, or not JSON
        return False
    return is_plain_json(data)


def is_plain_json(data: bytes) -> bool:
    """Whether encoded JSON is ASCII without control characters."""
    if b"\\" in data:
        for harmless in (b"\\\\", b'\\"', b"\\n", b"\\t"):  # backslashes first: they may precede the others
            data = data.replace(harmless, b"")
    return data.isascii() and b"\\" not in data and b"\x7f" not in data


class _Cleaning:
    """The clean form of each name and listed value of one schema."""

    def __init__(self, schema: JSONObject) -> None:
        texts = dict.fromkeys(_names_and_values(schema))
        taken = {text for text in texts if cleaned(text) is text}
        numbers: dict[str, int] = {}
        self.table: dict[str, str] = {}
        for text in texts:
            clean = cleaned(text)
            if clean is text:
                continue
            base = name = clean if clean.strip() else _NAMELESS
            while name in taken:
                # Each base counts on, or many equal names would take quadratic time.
                numbers[base] = numbers.get(base, 1) + 1
                name = f"{base}_{numbers[base]}"
            taken.add(name)
            self.table[text] = name

    def schema(self, node: JSON, depth: int = 0) -> JSON:
        if not is_object(node) or depth > _DEEPEST:
            return self.value(node)
        result: dict[str, JSON] = {}
        for key, value in node.items():
            # A keyword has no hidden characters, so without them it could become another one.
            if key not in self.table:
                result[key] = self._keyword(key, value, depth)
        return result

    def _keyword(self, key: str, value: JSON, depth: int) -> JSON:
        if key in REFERENCES:
            return self._reference(value)
        match part_kind(key, value):
            case "one":
                return self.schema(value, depth + 1)
            case "many":
                return [self.schema(inner, depth + 1) for inner in value]
            case "named":
                return {self._text(name): self.schema(inner, depth + 1) for name, inner in value.items()}
            case _:
                return self.value(value)

    def value(self, value: JSON) -> JSON:
        """Texts and data; data uses the names and values of the schema."""
        return rewritten_json(value, lambda scalar: self._text(scalar) if isinstance(scalar, str) else scalar)

    def _text(self, text: str) -> str:
        return self.table.get(text) or cleaned(text)

    def _reference(self, reference: JSON) -> JSON:
        if not isinstance(reference, str) or "#/" not in reference:
            return self.value(reference)
        base, _, pointer = reference.partition("#")
        steps = [step.replace("~1", "/").replace("~0", "~") for step in unquote(pointer).split("/")[1:]]
        if not any(step in self.table for step in steps):
            return cleaned(reference)
        names = (self._text(step).replace("~", "~0").replace("/", "~1") for step in steps)
        return f"{cleaned(base)}#/{'/'.join(quote(name, safe='~$') for name in names)}"


def _names_and_values(schema: JSONObject) -> Iterator[str]:
    """Every key, and every text in an `enum` or `const`, in the order of the schema."""
    waiting: list[JSON] = [schema]
    while waiting:
        node = waiting.pop()
        if is_object(node):
            yield from node
            yield from strings([node.get("enum"), node.get("const")])
            waiting.extend(reversed(node.values()))
        elif is_array(node):
            waiting.extend(reversed(node))


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


def is_clean(tool: ToolSpec, limits: TextLimits) -> bool:
    """Whether it is short, and has no character that could be hidden."""
    whole = (tool.description, tool.title, tool.input_schema, tool.output_schema, tool.annotations)
    try:
        data = to_json(whole, inf_nan_mode="constants")
    except ValueError:  # not JSON, or too deep
        return False
    return len(data) <= min(limits.description, limits.schema) and is_plain_json(data)
