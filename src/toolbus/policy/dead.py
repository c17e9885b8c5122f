"""Find rules and conditions without effect: a denial that matches nothing looks like one that works."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from toolbus.config.settings.policy import Hint
from toolbus.core.values.records import ToolSpec
from toolbus.policy.rule import SELECTOR, Kind, Pattern, PolicyTarget, Rule, holds, label
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


def dead_conditions(rule: Rule, tools: Sequence[PolicyTarget]) -> Iterator[DeadCondition]:
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


_MOST_COMPARED = 2_000
_LONGEST_COMPARED = 200
"""Comparing takes time that grows with the square of the length."""
_NEAR_MISSES = 3
_WHOEVER_SAYS_SO: frozenset[Hint | None] = frozenset([None, "destructive", "writes", "open-world"])
"""Hints that never hold by the mere word of a server; None for a rule without a hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRule:
    """A rule, or one of its patterns, that has no effect."""

    rule: int
    problem: str
    """Such as `tools: 'github/delte_*' matches no tool`."""
    near_misses: tuple[str, ...] = ()
    """Names that may have been meant."""
    is_note: bool = False
    """Whether it may well be intended, so that a check should not fail."""

    @property
    def label(self) -> str:
        return label(self.rule)

    def __str__(self) -> str:
        meant = " or ".join(map(repr, self.near_misses))
        return f"{self.label}: {self.problem}" + (f"; did you mean {meant}?" if meant else "")


def dead_rules(
    rules: Sequence[Rule], offered: Mapping[str, Sequence[PolicyTarget]], servers: Collection[str]
) -> list[DeadRule]:
    """The rules that have no effect, in order."""
    found: list[DeadRule] = []
    for rule in rules:
        dead = list(_dead_patterns(rule, offered, servers)) or [
            *_without_tools(rule, offered, servers),
            *_dead_conditions(rule, offered, servers),
        ]
        hiding = _hiding(rule, rules[: rule.index], servers)
        if hiding:
            named = " and ".join(map(label, hiding))
            dead.append(
                DeadRule(rule=rule.index, problem=f"is never reached: {named} always matches before it")
            )
        found += dead
    return found


def _dead_patterns(
    rule: Rule, offered: Mapping[str, Sequence[PolicyTarget]], servers: Collection[str]
) -> Iterator[DeadRule]:
    for kind, key in SELECTOR.items():
        for pattern in rule.patterns[kind]:
            named = [alias for alias in servers if pattern.names(alias)]
            if not named:
                problem = f"{key}: {pattern.text!r} matches no server"
                meant = _close(pattern.text.partition("/")[0], servers) or _close(pattern.text, servers)
                yield DeadRule(rule=rule.index, problem=problem, near_misses=meant)
            elif _matches_nothing(pattern, kind, named, offered):
                problem = f"{key}: {pattern.text!r} matches no {kind}"
                meant = _meant(
                    pattern, [each for targets in offered.values() for each in targets if each.kind == kind]
                )
                yield DeadRule(rule=rule.index, problem=problem, near_misses=meant)
            elif kind == "resource":
                yield from _dead_resource(rule, pattern, named, offered)


def _dead_resource(
    rule: Rule, pattern: Pattern, named: Sequence[str], offered: Mapping[str, Sequence[PolicyTarget]]
) -> Iterator[DeadRule]:
    """A pattern that seems to mean a listed resource, and matches none."""
    targets = [each for alias in named for each in offered.get(alias, ()) if each.kind == "resource"]
    is_known = all(alias in offered for alias in named) and not any("{" in each.name for each in targets)
    if not is_known or any(map(pattern.matches, targets)):
        return
    # Without the scheme, which all of them may share.
    tails = {_tail(each.name): f"{each.server}/{each.name}" for each in targets}
    meant = tuple(tails[tail] for tail in _close(_tail(pattern.text.partition("/")[2]), tails))
    is_exact = not any(sign in pattern.text for sign in "*?[")
    if meant or is_exact:  # other resources may be read without being listed
        problem = f"resources: {pattern.text!r} matches no resource that is listed"
        yield DeadRule(rule=rule.index, problem=problem, near_misses=meant, is_note=not meant)


def _tail(uri: str) -> str:
    return uri.partition("://")[2] or uri


