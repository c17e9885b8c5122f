"""The pipeline: shapers applied in order, each a pure function from tools to tools.

Every tool that comes out can tell what was done to it: nobody has to keep a record but the pipeline.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TypeAlias

from toolbus.errors import ShaperFailed
from toolbus.records import Change, ToolSpec, same_json

Shaper: TypeAlias = Callable[[list[ToolSpec]], list[ToolSpec]]

NAMING = "named"
"""The shaper that comes last."""
_KEPT = ("origin", "via", "history", "server_schema", "definitions")
_TOLD = tuple(field.name for field in fields(ToolSpec) if field.name not in _KEPT)


def shaped(tools: Iterable[ToolSpec], shapers: Iterable[Shaper]) -> list[ToolSpec]:
    """The tools after every shaper, in order; `ShaperFailed` names the one that raised."""
    result = list(tools)
    for shaper in shapers:
        name = name_of(shaper)
        try:
            fresh = shaper(result)
            # That every tool is given a name in the end is no news.
            result = fresh if name == NAMING else _all_told(fresh, result, name)
        except Exception as error:  # a user's function: the error is to name it
            raise ShaperFailed(name, error) from error
    return result


def each(change: Callable[[ToolSpec], ToolSpec | None]) -> Shaper:
    """A shaper out of a function for one tool, which may return None to leave the tool out."""

    def shaper(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [changed for tool in tools if (changed := change(tool)) is not None]

    shaper.__qualname__ = getattr(change, "__qualname__", repr(change))
    shaper.__module__ = change.__module__
    return shaper


def name_of(shaper: Shaper) -> str:
    """What a shaper is called: by its function, and one of ours by the function that made it."""
    name: str = getattr(shaper, "__qualname__", repr(shaper))
    is_ours = getattr(shaper, "__module__", "").startswith("toolbus.shape.")
    return name.partition(".<locals>")[0] if is_ours else name


def _all_told(tools: list[ToolSpec], before: list[ToolSpec], shaper: str) -> list[ToolSpec]:
    known = set(map(id, before))
    if all(id(tool) in known for tool in tools):
        return tools
    old = {tool.origin: tool for tool in before}
    return [tool if id(tool) in known else _told(tool, old.get(tool.origin), shaper) for tool in tools]


def _told(tool: ToolSpec, before: ToolSpec | None, shaper: str) -> ToolSpec:
    changed = tuple(name for name in _TOLD if before is None or _differ(tool, before, name))
    if not changed or before is None:
        return (
            tool.under(tool.name, *tool.history, Change(shaper=shaper, fields=changed)) if changed else tool
        )
    told = tool.under(tool.name, *before.history, Change(shaper=shaper, fields=changed))
    if "input_schema" not in changed or before.server_schema is not None:
        return told
    return replace(told, server_schema=before.input_schema)


def _differ(tool: ToolSpec, before: ToolSpec, name: str) -> bool:
    new, old = getattr(tool, name), getattr(before, name)
    # Identity first: most fields of most tools are not touched.
    return new is not old and (new != old or (isinstance(new, dict) and not same_json(new, old)))
