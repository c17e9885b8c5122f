"""The pipeline: shapers applied in order, each a pure function from tools to tools.

It records in each tool's history what each shaper changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from types import NoneType
from typing import TypeAlias

from toolbus.core.text.canonical import encoding_problem
from toolbus.core.values.errors import ShaperFailed
from toolbus.core.values.records import Change, Origin, ToolSpec
from toolbus.schema.values import same_json

Shaper: TypeAlias = Callable[[list[ToolSpec]], list[ToolSpec]]
"""A function of the tools, which returns the tools that a model gets; it may change them."""
LeaveOut: TypeAlias = Callable[[ToolSpec, str], None]
"""Called with a tool for which a shaper raises, and the reason."""

NAMING = "named"
"""The last shaper."""
_KEPT = ("origin", "route", "history", "server_schema", "trusted", "definitions")
_RECORDED = tuple(field.name for field in fields(ToolSpec) if field.name not in _KEPT)
_FIELD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "description": str,
    "title": (str, NoneType),
    "input_schema": dict,
    "output_schema": (dict, NoneType),
    "annotations": dict,
    "options": dict,
    "meta": dict,
}
"""The types that a shaper may set a field to."""


def shaped(
    tools: Iterable[ToolSpec], shapers: Iterable[Shaper], leave_out: LeaveOut | None = None
) -> list[ToolSpec]:
    """The tools after all shapers, in order; `ShaperFailed` names a broken one.

    With `leave_out`, only a tool for which a shaper raises, or does not return a tool, is left out, and
    reported there. A shaper that fails for every tool, or again for the remaining ones, is broken.
    """
    result = list(tools)
    for shaper in shapers:
        try:
            result = _applied(shaper, result)
        except Exception as error:  # a user's function; the error names it
            if leave_out is None:
                raise ShaperFailed(name_of(shaper), error) from error
            result = _isolated(shaper, result, error, leave_out)
    return result


def _applied(shaper: Shaper, tools: list[ToolSpec]) -> list[ToolSpec]:
    name = name_of(shaper)
    fresh = list(shaper(tools))
    # Every tool is named in the end, so its history does not mention it.
    return fresh if name == NAMING and _is_ours(shaper) else _all_recorded(fresh, tools, name)


def _isolated(shaper: Shaper, tools: list[ToolSpec], error: Exception, leave_out: LeaveOut) -> list[ToolSpec]:
    """The result of a shaper that raised, for the tools that it can handle one by one."""
    name = name_of(shaper)
    faults: dict[int, Exception] = {}
    for tool in tools:
        try:
            _applied(shaper, [tool])
        except Exception as fault:  # as above
            faults[id(tool)] = fault
    rest = [tool for tool in tools if id(tool) not in faults]
    if not faults or not rest:
        raise ShaperFailed(name, error) from error
    try:
        result = _applied(shaper, rest)
    except Exception as again:  # as above
        raise ShaperFailed(name, again) from again
    for tool in tools:
        if id(tool) in faults:
            leave_out(tool, str(ShaperFailed(name, faults[id(tool)])))
    return result


def each(change: Callable[[ToolSpec], ToolSpec | None]) -> Shaper:
    """A shaper from a function for one tool, which may return None to leave the tool out."""

    def shaper(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [changed for tool in tools if (changed := change(tool)) is not None]

    shaper.__qualname__ = getattr(change, "__qualname__", repr(change))
    shaper.__module__ = change.__module__
    return shaper


def name_of(shaper: Shaper) -> str:
    """The name of a shaper: its function's, or for our own, the name of the function that made it."""
    name: str = getattr(shaper, "__qualname__", repr(shaper))
    return name.partition(".<locals>")[0] if _is_ours(shaper) else name


def _is_ours(shaper: Shaper) -> bool:
    # None for functions that `exec` made.
    return (getattr(shaper, "__module__", None) or "").startswith("toolbus.shape.")


def _all_recorded(tools: list[ToolSpec], before: list[ToolSpec], shaper: str) -> list[ToolSpec]:
    known = set(map(id, before))
    if all(id(tool) in known for tool in tools):
        return tools
    old = {tool.origin: tool for tool in before}
    return [tool if id(tool) in known else _recorded(tool, old, shaper) for tool in tools]


def _recorded(tool: ToolSpec, old: Mapping[Origin, ToolSpec], shaper: str) -> ToolSpec:
    if not isinstance(tool, ToolSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may return anything
        raise TypeError(f"it returned {type(tool).__name__}, not a tool")
    if not isinstance(tool.origin, Origin):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        raise TypeError(f"it returned a tool whose origin is {type(tool.origin).__name__}")
    before = old.get(tool.origin)
    for name, kind in _FIELD_TYPES.items():
        if before is None or getattr(tool, name) is not getattr(before, name):
            _check(tool, name, kind)
    changed = tuple(name for name in _RECORDED if before is None or _differ(tool, before, name))
    if not changed or before is None:
        return (
            tool.renamed(tool.name, *tool.history, Change(shaper=shaper, fields=changed)) if changed else tool
        )
    recorded = tool.renamed(tool.name, *before.history, Change(shaper=shaper, fields=changed))
    if "input_schema" not in changed or before.server_schema is not None:
        return recorded
    return replace(recorded, server_schema=before.input_schema)


def _check(tool: ToolSpec, name: str, kind: type | tuple[type, ...]) -> None:
    value = getattr(tool, name)
    if not isinstance(value, kind):
        raise TypeError(f"it returned a tool whose {name} is {type(value).__name__}")
    if (fault := encoding_problem(value)) is not None:
        raise ValueError(f"it returned a tool whose {name} {fault}")


def _differ(tool: ToolSpec, before: ToolSpec, name: str) -> bool:
    new, old = getattr(tool, name), getattr(before, name)
    # Identity first: most fields of most tools are not touched.
    return new is not old and (new != old or (isinstance(new, dict) and not same_json(new, old)))
