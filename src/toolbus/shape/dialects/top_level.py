"""Make the top of a schema what every provider wants there: one object.

The arguments of a call are always an object, so that reading the top as one loses nothing; but a choice of
objects has to become one object that takes them all.
"""

from collections.abc import Sequence

from toolbus.core.records import JSON
from toolbus.schema.merge import is_impossible, merged
from toolbus.schema.normalize import same
from toolbus.schema.reader import Place
from toolbus.schema.values import Node, is_array
from toolbus.shape.dialects.conversion import Conversion, describe


def as_object(conversion: Conversion, node: Node, at: Place) -> Node:
    """The node of the top as one object without a choice."""
    types = node.get("type", "object")
    if "object" not in (types if is_array(types) else [types]):
        conversion.note("permissive", at, f"the arguments are read as an object, not as {types!r}", "type")
        node = {key: node[key] for key in ("description", "title") if key in node}
    elif types != "object" or "type" not in node:
        conversion.note("lossless", at, "the arguments are an object", "type")
    node = _without_choice(conversion, {**node, "type": "object"}, at)
    if "properties" not in node and not conversion.rules.subset:
        conversion.note("lossless", at, "an empty `properties` was added", "properties")
        node["properties"] = {}
    hidden = [key for key in node if key in conversion.rules.not_at_top]
    words = conversion.in_words(node, hidden, at)
    node = {key: value for key, value in node.items() if key not in hidden}
    describe(node, words)
    return node


def _without_choice(conversion: Conversion, node: Node, at: Place) -> Node:
    for key in ("anyOf", "oneOf"):
        if key in node:
            branches = node.pop(key)
            node = _union(conversion, node, branches, at, key)
    return node


def _union(conversion: Conversion, base: Node, branches: Sequence[JSON], at: Place, key: str) -> Node:
    forms: list[Node] = []
    for number, branch in enumerate(branches):
        if branch is False:
            continue
        inner, place = conversion.node(branch, at.into(f"{key}/{number}"))
        form = merged(base, inner)
        if not is_impossible(form):
            forms.append(_without_choice(conversion, {**form, "type": "object"}, place))
    if len(forms) == 1:
        conversion.note("lossless", at, f"`{key}` leaves one form", key)
        return forms[0]
    if not forms:
        conversion.note("widened", at, f"no form of `{key}` can be met", key)
        return base
    conversion.note(
        "widened", at, f"{len(forms)} forms of `{key}` became one object that takes them all", key
    )
    result: Node = {**base, "properties": _all_properties(forms)}
    if _is_closed(forms):
        result["additionalProperties"] = False
    else:
        result.pop("additionalProperties", None)
    common = [n for n in forms[0].get("required", ()) if all(n in f.get("required", ()) for f in forms)]
    result.pop("required", None)
    if common:
        result["required"] = common
    needs = [", ".join(n for n in form.get("required", ()) if n not in common) for form in forms]
    if any(needs):
        describe(result, [f"give one of these sets: {' | '.join(need or 'none' for need in needs)}"])
    return result


def _all_properties(forms: Sequence[Node]) -> Node:
    found: dict[str, list[JSON]] = {}
    for form in forms:
        for name, schema in form.get("properties", {}).items():
            known = found.setdefault(name, [])
            if not any(same(schema, other) for other in known):
                known.append(schema)
    return {name: known[0] if len(known) == 1 else {"anyOf": known} for name, known in found.items()}


def _is_closed(forms: Sequence[Node]) -> bool:
    """Whether every form forbids undeclared properties; what one form declares, another may then not take."""
    return all(form.get("additionalProperties") is False and not form.get("allOf") for form in forms)
