"""Merge two schema nodes that both apply, as in `allOf` or beside a `$ref`.

Keywords that cannot be merged stay in the `allOf` of the result.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from toolbus.schema.keywords import ANNOTATIONS, words
from toolbus.schema.values import JSON, Node, is_array
from toolbus.schema.work import Work

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
