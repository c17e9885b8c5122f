"""The pipeline: shapers applied in order, each a pure function from tools to tools."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from toolbus.errors import ShaperFailed
from toolbus.records import ToolSpec

Shaper: TypeAlias = Callable[[list[ToolSpec]], list[ToolSpec]]


def shaped(tools: Iterable[ToolSpec], shapers: Iterable[Shaper]) -> list[ToolSpec]:
    """The tools after every shaper, in order; `ShaperFailed` names the one that raised."""
    result = list(tools)
    for shaper in shapers:
        try:
            result = shaper(result)
        except Exception as error:  # a user's function: the error is to name it
            raise ShaperFailed(getattr(shaper, "__qualname__", repr(shaper)), error) from error
    return result
