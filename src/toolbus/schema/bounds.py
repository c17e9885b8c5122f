"""What is too deep or too large to validate.

A validator visits a schema again for every reference to it. References that branch therefore cost exponential
time, and references that recurse need as much stack as the value is deep: enough of either ends the process.
"""

from collections.abc import Iterator, Sequence

from toolbus.schema.keywords import REFERENCES, parts
from toolbus.schema.references import MISSING, References
from toolbus.schema.values import JSON, Node, is_array, is_object, json_copy

_MOST_VISITS = 10_000
"""How many schemas may be visited for one value."""
_MOST_NESTED_VISITS = 1_000_000
"""How many may be visited for the innermost values of one that a recursive schema describes."""
_SAME_VALUE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
"""Keywords whose schemas apply to the value itself, not to one inside it."""
_NO_VALUE = {"$defs", "definitions"}


class Bounds:
    """How much work one schema makes."""

    def __init__(self, document: JSON, nodes: Sequence[Node]) -> None:
        """Measure a document by all schemas in it."""
        self._references = References(document)
        self._counted: dict[int, tuple[int, int]] = {}
        if all(key not in node for node in nodes for key in REFERENCES):
            nodes = ()  # without references, the work is bounded by the size
        counts = [self._count(node) for node in nodes]
        self.is_exceeded = any(visits > _MOST_VISITS for visits, _ in counts)
        """Whether the schema must not be used at all."""
        self.is_recursive = not self.is_exceeded and self._recurses(nodes)
        self._growth = max((branches for _, branches in counts), default=0)

    def check(self, value: JSON) -> None:
        """Raise ValueError if a value is too deep for this schema."""
        if self.is_recursive and self._growth ** _depth(json_copy(value)) > _MOST_NESTED_VISITS:
            raise ValueError("nested too deeply for a schema that branches and recurses")

    def _count(self, node: JSON) -> tuple[int, int]:
        """How many schemas apply to one value, and how many of these to the values inside it."""
        if not is_object(node):
            return 1, 0
        if id(node) not in self._counted:
            # Until it is known. It stays if the schema applies itself, which would never end.
            self._counted[id(node)] = _MOST_VISITS + 1, 0
            inner = [self._count(each) for each in self._applied(node)]
            visits = 1 + sum(each[0] for each in inner)
            is_branch = any(steps[0] not in _SAME_VALUE | _NO_VALUE for steps, _ in parts(node))
            self._counted[id(node)] = visits, is_branch + sum(each[1] for each in inner)
        return self._counted[id(node)]

    def _applied(self, node: Node) -> Iterator[JSON]:
        """The schemas that apply to the same value as the node does."""
        for key in REFERENCES:
            if key in node and (target := self._references.target(node[key])) is not MISSING:
                yield target
        yield from (inner for steps, inner in parts(node) if steps[0] in _SAME_VALUE)

    def _recurses(self, nodes: Sequence[Node]) -> bool:
        """Whether a schema leads back to itself."""
        is_finished: dict[int, bool] = {}

        def leads_back(node: JSON) -> bool:
            if not is_object(node):
                return False
            if id(node) not in is_finished:
                is_finished[id(node)] = False
                inside = (inner for steps, inner in parts(node) if steps[0] not in _NO_VALUE)
                if any(map(leads_back, self._applied(node))) or any(map(leads_back, inside)):
                    return True
                is_finished[id(node)] = True
            return not is_finished[id(node)]

        return any(map(leads_back, nodes))


def _depth(value: JSON) -> int:
    if is_array(value):
        return 1 + max(map(_depth, value), default=0)
    return 1 + max(map(_depth, value.values()), default=0) if is_object(value) else 0
