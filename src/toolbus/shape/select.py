"""Keep the tools that are wanted: by name, by server, by what the server says about them.

What is left out here is in no catalog, and so cannot be called either.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from toolbus.core.records import JSON, ToolSpec
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
"""What a tool counts as if its server does not say; as the protocol has it."""


def selected(rules: Mapping[str, tuple[Patterns, Patterns]]) -> Shaper:
    """A shaper that applies each server's include and exclude patterns; no include means all.

    Globs are on the server's own names.
    """

    def select(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [
            tool
            for tool in tools
            if _wanted(tool, tool.origin.tool, *rules.get(tool.origin.server, ((), ())))
        ]

    return select


def including(*patterns: Pattern) -> Shaper:
    """A shaper that keeps only the tools that fit one of these; globs are on `server/tool`."""
    return lambda tools: [tool for tool in tools if _wanted(tool, str(tool.origin), patterns, ())]


def excluding(*patterns: Pattern) -> Shaper:
    """A shaper that leaves out the tools that fit any of these; globs are on `server/tool`."""
    return lambda tools: [tool for tool in tools if _wanted(tool, str(tool.origin), (), patterns)]


def unmatched(tools: Iterable[ToolSpec], patterns: Patterns) -> list[Pattern]:
    """The patterns that no tool fits: most likely a slip of the pen."""
    known = list(tools)
    return [p for p in patterns if not any(_fits(tool, tool.origin.tool, p) for tool in known)]


def _wanted(tool: ToolSpec, name: str, include: Patterns, exclude: Patterns) -> bool:
    if include and not any(_fits(tool, name, pattern) for pattern in include):
        return False
    return not any(_fits(tool, name, pattern) for pattern in exclude)


def _fits(tool: ToolSpec, name: str, pattern: Pattern) -> bool:
    if isinstance(pattern, str):
        return fnmatchcase(name, pattern)
    hints = {**DEFAULT_HINTS, **tool.annotations}
    return all(hints.get(hint) == value for hint, value in pattern.items())
