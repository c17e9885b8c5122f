"""Keep the tools that the config asks for, by pattern on the server's own names.

What is left out here is in no catalog, and so cannot be called either.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from toolbus.records import ToolSpec
from toolbus.shape.pipeline import Shaper

Patterns: TypeAlias = Sequence[str]


def selected(rules: Mapping[str, tuple[Patterns, Patterns]]) -> Shaper:
    """A shaper that applies each server's include and exclude patterns; no include means all."""

    def select(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [tool for tool in tools if _wanted(tool, *rules.get(tool.origin.server, ((), ())))]

    return select


def unmatched(tools: Iterable[ToolSpec], patterns: Patterns) -> list[str]:
    """The patterns that no tool matches: most likely a slip of the pen."""
    names = [tool.origin.tool for tool in tools]
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]


def _wanted(tool: ToolSpec, include: Patterns, exclude: Patterns) -> bool:
    name = tool.origin.tool
    return (not include or _matches(name, include)) and not _matches(name, exclude)


def _matches(name: str, patterns: Patterns) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
