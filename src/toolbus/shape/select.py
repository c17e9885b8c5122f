"""Select tools by name, by server or by annotation.

A tool that is left out here is not in the catalog, so it cannot be called either.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from toolbus.core.values.records import JSON, ToolSpec, marks_read_only
from toolbus.shape.pipeline import Shaper

Pattern: TypeAlias = str | Mapping[str, JSON]
"""A glob on names, or annotations that a tool must have: `{"readOnlyHint": True}`."""
Patterns: TypeAlias = Sequence[Pattern]
DEFAULT_HINTS: Mapping[str, JSON] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""The protocol's defaults for annotations that a server does not set."""


def selected(rules: Mapping[str, tuple[Patterns, Patterns]]) -> Shaper:
    """A shaper that applies each server's include and exclude patterns; no include means all.

    Globs match the server's own names.
    """

    rules = {server: rule for server, rule in rules.items() if any(rule)}

    def select(tools: list[ToolSpec]) -> list[ToolSpec]:
        if not rules:
            return tools
        return [
            tool
            for tool in tools
            if _is_selected(tool, tool.origin.tool, *rules.get(tool.origin.server, ((), ())))
        ]

    return select


def including(*patterns: Pattern) -> Shaper:
    """A shaper that keeps only the tools that match one of these; globs match `server/tool`."""
    return lambda tools: [tool for tool in tools if _is_selected(tool, str(tool.origin), patterns, ())]


def excluding(*patterns: Pattern) -> Shaper:
    """A shaper that removes the tools that match any of these; globs match `server/tool`."""
    return lambda tools: [tool for tool in tools if _is_selected(tool, str(tool.origin), (), patterns)]


def unmatched(tools: Iterable[ToolSpec], patterns: Patterns) -> list[Pattern]:
    """The patterns that match no tool, most likely typos."""
    known = list(tools)
    return [p for p in patterns if not any(_matches(tool, tool.origin.tool, p) for tool in known)]


def _is_selected(tool: ToolSpec, name: str, include: Patterns, exclude: Patterns) -> bool:
    if include and not any(_matches(tool, name, pattern) for pattern in include):
        return False
    return not any(_matches(tool, name, pattern) for pattern in exclude)


def _matches(tool: ToolSpec, name: str, pattern: Pattern) -> bool:
    if isinstance(pattern, str):
        return fnmatchcase(name, pattern)
    hints = {**DEFAULT_HINTS, **tool.annotations, "readOnlyHint": marks_read_only(tool.annotations)}
    return all(hints.get(hint) == value for hint, value in pattern.items())
