"""Convert the top level of a schema to what every provider requires: one object.

The arguments of a call are always an object, so reading the top level as one loses nothing; but alternatives
of objects become one object that accepts them all.
"""

from collections.abc import Sequence

from toolbus.core.records import JSON
from toolbus.schema.merge import is_impossible, merged
from toolbus.schema.normalize import same
from toolbus.schema.reader import Place
from toolbus.schema.values import Node, is_array
from toolbus.shape.dialects.conversion import Conversion, describe


def as_object(conversion: Conversion, node: Node, at: Place) -> Node:
    """The node of the top level as one object without alternatives."""
    types = node.get("type", "object")
    if "object" not in (types if is_array(types) else [types]):
        conversion.note("permissive", at, f"the arguments are treated as an object, not as {types!r}", "type")
        node = {key: node[key] for key in ("description", "title") if key in node}
    elif types != "object" or "type" not in node:
        conversion.note("lossless", at, "the arguments are an object", "type")
    node = _without_alternatives(conversion, {**node, "type": "object"}, at)
    if "properties" not in node and not conversion.rules.subset:
        conversion.note("lossless", at, "an empty `properties` was added", "properties")
        node["properties"] = {}
    hidden = [key for key in node if key in conversion.rules.not_at_top]
    words = conversion.in_words(node, hidden, at)
    node = {key: value for key, value in node.items() if key not in hidden}
    describe(node, words)
    return node


def _without_alternatives(conversion: Conversion, node: Node, at: Place) -> Node:
    for key in ("anyOf", "oneOf"):
        if key in node:
            branches = node.pop(key)
            node = _union(conversion, node, branches, at, key)
    return node


def _union(conversion: Conversion, base: Node, branches: Sequence[JSON], at: Place, key: str) -> Node:
    alternatives: list[Node] = []
    for number, branch in enumerate(branches):
        if branch is False:
            continue
        inner, place = conversion.node(branch, at.into(f"{key}/{number}"))
        alternative = merged(base, inner)
        if not is_impossible(alternative):
            alternatives.append(_without_alternatives(conversion, {**alternative, "type": "object"}, place))
    if len(alternatives) == 1:
        conversion.note("lossless", at, f"`{key}` has one possible alternative", key)
        return alternatives[0]
    if not alternatives:
        conversion.note("widened", at, f"no alternative of `{key}` is possible", key)
        return base
    conversion.note(
        "widened",
        at,
        f"{len(alternatives)} alternatives of `{key}` became one object that accepts them all",
        key,
    )
    result: Node = {**base, "properties": _all_properties(alternatives)}
    if _is_closed(alternatives):
        result["additionalProperties"] = False
    else:
        result.pop("additionalProperties", None)
    common = [
        n
        for n in alternatives[0].get("required", ())
        if all(n in other.get("required", ()) for other in alternatives)
    ]
    result.pop("required", None)
    if common:
        result["required"] = common
    needs = [
        ", ".join(n for n in alternative.get("required", ()) if n not in common)
        for alternative in alternatives
    ]
    if any(needs):
        describe(result, [f"give one of these sets: {' | '.join(need or 'none' for need in needs)}"])
    return result


def _all_properties(alternatives: Sequence[Node]) -> Node:
    found: dict[str, list[JSON]] = {}
    for alternative in alternatives:
        for name, schema in alternative.get("properties", {}).items():
            known = found.setdefault(name, [])
            if not any(same(schema, other) for other in known):
                known.append(schema)
    return {name: known[0] if len(known) == 1 else {"anyOf": known} for name, known in found.items()}


def _is_closed(alternatives: Sequence[Node]) -> bool:
    """Whether every alternative forbids undeclared properties."""
    return all(
        alternative.get("additionalProperties") is False and not alternative.get("allOf")
        for alternative in alternatives
    )
