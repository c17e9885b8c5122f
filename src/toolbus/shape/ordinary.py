"""Whether a tool needs neither shortening nor cleaning: one look, which is enough for nearly every tool."""

from pydantic_core import to_json

from toolbus.core.values.records import ToolSpec
from toolbus.shape.clean_schema import is_plain_json
from toolbus.shape.limit import TextLimits


def is_ordinary(tool: ToolSpec, limits: TextLimits) -> bool:
    """Whether it is short, and has no character that could be hidden."""
    whole = (tool.description, tool.title, tool.input_schema, tool.output_schema, tool.annotations)
    try:
        data = to_json(whole, inf_nan_mode="constants")
    except ValueError:  # not JSON, or too deep
        return False
    return len(data) <= min(limits.description, limits.schema) and is_plain_json(data)
