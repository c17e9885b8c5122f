"""How many tokens the definition of a tool takes, by provider."""

import json

from toolbus.core.records import ToolSpec
from toolbus.shape.budget import estimated_tokens
from toolbus.shape.dialects import DIALECTS, Dialect, converted

PROVIDERS: tuple[Dialect, ...] = tuple(dialect for dialect in DIALECTS if dialect != "mcp")


def definition_tokens(spec: ToolSpec) -> dict[str, int]:
    """About how many tokens the tool takes in a request, by provider."""
    texts = {dialect: json.dumps(converted(spec, dialect).value, ensure_ascii=False) for dialect in PROVIDERS}
    return {dialect: estimated_tokens(text) for dialect, text in texts.items()}


def sent_tokens(spec: ToolSpec) -> int:
    """About how many tokens the tool takes as its server sent it, before it is converted and trimmed."""
    schema = spec.input_schema if spec.server_schema is None else spec.server_schema
    sent = {"name": spec.origin.tool, "description": spec.description, "inputSchema": schema}
    return estimated_tokens(json.dumps(sent, ensure_ascii=False))
