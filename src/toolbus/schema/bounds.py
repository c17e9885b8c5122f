"""How much work a schema makes: what is too deep or too large to validate.

A validator visits a schema again for every reference to it. References that branch therefore cost exponential
time, and references that recurse need as much stack as the value is deep: enough of either ends the process.
Patterns cost time for every character. So the work is bounded before a schema is compiled, and before a
value is validated.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from toolbus.schema.keywords import REFERENCES, SCHEMA_KEYWORDS, parts
from toolbus.schema.patterns import MOST_STEPS, state_count
from toolbus.schema.references import MISSING, References
from toolbus.schema.values import JSON, Node, entries_of, is_object

MOST_VISITS = 10_000
"""How many schemas may be visited for one value."""
MOST_WORK = 500_000
"""How many schemas may be visited for a whole value; each takes about 50 ns."""
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
    """How many schemas apply to one value inside it."""

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
    """How much work one schema makes."""

    def __init__(self, document: JSON, nodes: Sequence[Node]) -> None:
        """Measure a document by all schemas in it."""
        self._references = References(document)
        self._applied_to: dict[int, list[JSON]] = {}
        self._here: dict[int, _Work] = {}
        self._inside: dict[int, _Work] = {}
        self.unresolved = self._unresolved(nodes)
        """What is wrong with its references; None if they are valid."""
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
            own = _Work(visits, _states(node), _branches(node)).plus(*inner)
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
        """Whether a schema leads back to itself."""
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
    """How many schemas directly inside a node apply to one value inside its value."""
    keys = {steps[0] for steps, _ in parts(node) if _is_below(steps[0])}
    return bool(keys - _EACH) + len(entries_of(node.get("patternProperties"))) + ("contains" in keys)


def _states(node: Node) -> int:
    pattern = node.get("pattern")
    own = state_count(pattern) if isinstance(pattern, str) else 0
    return own + sum(map(state_count, entries_of(node.get("patternProperties"))))


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
