"""The number of tokens in the definition of a tool, by provider."""

import json

from toolbus.core.values.records import JSON, ToolSpec
from toolbus.shape.budget import estimated_tokens
from toolbus.shape.dialects import DIALECTS, Dialect, converted_once

PROVIDERS: tuple[Dialect, ...] = tuple(dialect for dialect in DIALECTS if dialect != "mcp")


def definition_tokens(spec: ToolSpec) -> dict[str, int]:
    """About how many tokens the tool takes in a request, by provider; nothing else of them is kept."""
    return {dialect: _tokens(converted_once(spec, dialect).value) for dialect in PROVIDERS}


def sent_tokens(spec: ToolSpec) -> int:
    """About how many tokens the tool takes as its server sent it, before it is converted and trimmed."""
    schema = spec.input_schema if spec.server_schema is None else spec.server_schema
    sent = {"name": spec.origin.tool, "description": spec.description, "inputSchema": schema}
    return _tokens(sent)


def _tokens(value: JSON) -> int:
    return estimated_tokens(json.dumps(value, ensure_ascii=False))