def _dead_conditions(
    rule: Rule, offered: Mapping[str, Sequence[PolicyTarget]], servers: Collection[str]
) -> Iterator[DeadRule]:
    if rule.validator is None or any(rule.patterns[kind] for kind in SELECTOR if kind != "tool"):
        return
    patterns = rule.patterns["tool"]
    named = [alias for alias in servers if not patterns or any(each.names(alias) for each in patterns)]
    if any(alias not in offered for alias in named):
        return
    targets = [each for alias in named for each in offered[alias] if each.kind != "request"]
    is_about_all = not rule.config.selects and rule.config.hint is None
    if is_about_all and any(each.kind != "tool" for each in targets):
        return  # it is about resources and prompts, too, whose arguments are not known here
    tools = [each for each in targets if each.kind == "tool" and rule.holds(each) != "no"]
    for one in dead_conditions(rule, tools):
        meant = _close(one.name, one.known)
        yield DeadRule(rule=rule.index, problem=f"arguments: {one.problem}", near_misses=meant)


def _matches_nothing(
    pattern: Pattern, kind: Kind, named: Sequence[str], offered: Mapping[str, Sequence[PolicyTarget]]
) -> bool:
    # A resource may be read without being listed, and a request is not listed at all.
    if kind in ("resource", "request") or any(alias not in offered for alias in named):
        return False
    targets = (target for alias in named for target in offered[alias] if target.kind == kind)
    return not any(map(pattern.matches, targets))


def _without_tools(
    rule: Rule, offered: Mapping[str, Sequence[PolicyTarget]], servers: Collection[str]
) -> Iterator[DeadRule]:
    """A note about a hint that no tool has, or that has no effect without trust."""
    hint = rule.config.hint
    if hint is None or any(alias not in offered for alias in servers):
        return
    targets = [target for each in offered.values() for target in each if target.kind == "tool"]
    found = {holds(hint, target.spec) for target in targets if rule.selects(target)}
    if not found & {"yes", "word"}:
        problem = f"no tool that it is about has the hint {hint!r}"
        yield DeadRule(rule=rule.index, problem=problem, is_note=True)
    elif "yes" not in found and rule.loosens:
        untrusted = "only servers without `trust_annotations: true`"
        problem = f"{untrusted} mark tools as {hint}, and their word allows nothing"
        yield DeadRule(rule=rule.index, problem=problem, is_note=True)


def _hiding(rule: Rule, earlier: Sequence[Rule], servers: Collection[str]) -> list[int]:
    """The earlier rules that always match when this one does; empty if it can be reached."""
    found: set[int] = set()
    for kind, pattern in _selected(rule):
        hiding = (other for other in earlier if _hides(other, rule, kind, pattern, servers))
        first = next(hiding, None)
        if first is None:
            return []
        found.add(first.index)
    return sorted(found)


def _hides(other: Rule, rule: Rule, kind: Kind, pattern: str, servers: Collection[str]) -> bool:
    """Whether a rule always matches before another one does by this pattern."""
    hint = other.config.hint
    if other.validator is not None or hint not in _WHOEVER_SAYS_SO or hint not in (None, rule.config.hint):
        return False
    return any(kind == its and _covers(wide, pattern, servers) for its, wide in _selected(other))


def _selected(rule: Rule) -> list[tuple[Kind, str]]:
    if rule.config.selects:
        return [(kind, pattern.text) for kind, each in rule.patterns.items() for pattern in each]
    kinds: tuple[Kind, ...] = ("tool",) if rule.config.hint else ("tool", "resource", "prompt")
    return [(kind, "*") for kind in kinds]


def _covers(wide: str, narrow: str, servers: Collection[str]) -> bool:
    """Whether one pattern surely matches all that another one does."""
    if wide in (narrow, "*", "*/*"):
        return True
    # A `*` of the narrow one stands for any text, so only a `*` may match it. Other signs are not compared,
    # nor is a pattern that can be divided in two ways.
    if any(sign in wide for sign in "?[") or "[" in narrow or narrow == "*":
        return False
    if any("/" in alias and Pattern(narrow, loosens=True).names(alias) for alias in servers):
        return False
    server, _, name = narrow.partition("/")
    return Pattern(wide, loosens=True).matches(PolicyTarget(kind="tool", server=server, name=name))


def _meant(pattern: Pattern, targets: Sequence[PolicyTarget]) -> tuple[str, ...]:
    """The likely targets of a pattern: similar names on its servers, or else similar servers and names."""
    whole = {f"{each.server}/{each.name}": each for each in targets}
    named = {each.name: shown for shown, each in whole.items() if pattern.names(each.server)}
    close = _close(pattern.text.partition("/")[2], named)
    return tuple(named[name] for name in close) or _close(pattern.text, whole)


def _close(written: str, known: Collection[str]) -> tuple[str, ...]:
    """The known names that resemble a pattern."""
    names: dict[str, str] = {}
    for name in known:
        if len(name) <= _LONGEST_COMPARED and len(names) < _MOST_COMPARED:
            names.setdefault(name.casefold(), name)
    plain = written[:_LONGEST_COMPARED].casefold().replace("*", "")
    return tuple(names[each] for each in get_close_matches(plain, names, n=_NEAR_MISSES))
