"""Read a schema node with its references followed and its `allOf` merged.

No server can make reading slow. A definition is expanded inside itself at most `RECURSION` times, and one
reader reads at most `PLACES` nodes. All work is counted in steps, never in seconds, so the limit is the same
on every machine. A step is a JSON value that is read, compared or written, or a few characters of text.
References, `allOf` and alternatives can multiply a small schema into a huge one. So a reader gets steps in
proportion to the size of the schema. Real schemas take a small part of them.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from toolbus.schema.keywords import ANNOTATIONS, DEEPEST, IDENTITY, REFERENCES, part_kind, quoted, words
from toolbus.schema.normalize import LossKind, Note, normalized
from toolbus.schema.references import MISSING, References
from toolbus.schema.values import JSON, Node, entries_of, is_array, is_object

LEAST_STEPS = 10_000
"""The minimum number of steps for any schema."""
STEPS_PER_VALUE = 10
"""And for each value of the schema."""
_TEXT = 16
"""The number of characters that weigh as much as a value."""
_LARGEST = 20_000
"""The most that a value counts: a program may put the same object into a schema any number of times."""


class TooMuchWork(Exception):
    """A schema takes more steps than it may."""


class Work:
    """The steps that reading one schema may still take."""

    __slots__ = ("_sizes", "left", "most")

    def __init__(self, schema: JSON) -> None:
        """Allow steps in proportion to the size of a schema."""
        self.most = self.left = LEAST_STEPS + STEPS_PER_VALUE * size_of(schema)
        self._sizes: dict[int, tuple[Node, int]] = {}
        """Of nodes, by identity; they are kept, so that no other object gets it."""

    def allows(self, steps: int) -> bool:
        """Take so many steps; False if there are not enough left."""
        self.left -= steps
        return self.left >= 0

    def spend(self, steps: int) -> None:
        """Take so many steps; TooMuchWork if there are not enough left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork(f"it takes more than {self.most:,} steps to read")

    def spend_text(self, *lengths: int) -> None:
        """Take the steps of texts with these lengths."""
        self.spend(1 + sum(lengths) // _TEXT)

    def read(self, node: Node) -> None:
        """Take the steps of a node, without the schemas inside it."""
        known = self._sizes.get(id(node))
        if known is None:
            known = self._sizes[id(node)] = node, _own_size(node)
        self.spend(known[1])

    def written(self, value: JSON) -> str:
        """The value as JSON text, the same for equal values."""
        try:
            text = json.dumps(value, sort_keys=True)
        except RecursionError:  # nested too deeply to compare: it equals only itself
            text = f"{id(value)}"
        self.spend_text(len(text))
        return text

    def same(self, a: JSON, b: JSON) -> bool:
        """Whether two values are the same JSON; unlike `==`, keeps `true` and `1` apart."""
        if a is b:
            return True
        if type(a) is not type(b):
            return False
        return a == b if isinstance(a, str) else self.written(a) == self.written(b)


def size_of(value: JSON) -> int:
    """The number of values in a JSON value, itself included, up to a limit; long texts add more."""
    size, waiting = 0, [value]
    while waiting and size < _LARGEST:
        item = waiting.pop()
        size += 1
        if isinstance(item, str):
            size += len(item) // _TEXT
        elif is_object(item):
            size += sum(map(len, item)) // _TEXT
            waiting.extend(item.values())
        elif is_array(item):
            waiting.extend(item)
    return min(size, _LARGEST)


def _own_size(node: Node) -> int:
    size = 1 + len(node)
    for key, value in node.items():
        kind = part_kind(key, value)
        if kind is None:
            size += size_of(value)
        elif kind != "one":
            size += len(value) + (sum(map(len, value)) // _TEXT if kind == "named" else 0)
    return size


_CLASH: Final = object()

# Keywords that only make sense together. Each group is taken from one side, never mixed.
_GROUPS = (
    ("items", "prefixItems"),
    ("if", "then", "else"),
    ("contains", "minContains", "maxContains"),
)


def merged(outer: Node, inner: Node, work: Work) -> Node:
    """One node that constrains as both do; the annotations of the outer one win."""
    work.spend(1 + sum(len(side) + sum(map(_breadth, side.values())) for side in (outer, inner)))
    result = dict(outer)
    rest: list[Node] = [*outer.get("allOf", ()), *inner.get("allOf", ())]
    _merge_additional(result, (outer, inner), rest, work)
    skip = {"allOf", "additionalProperties", *_taken_groups(outer, inner, rest, work)}
    left: Node = {}
    for key, value in inner.items():
        if key in skip:
            continue
        if key.startswith("unevaluated"):
            left[key] = value  # it depends on its neighbors, which have changed
        elif key not in outer:
            result[key] = value
        elif key not in ANNOTATIONS and not work.same(outer[key], value):
            both = _MERGE.get(key, _clash)(outer[key], value, work)
            if both is _CLASH:
                left[key] = value
            else:
                result[key] = both
    if left:
        rest.append(left)
    result.pop("allOf", None)
    if rest:
        result["allOf"] = rest
    return result


def is_impossible(node: Node) -> bool:
    """Whether the merged sides contradict each other in type or value, so that no value satisfies both."""
    return any(
        key in node and key in left for left in node.get("allOf", ()) for key in ("type", "enum", "const")
    )


def _merge_additional(result: Node, both: tuple[Node, Node], rest: list[Node], work: Work) -> None:
    """Keep `additionalProperties` only where the properties beside it, which it depends on, stay the same."""
    sides = [side for side in both if side.get("additionalProperties", True) is not True]
    names = {name for side in both for name in side.get("properties", ())} if sides else set[str]()
    result.pop("additionalProperties", None)
    for side in sides:
        if names == set(side.get("properties", ())) and not _clashes(result, side, work):
            result["additionalProperties"] = side["additionalProperties"]
        else:
            declared: Node = {name: {} for name in side.get("properties", ())}
            rest.append(
                {"properties": declared}
                | {key: side[key] for key in ("patternProperties", "additionalProperties") if key in side}
            )


def _clashes(result: Node, side: Node, work: Work) -> bool:
    given = result.get("additionalProperties", side["additionalProperties"])
    return "patternProperties" in result or not work.same(given, side["additionalProperties"])


def _taken_groups(outer: Node, inner: Node, rest: list[Node], work: Work) -> Iterable[str]:
    """The keywords of groups that the outer side already uses; the inner ones go to `rest`."""
    for group in _GROUPS:
        if any(key in outer for key in group) and any(key in inner for key in group):
            theirs = {key: inner[key] for key in group if key in inner}
            ours = {key: outer[key] for key in group if key in outer}
            if set(theirs) == set(ours) == {"items"}:
                continue
            if not work.same(theirs, ours):
                rest.append(theirs)
            yield from group


def _breadth(value: JSON) -> int:
    return len(value) if isinstance(value, dict | list) else 0  # pyright: ignore[reportUnknownArgumentType] # JSON


def _clash(*_: JSON) -> JSON:
    return _CLASH


def _types(a: JSON, b: JSON, _: Work) -> JSON:
    ours, theirs = (value if is_array(value) else [value] for value in (a, b))
    # An integer is a number: the narrower type is the common one.
    both = [name for name in ours if name in theirs or (name == "integer" and "number" in theirs)]
    both += [name for name in theirs if name == "integer" and "number" in ours and name not in both]
    return _CLASH if not both else both[0] if len(both) == 1 else both


def _values(a: list[JSON], b: list[JSON], work: Work) -> JSON:
    theirs = set(map(work.written, b))
    return [value for value in a if work.written(value) in theirs] or _CLASH


def _properties(a: Mapping[str, JSON], b: Mapping[str, JSON], work: Work) -> JSON:
    both = {
        name: {"allOf": [a[name], b[name]]} for name in a if name in b and not work.same(a[name], b[name])
    }
    return {**b, **a, **both}


def _smaller(a: JSON, b: JSON, _: Work) -> JSON:
    return min(a, b)


def _larger(a: JSON, b: JSON, _: Work) -> JSON:
    return max(a, b)


_MERGE: Mapping[str, Callable[[JSON, JSON, Work], JSON]] = {
    "type": _types,
    "enum": _values,
    "required": lambda a, b, _: list(dict.fromkeys([*a, *b])),
    "properties": _properties,
    "patternProperties": _properties,
    "items": lambda a, b, _: {"allOf": [a, b]},
    "uniqueItems": lambda a, b, _: a or b,
    **dict.fromkeys(words("minimum exclusiveMinimum minLength minItems minProperties minContains"), _larger),
    **dict.fromkeys(words("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains"), _smaller),
}


RECURSION = 2
PLACES = 2_500
_PATH = 500
"""Characters of a path that take a step to write."""


class Place(NamedTuple):
    """The place of a node: in the schema, in the values it describes, and behind which references."""

    path: str = ""
    data: str = ""
    depth: int = 0
    trail: tuple[str, ...] = ()

    def into(self, keyword: str, step: str | None = None) -> "Place":
        """A subschema; `step` leads to its values, if it describes other values than this one."""
        below = self.data if step is None else f"{self.data}/{step}"
        return Place(f"{self.path}/{keyword}", below, self.depth + 1, self.trail)


def ignored(kind: LossKind, path: str, what: str) -> None:
    """The `note` of a reader whose changes are of no interest."""


class SchemaReader:
    """Reads the nodes of one document, and notes every change; TooMuchWork if that takes too many steps."""

    __slots__ = ("_left", "_note", "_references", "_work")

    def __init__(self, references: References, work: Work, note: Note = ignored) -> None:
        self._references = references
        self._work = work
        self._note = note
        self._left = PLACES

    def node(self, schema: JSON, at: Place) -> tuple[Node, Place]:
        """The node without references and `allOf`, and its place with the references that were followed."""
        self._left -= 1
        self._work.spend(1 + len(at.path) // _PATH)
        if self._left < 0 or at.depth > DEEPEST:
            what = f"the schema has more than {PLACES} places" if self._left < 0 else "nested too deeply"
            self._note("permissive", at.path, f"{what}; any value is accepted here")
            return {}, at
        if not is_object(schema):
            if schema is not True:
                what = "no value is allowed" if schema is False else "this is not a schema"
                self._note("widened", at.path, f"{what}; any value is accepted")
            return {}, at
        # Each of them is read as well, even if only at a glance.
        self._left -= len(entries_of(schema.get("properties")))
        self._work.read(schema)
        node = normalized(schema, self._note, at.path)
        if not at.path and (named := IDENTITY.intersection(schema)):
            self._note("lossless", at.path, f"left out: {', '.join(sorted(named))}")
        for key in REFERENCES:
            if key in schema:
                target, at = self._followed(schema[key], at, key)
                node = merged(node, target, self._work)
        branches = node.pop("allOf", ())
        for number, branch in enumerate(branches):
            inner, place = self.node(branch, at.into(f"allOf/{number}"))
            at = at._replace(trail=place.trail)
            node = merged(node, inner, self._work)
        return node, at

    def _followed(self, reference: JSON, at: Place, keyword: str) -> tuple[Node, Place]:
        target = self._references.target(reference)
        path = f"{at.path}/{keyword}"
        if target is MISSING:
            what = f"{quoted(reference)} points outside the schema and is not fetched; any value is accepted"
            self._note("permissive", path, what)
            return {}, at
        if at.trail.count(reference) >= RECURSION:
            what = f"{keyword}: {reference} contains itself; cut after {RECURSION} levels"
            return self._cut(target, at, what), at
        self._note("lossless", path, f"{reference} is expanded here")
        # One level deeper, so a long chain of references ends where deep nesting does.
        return self.node(target, at._replace(trail=(*at.trail, reference), depth=at.depth + 1))

    def _cut(self, target: JSON, at: Place, what: str) -> Node:
        """All that is left where a definition would be expanded inside itself once more: its type."""
        own = {"type": target["type"]} if is_object(target) and "type" in target else {}
        node = normalized(own, self._note, at.path)
        kind = "widened" if "type" in node else "permissive"
        self._note(kind, at.path, f"{what}, where any {node.get('type', 'value')} is accepted")
        return {**node, "description": "(further levels as above)"}
