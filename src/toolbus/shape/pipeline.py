"""The pipeline: shapers applied in order, each a pure function from tools to tools."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from toolbus.records import ToolSpec

Shaper: TypeAlias = Callable[[list[ToolSpec]], list[ToolSpec]]


def shaped(tools: Iterable[ToolSpec], shapers: Iterable[Shaper]) -> list[ToolSpec]:
    """The tools after every shaper, in order."""
    result = list(tools)
    for shaper in shapers:
        result = shaper(result)
    return result
