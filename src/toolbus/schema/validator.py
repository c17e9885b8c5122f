"""Validate values, in bounded time: checks that would take too long are skipped.

A validator visits a schema again for every reference to it. Branching references therefore cost exponential
time. Recursive references need as much stack as the value is deep. Enough of either ends the process.
Patterns cost time for every character. So the work is bounded before a schema is compiled, and before a value
is validated. A pattern that the validator cannot compile is not checked, either. `format` and
`contentEncoding` are annotations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

from toolbus.schema.keywords import REFERENCES, SCHEMA_KEYWORDS, parts, subschemas
from toolbus.schema.patterns import MOST_STATES, MOST_STEPS, compiled, package, state_count, usable
from toolbus.schema.references import MISSING, References
from toolbus.schema.values import (
    JSON,
    Node,
    entries_of,
    is_array,
    is_larger,
    is_object,
    items_of,
    json_copy,
    value_at,
)

MOST_VISITS = 10_000
"""The number of schemas that may be visited for one value."""
MOST_WORK = 500_000
"""The maximum number of schemas visited for a whole value; each takes about 50 ns."""
_FEW = 4
"""A schema that is visited at most so often takes no longer than reading the value took."""
_DEEPEST = 50
_SAME_VALUE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
"""Keywords whose schemas apply to the value itself, not to one inside it."""
_NO_VALUE = {"$defs", "definitions"}
_EACH = {"patternProperties", "contains", "propertyNames"}
"""Keywords whose schemas apply to a value inside beside other ones."""
_SLOW = frozenset(["contains", "uniqueItems"])
_SLOW_VISITS = 8
_RECHECKED = ("unevaluatedProperties", "unevaluatedItems")
"""Keywords for which the schemas beside them are visited once more."""

_HOLDERS = (dict, list, tuple)

_COSTLY = frozenset([*SCHEMA_KEYWORDS, *REFERENCES, "pattern", *_SLOW])


class _Work(NamedTuple):
    """The most that one value costs."""

    visits: int = 0
    states: int = 0
    """Of patterns, for each character."""
    branches: int = 0
    """The number of schemas that apply to one value inside it."""

    def plus(self, *others: "_Work") -> "_Work":
        return _Work(*map(sum, zip(self, *others, strict=True)))

    def times(self, factor: int) -> "_Work":
        return _Work(*(count * factor for count in self))

    def at_least(self, *others: "_Work") -> "_Work":
        return _Work(*map(max, zip(self, *others, strict=True)))


_ONE = _Work(visits=1)
_NONE = _Work()
_ENDLESS = _Work(visits=MOST_VISITS + 1)


class Bounds:
    """The work that one schema causes."""

    def __init__(self, document: JSON, nodes: Sequence[Node]) -> None:
        """Measure a document by all schemas in it."""
        self._references = References(document)
        self._applied_to: dict[int, list[JSON]] = {}
        self._here: dict[int, _Work] = {}
        self._inside: dict[int, _Work] = {}
        self.unresolved = self._unresolved(nodes)
        """The problem with its references; None if they are valid."""
        self.is_exceeded = False
        """Whether the schema takes too long to be used at all."""
        counts = [] if self.unresolved else [self._work_here(node) for node in nodes]
        self._is_recursive = bool(counts) and self._recurses(nodes)
        work = _Work().at_least(*counts)
        self._growth = work.branches
        if not self._is_recursive and counts:
            work = self._work_inside(document)
        if any(each.visits > MOST_VISITS for each in (work, *counts)):
            self.is_exceeded = True
        self._work = work
        self.is_cheap = not self._is_recursive and work.visits <= _FEW and not work.states
        """Whether any value may be validated."""

    def allows(self, value: JSON) -> bool:
        """Whether a value can be validated in reasonable time."""
        if self.is_cheap:
            return True
        visits, states, _ = self._work
        growth = max(1, self._growth) if self._is_recursive else 1
        work = steps = 0
        level, factor = [value], 1
        for _ in range(_DEEPEST):
            work += visits * factor * len(level)
            if states:
                steps += states * factor * _characters(level)
            if work > MOST_WORK or steps > MOST_STEPS:
                return False
            level = [inner for outer in level if isinstance(outer, _HOLDERS) for inner in _values(outer)]
            if not level:
                return True
            factor = min(factor * growth, MOST_WORK)
        return False

    def _unresolved(self, nodes: Sequence[Node]) -> str | None:
        references = [node[key] for node in nodes for key in REFERENCES if key in node]
        if not references:
            return None
        if self._references.is_ambiguous:
            return "its references are ambiguous"
        missing = (given for given in references if self._references.target(given) is MISSING)
        return next((f"{given!s:.200} is not in the schema" for given in missing), None)

    def _work_here(self, node: JSON) -> _Work:
        """The work of one value, without the values inside it."""
        if not is_object(node) or _is_plain(node):
            return _ONE
        if id(node) not in self._here:
            # Until it is known. It stays if the schema applies itself, which would never end.
            self._here[id(node)] = _ENDLESS
            inner = [self._work_here(each) for each in self._applied(node)]
            visits = 1 if _SLOW.isdisjoint(node) else _SLOW_VISITS
            own = _Work(visits, _states_in(node), _branches(node)).plus(*inner)
            self._here[id(node)] = _capped(own.times(2 if _is_rechecked(node) else 1))
        return self._here[id(node)]

    def _work_inside(self, node: JSON) -> _Work:
        """The most work of one value or of any value inside it; only if the schema does not recurse."""
        if not is_object(node) or _is_plain(node):
            return _ONE
        return self._work_here(node).at_least(self._work_below(node))

    def _work_below(self, node: JSON) -> _Work:
        """The most work of any value inside one."""
        if not is_object(node) or _is_plain(node):
            return _NONE
        if id(node) not in self._inside:
            self._inside[id(node)] = _ENDLESS
            below = [(steps[0], inner) for steps, inner in parts(node) if _is_below(steps[0])]
            one = [self._work_inside(inner) for key, inner in below if key not in _EACH]
            each = [self._work_inside(inner) for key, inner in below if key in _EACH]
            applied = [self._work_below(inner) for inner in self._applied(node)]
            found = _Work().at_least(*one).plus(*each, *applied)
            self._inside[id(node)] = _capped(found.times(2 if _is_rechecked(node) else 1))
        return self._inside[id(node)]

    def _applied(self, node: Node) -> list[JSON]:
        """The schemas that apply to the same value as the node does."""
        known = self._applied_to.get(id(node))
        if known is None:
            targets = [self._references.target(node[key]) for key in REFERENCES if key in node]
            same = [inner for steps, inner in parts(node) if steps[0] in _SAME_VALUE]
            known = self._applied_to[id(node)] = [each for each in targets if each is not MISSING] + same
        return known

    def _recurses(self, nodes: Sequence[Node]) -> bool:
        is_finished: dict[int, bool] = {}

        def leads_back(node: JSON) -> bool:
            if not is_object(node) or _is_plain(node):
                return False
            if id(node) not in is_finished:
                is_finished[id(node)] = False
                inside = (inner for steps, inner in parts(node) if steps[0] not in _NO_VALUE)
                if any(map(leads_back, self._applied(node))) or any(map(leads_back, inside)):
                    return True
                is_finished[id(node)] = True
            return not is_finished[id(node)]

        return any(map(leads_back, nodes))


def _is_plain(node: Node) -> bool:
    """Whether it has no schemas inside, no references and no patterns: true for most."""
    return _COSTLY.isdisjoint(node)


def _is_below(keyword: str) -> bool:
    return keyword not in _SAME_VALUE and keyword not in _NO_VALUE


def _is_rechecked(node: Node) -> bool:
    return any(key in node for key in _RECHECKED)


def _branches(node: Node) -> int:
    """The number of schemas directly inside a node that apply to one value inside its value."""
    keys = {steps[0] for steps, _ in parts(node) if _is_below(steps[0])}
    return bool(keys - _EACH) + len(entries_of(node.get("patternProperties"))) + ("contains" in keys)


def _states_in(node: Node) -> int:
    return sum(map(_states, [node.get("pattern"), *entries_of(node.get("patternProperties"))]))


def _capped(work: _Work) -> _Work:
    # Beyond these the schema is not used: no need for numbers of many digits.
    return _Work(*(min(count, 10 * MOST_STEPS) for count in work))


def _values(value: JSON) -> Iterable[JSON]:
    return value.values() if is_object(value) else cast("Iterable[JSON]", value)


def _characters(values: list[JSON]) -> int:
    """Of the strings, and of the names in objects."""
    count = 0
    for value in values:
        if isinstance(value, str):
            count += len(value)
        elif is_object(value):
            count += sum(map(len, value))
    return count


_DEEPEST_SCHEMA = 80
_MOST_FAULTS = 100
_LARGE = 1_000
_MOST_SCHEMAS = 5_000
_MOST_PATTERNS = 300
"""Compiling one takes about 30 us."""
_MOST_STATES = 10_000
"""Of all patterns; compiling takes about a microsecond for each."""
_BESIDE_NULLABLE = {"$schema", "$id", "$defs", "definitions", "title", "description", "default", "examples"}


class InvalidSchema(ValueError):
    """A schema that cannot be used; the message says why."""


class TooCostly(InvalidSchema):
    """A schema that would take too long to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One reason why a value is invalid."""

    path: tuple[str | int, ...]
    """The path from the root of the value to the place."""
    keyword: str | None
    """None where the schema is `false`."""
    limit: JSON
    """The value of the keyword."""
    schema: JSON
    value: JSON
    message: str
    branches: "tuple[tuple[Fault, ...], ...]" = ()
    """The faults of each alternative of `anyOf` or `oneOf`."""


class Validator:
    """Validates values against one schema. InvalidSchema if it is invalid, endless or too large."""

    def __init__(self, schema: JSON) -> None:
        try:
            self.schema: JSON = _checkable(schema)
            """The schema as it is used, with OpenAPI's `nullable` rewritten as JSON Schema."""
            nodes = [node for _, node in subschemas(self.schema)]
            nullable = [node for node in nodes if node.get("nullable") is True]
            # Allowing null may also make a value invalid: if a second alternative of `oneOf` accepts it.
            literal = compiled(self.schema) if nullable else None
            self._is_literally_valid = literal and literal.is_valid
            for node in nullable:
                _allow_null(node)
            self._bounds = Bounds(self.schema, nodes)
            if self._bounds.unresolved is not None:
                raise InvalidSchema(self._bounds.unresolved)
            if self._bounds.is_exceeded:
                raise TooCostly("its references are endless, or too many")
            self._compiled = compiled(self.schema)
            self._is_valid = self._compiled.is_valid
        except BaseException as error:
            if isinstance(error, InvalidSchema) or not _is_unreadable(error):
                raise
            raise InvalidSchema((str(error).splitlines() or ["cannot be read"])[0]) from None
        self.is_large = is_larger(self.schema, _LARGE)
        """Whether it is too large to explain or repair an invalid value in reasonable time."""
        self._parts: Any = None
        self._pointers: dict[int, str] = {}
        self._references = References(self.schema)

    def accepts(self, value: JSON) -> bool | None:
        """Whether the whole value is valid; None if that cannot be checked."""
        try:  # not `with`, which takes half as long as the validation itself
            if not self._bounds.is_cheap and not self._bounds.allows(value):
                return None
            if self._is_valid(value):
                return True
            return self._is_literally_valid is not None and self._is_literally_valid(value)
        except BaseException as error:
            if not _is_unreadable(error):
                raise
            return None

    def fits(self, value: JSON, schema: JSON) -> bool:
        """Whether a value is known to be valid against a schema that is part of this one."""
        if isinstance(schema, bool):
            return schema
        with _UNREADABLE_IGNORED:
            if self._parts is None:
                self._pointers = {id(node): _pointer(steps) for steps, node in subschemas(self.schema)}
                self._parts = compiled(self.schema, "validator_map_for")
            pointer = self._pointers.get(id(schema))
            if pointer is None:  # merged by the reader
                return set(schema) == {"allOf"} and all(self.fits(value, part) for part in schema["allOf"])
            part = self._parts.get(pointer)
            return part is not None and self._bounds.allows(value) and part.is_valid(value)
        return False

    def explanation(self, value: JSON) -> str | None:
        """The most general reason why a value is invalid, in one line; None if that cannot be found out."""
        if self.is_large or is_larger(value, _LARGE):
            return self.first_fault(value)
        # The least specific one: others may only follow from it.
        found = sorted(self.faults(value), key=lambda fault: len(fault.path))
        return found[0].message if found else None

    def first_fault(self, value: JSON) -> str | None:
        """The first reason why the value is invalid, in one line; None if that cannot be found out."""
        if is_larger(value, _LARGE):
            return None  # the reason would quote all of it
        with _UNREADABLE_IGNORED:
            try:
                self._compiled.validate(value)
            except package().ValidationError as error:
                return str(error.message).splitlines()[0]
        return None

    def faults(self, value: JSON) -> list[Fault]:
        """The reasons why the value is invalid, by place; empty if they cannot be found out."""
        with _UNREADABLE_IGNORED:
            errors = self._compiled.iter_errors(value) if self._bounds.allows(value) else ()
            found = [self._fault(error, value) for error in islice(errors, _MOST_FAULTS)]
            return sorted(found, key=lambda fault: [_sortable(step) for step in fault.path])
        return []

    def _fault(self, error: Any, value: JSON) -> Fault:
        kind, steps = error.kind, error.evaluation_path
        is_false = kind.name == "falseSchema"
        schema = self._at(steps if is_false else steps[:-1])
        keyword = str(steps[-1]) if steps and not is_false else ""
        branches = kind.value if kind.name in ("anyOf", "oneOf") else ()
        is_name = kind.name == "propertyNames"
        return Fault(
            path=tuple(error.instance_path),
            keyword=keyword or None,
            limit=schema.get(keyword) if is_object(schema) else None,
            schema=schema,
            value=kind.value.instance if is_name else value_at(value, error.instance_path),
            message=error.message.splitlines()[0],
            branches=tuple(tuple(self._fault(inner, value) for inner in branch) for branch in branches),
        )

    def _at(self, steps: Sequence[str | int]) -> JSON:
        """The schema that a validation came to."""
        node = self.schema
        for step in steps:
            node = value_at(node, [step])
            if step in REFERENCES and isinstance(node, str):
                node = self._references.target(node)
        return node if is_object(node) or isinstance(node, bool) else {}


