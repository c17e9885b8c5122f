"""A call of a tool: one that a scripted model makes, or one that a fake server received."""

from dataclasses import dataclass, field

from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; a model sends arguments that are a string unchanged."""

    name: str
    arguments: dict[str, JSON] | str = field(default_factory=dict[str, JSON])
