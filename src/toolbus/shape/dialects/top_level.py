"""Convert the top level of a schema to what every provider requires: one object.

The arguments of a call are always an object, so reading the top level as one loses nothing; but alternatives
of objects become one object that accepts them all.
"""

from collections.abc import Sequence

from toolbus.core.values.records import JSON
from toolbus.schema.reader import Place, is_impossible, merged
from toolbus.schema.values import Node, is_array
from toolbus.shape.dialects.conversion import SchemaConversion, describe


def as_object(conversion: SchemaConversion, node: Node, at: Place) -> Node:
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


def _without_alternatives(conversion: SchemaConversion, node: Node, at: Place) -> Node:
    for key in ("anyOf", "oneOf"):
        if key in node:
            branches = node.pop(key)
            node = _union(conversion, node, branches, at, key)
    return node


def _union(conversion: SchemaConversion, base: Node, branches: Sequence[JSON], at: Place, key: str) -> Node:
    alternatives: list[Node] = []
    for number, branch in enumerate(branches):
        if branch is False:
            continue
        inner, place = conversion.node(branch, at.into(f"{key}/{number}"))
        alternative = merged(base, inner, conversion.work)
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
    result: Node = {**base, "properties": _all_properties(conversion, alternatives)}
    if _is_closed(alternatives):
        result["additionalProperties"] = False
    else:
        result.pop("additionalProperties", None)
    conversion.work.spend(sum(len(one) + len(one.get("required", ())) for one in alternatives))
    required = [dict.fromkeys(one.get("required", ())) for one in alternatives]
    common = [n for n in required[0] if all(n in other for other in required)]
    result.pop("required", None)
    if common:
        result["required"] = common
    shared = set(common)
    needs = [", ".join(n for n in one if n not in shared) for one in required]
    if any(needs):
        words = f"give one of these sets: {' | '.join(need or 'none' for need in needs)}"
        conversion.work.spend_text(len(words))
        describe(result, [words])
    return result


def _all_properties(conversion: SchemaConversion, alternatives: Sequence[Node]) -> Node:
    found: dict[str, dict[str, JSON]] = {}
    seen: set[tuple[str, int]] = set()
    for alternative in alternatives:
        for name, schema in alternative.get("properties", {}).items():
            if (name, id(schema)) not in seen:  # most are those of the base
                seen.add((name, id(schema)))
                found.setdefault(name, {}).setdefault(conversion.work.written(schema), schema)
    every = {name: list(known.values()) for name, known in found.items()}
    return {name: known[0] if len(known) == 1 else {"anyOf": known} for name, known in every.items()}


def _is_closed(alternatives: Sequence[Node]) -> bool:
    """Whether every alternative forbids undeclared properties."""
    return all(
        alternative.get("additionalProperties") is False and not alternative.get("allOf")
        for alternative in alternatives
    )