def _checkable(schema: JSON) -> JSON:
    """A copy without the parts that cannot be checked, or are not meant to be."""
    copy = json_copy(schema, _DEEPEST_SCHEMA)
    if not is_object(copy) and not isinstance(copy, bool):
        raise InvalidSchema("it is neither an object nor a boolean")
    patterns = states = 0
    for number, (place, node) in enumerate(subschemas(copy)):
        if number > _MOST_SCHEMAS:
            raise TooCostly(f"it consists of more than {_MOST_SCHEMAS:,} schemas")
        written = [text for text in (node.get("pattern"), *entries_of(node.get("patternProperties"))) if text]
        patterns += len(written)
        states += sum(count for text in written if (count := _states(text)) <= MOST_STATES)
        if patterns > _MOST_PATTERNS or states > _MOST_STATES:
            raise TooCostly("it has too many patterns, or too large ones")
        _drop_unchecked(node)
        if place:
            node.pop("$schema", None)
    jsonschema_rs = package()
    if is_object(copy) and jsonschema_rs.validator_cls_for(copy) is jsonschema_rs.Draft202012Validator:
        copy.pop("$schema", None)  # an unknown draft counts as the newest
    return copy


def _states(pattern: JSON) -> int:
    return state_count(pattern) if isinstance(pattern, str) else 0


