"""Change how a model sees a tool, and map its calls back to the server's arguments.

A rule is a plain mapping, as in a config:

    name          the exact name of the tool
    description   replaces the server's
    append        added to the description
    arguments     by the server's name: {name, description, default, value, hide}
    schema        replaces the server's input schema, before `arguments` apply
    options       for providers: {openai: {strict: true}}
    hints         knowledge of the owner: {read_only, destructive, idempotent, open_world}
    result        a `ResultShape`: the part of its results that a model gets

An argument with a `value` is always sent with it and hidden from the model. An argument with a `default` is
optional. `hide` hides an optional argument.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from toolbus.core.values.records import JSON, ArgumentMap, JSONObject, ToolSpec
from toolbus.schema.node import declared
from toolbus.shape.pipeline import Shaper

Rule = Mapping[str, JSON]
_HINTS = {
    "read_only": ("readOnlyHint", True),
    "destructive": ("destructiveHint", False),
    "idempotent": ("idempotentHint", True),
    "open_world": ("openWorldHint", False),
}
"""The annotation of each hint, and the value with which a tool may do less harm."""


def overridden(rules: Mapping[str, Rule]) -> Shaper:
    """A shaper that applies each rule to the tools that match its glob on `server/tool`, in order."""

    def override(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [_overridden(tool, rules) for tool in tools]

    return override


def marked(servers: Mapping[str, bool]) -> Shaper:
    """A shaper that puts `[MCP: alias]` before the description of each tool of these servers."""

    def mark(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [
            replace(tool, description=f"[MCP: {tool.origin.server}] {tool.description}".rstrip())
            if servers.get(tool.origin.server)
            else tool
            for tool in tools
        ]

    return mark


def trusted(servers: Collection[str]) -> Shaper:
    """A shaper that marks the tools of these servers as trusted: their annotations may be relied on."""

    def trust(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [replace(tool, trusted=True) if tool.origin.server in servers else tool for tool in tools]

    return trust


def repeatable(patterns: Collection[str]) -> Shaper:
    """A shaper that marks the tools that match a glob on `server/tool` as safe to repeat."""

    def mark(tools: list[ToolSpec]) -> list[ToolSpec]:
        return [
            replace(tool, repeatable=True)
            if any(fnmatchcase(str(tool.origin), pattern) for pattern in patterns)
            else tool
            for tool in tools
        ]

    return mark


def _overridden(tool: ToolSpec, rules: Mapping[str, Rule]) -> ToolSpec:
    for pattern, rule in rules.items():
        if fnmatchcase(str(tool.origin), pattern):
            tool = _applied(tool, rule)
    return tool


def _applied(tool: ToolSpec, rule: Rule) -> ToolSpec:
    changes: dict[str, Any] = {}
    if "name" in rule:
        changes["name"] = rule["name"]
    if "description" in rule or "append" in rule:
        text = rule.get("description", tool.description)
        changes["description"] = " ".join(filter(None, [text, rule.get("append")]))
    if "result" in rule:
        changes["result"] = rule["result"]
    hints: Mapping[str, bool | None] = rule.get("hints", {})
    if known := {name: value for name, value in hints.items() if value is not None}:
        changes |= {"annotations": _hinted(tool, known), "trusted": True}
    if "options" in rule:
        changes["options"] = {
            **tool.options,
            **{
                provider: {**tool.options.get(provider, {}), **own}
                for provider, own in rule["options"].items()
            },
        }
    schema: JSONObject = rule.get("schema", tool.input_schema)
    if "arguments" in rule:
        schema, step = _with_arguments(schema, rule["arguments"])
        changes["maps"] = (*tool.maps, step)
    if schema is not tool.input_schema:
        changes["input_schema"] = schema
    return replace(tool, **changes)


def _hinted(tool: ToolSpec, hints: Mapping[str, bool]) -> JSONObject:
    """The annotations with these hints. Nothing good that the server says counts, unless it is trusted."""
    good = () if tool.trusted else _HINTS.values()
    known = {name: value for name, value in tool.annotations.items() if (name, value) not in good}
    if hints.get("read_only"):
        hints = {"destructive": False, **hints}  # what its server says to the contrary is overruled
    return {**known, **{_HINTS[name][0]: value for name, value in hints.items()}}


def _with_arguments(schema: JSONObject, rules: Mapping[str, Rule]) -> tuple[JSONObject, ArgumentMap]:
    """The schema for the model, and the mapping back to the server's."""
    seen: dict[str, JSON] = {}
    required: list[str] = []
    properties, wanted = declared(schema)
    hidden: set[str] = set()
    names: dict[str, str] = {}
    for own, value in properties.items():
        rule = rules.get(own, {})
        # A required one without a value stays visible, or no call could succeed.
        if "value" in rule or (rule.get("hide") and ("default" in rule or own not in wanted)):
            hidden.add(own)
            continue
        name = rule.get("name", own)
        if name != own and (name in seen or name in properties):
            name = own  # already used: two arguments cannot share it
        added = {key: rule[key] for key in ("description", "default") if key in rule}
        # `true` is a schema too.
        names[own] = name
        seen[name] = {**(value if isinstance(value, Mapping) else {}), **added} if added else value
        if own in wanted and "default" not in rule:
            required.append(name)
    changed = {key: value for key, value in schema.items() if key != "required"} | {"properties": seen}
    step = ArgumentMap(
        renamed={new: own for own, new in names.items() if new != own},
        defaults={own: rule["default"] for own, rule in rules.items() if "default" in rule},
        fixed={own: rule["value"] for own, rule in rules.items() if "value" in rule},
        hidden=frozenset(hidden),
    )
    return ({**changed, "required": required} if required else changed), step
