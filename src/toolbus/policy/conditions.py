"""Find conditions on arguments that the tools do not have: such a rule never does what it says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolbus.core.values.records import ToolSpec
from toolbus.policy.rule import Rule
from toolbus.policy.target import Target
from toolbus.schema.values import JSON, JSONObject, entries_of, is_object, items_of

_Types: TypeAlias = frozenset[str]
_COMBINED = ("allOf", "anyOf", "oneOf")
_OPEN = ("$ref", "$dynamicRef", "$recursiveRef", "if", "dependentSchemas", "patternProperties")
"""Keywords by which a schema may have arguments that are not looked for here."""
_DEEPEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadCondition:
    """A condition that no call fulfills as it is meant."""

    problem: str
    name: str
    """The argument that it is about."""
    known: frozenset[str]
    """The arguments of the tools that the rule is about."""


def dead_conditions(rule: Rule, tools: Sequence[Target]) -> Iterator[DeadCondition]:
    """The arguments in a rule's condition that none of its tools has, or only with another type."""
    schema: JSONObject = rule.config.arguments or {}
    conditions = entries_of(schema.get("properties"))
    required = [name for name in items_of(schema.get("required")) if isinstance(name, str)]
    declared = [] if not conditions and not required else [_declared(target.spec) for target in tools]
    if not declared or None in declared:
        return
    found = [names for names in declared if names is not None]
    known = frozenset(name for names in found for name in names)
    for name in dict.fromkeys([*required, *conditions]):
        if name not in known:
            problem = f"no tool that it matches has an argument {name!r}"
            yield DeadCondition(problem=problem, name=name, known=known)
            continue
        wanted, typed = _types(conditions.get(name)), [names[name] for names in found if name in names]
        if wanted and all(types and not _overlap(wanted, types) for types in typed):
            given = " or ".join(sorted(frozenset[str]().union(*typed)))
            problem = f"the argument {name!r} is never of type {' or '.join(sorted(wanted))}, but {given}"
            yield DeadCondition(problem=problem, name=name, known=frozenset())


def _declared(spec: ToolSpec | None) -> dict[str, _Types] | None:
    """The types of the arguments that a tool declares, as its server does; None if it may have any."""
    if spec is None:
        return None
    return _arguments(spec.input_schema if spec.server_schema is None else spec.server_schema, 0)


def _arguments(schema: JSONObject, depth: int) -> dict[str, _Types] | None:
    if (
        depth > _DEEPEST
        or any(key in schema for key in _OPEN)
        or schema.get("additionalProperties", False) is not False
    ):
        return None
    found = {name: _types(each) for name, each in entries_of(schema.get("properties")).items()}
    for key in _COMBINED:
        for part in items_of(schema.get(key)):
            inner = _arguments(part, depth + 1) if is_object(part) else None
            if inner is None:
                return None
            for name in inner:
                found[name] = frozenset()  # of several schemas: any type
    # Without a word about arguments, a tool takes what it is given.
    is_silent = (
        depth == 0 and not found and "properties" not in schema and "additionalProperties" not in schema
    )
    return None if is_silent else found


def _types(schema: JSON) -> _Types:
    """The types that a schema names; none if it may be any."""
    if not is_object(schema) or schema.get("nullable") is True:
        return frozenset()
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else items_of(kind)
    return frozenset(name for name in names if isinstance(name, str))


def _overlap(wanted: _Types, given: _Types) -> bool:
    numbers = {"integer", "number"}
    return bool(wanted & given) or bool(wanted & numbers and given & numbers)