def _drop_unchecked(node: Node) -> None:
    """Remove the keywords that are annotations, and the patterns that cannot be used."""
    node.pop("contentEncoding", None)
    node.pop("contentMediaType", None)
    if isinstance(pattern := node.get("pattern"), str) and usable(pattern) is None:
        del node["pattern"]
    named = node.get("patternProperties")
    if is_object(named) and any(usable(text) is None for text in named):
        node["patternProperties"] = {text: inner for text, inner in named.items() if usable(text) is not None}
        # They depend on which names match.
        node.pop("additionalProperties", None)
        node.pop("unevaluatedProperties", None)


def _allow_null(node: Node) -> None:
    """Rewrite OpenAPI's `nullable: true`."""
    del node["nullable"]
    types = node.get("type")
    if types is None:
        inner = {key: node.pop(key) for key in node.keys() - _BESIDE_NULLABLE}
        node["anyOf"] = [inner, {"type": "null"}]
        return
    node["type"] = [*(types if is_array(types) else [types]), "null"]
    if "enum" in node:
        node["enum"] = [*items_of(node["enum"]), None]


def _is_unreadable(error: BaseException) -> bool:
    """Whether an error only means that jsonschema-rs cannot read a schema or a value."""
    # A panic inside it has no type that could be imported.
    known = isinstance(error, ValueError | TypeError | RecursionError | OverflowError)
    return known or type(error).__name__ == "PanicException"


class _UnreadableIgnored:
    """Suppresses the errors of schemas and values that cannot be read."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return error is not None and _is_unreadable(error)


_UNREADABLE_IGNORED = _UnreadableIgnored()


def _pointer(steps: Sequence[str]) -> str:
    return "".join(["#", *(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)])


def _sortable(step: str | int) -> str:
    return step if isinstance(step, str) else f"{step:09}"
