"""Convert schemas for providers that accept a subset: each place has one type, or alternatives that have."""

import json
import math
from collections.abc import Sequence

from toolbus.schema.keywords import ANNOTATIONS, CONSTRAINED_TYPE, quoted
from toolbus.schema.reader import Place, Work, is_impossible, merged
from toolbus.schema.values import JSON, Node, is_array, is_object, type_of
from toolbus.shape.dialects.conversion import SchemaConversion, as_object, describe
from toolbus.shape.dialects.definition import escaped
from toolbus.shape.dialects.rules import ANY_TYPED, Rules

STRICT_LEVELS = 10


def _scalar_form(conversion: SchemaConversion, form: Node, at: Place) -> Node:
    """A string, a number, a boolean or null."""
    return _finished(conversion, {"type": form["type"]}, _inclusive(conversion, form, at), at)


def _array_form(conversion: SchemaConversion, form: Node, at: Place) -> Node:
    """An array, with one schema for all items."""
    form = dict(form)
    items = form.pop("items", True)
    positions = form.pop("prefixItems", None)
    if positions is not None:
        if form.get("maxItems", len(positions) + 1) > len(positions):
            positions = [*positions, items]
        unique = _distinct(conversion, positions)
        items = unique[0] if len(unique) == 1 else {"anyOf": unique}
        kind = "lossless" if len(unique) == 1 else "widened"
        conversion.note(kind, at, "one schema for all items replaces one per position", "prefixItems")
    result: Node = {"type": "array", "items": converted_to_subset(conversion, items, at.into("items", "*"))}
    return _finished(conversion, result, form, at)


def _object_form(conversion: SchemaConversion, form: Node, at: Place) -> Node:
    form = dict(form)
    declared: Node = form.pop("properties", {})
    listed: list[str] = form.pop("required", [])
    required = dict.fromkeys(name for name in listed if declared.get(name, False) is not False)
    unknown = [name for name in listed if name not in required]
    result: Node = {"type": "object"}
    properties: Node = {}
    for original, schema in declared.items():
        if schema is False:
            # Strict mode accepts no undeclared property, so this one stays forbidden.
            kind = "lossless" if conversion.rules.exact else "widened"
            conversion.note(kind, at, f"{original!r} must be absent, and is not declared", "properties")
            continue
        name = conversion.names[original]
        below = at.into(f"properties/{escaped(original)}", escaped(name))
        if name != original:
            conversion.report.renamed.setdefault(at.data, {})[name] = original
            conversion.note("lossless", below, f"{original!r} is renamed to {name!r}")
        properties[name] = converted_to_subset(conversion, schema, below)
        if conversion.rules.exact:
            properties[name] = _optional(
                conversion, properties[name], below, is_required=original in required
            )
    if properties:
        result["properties"] = properties
    if required:
        result["required"] = [conversion.names[name] for name in required]
    if unknown:
        form["required"] = unknown
    if conversion.rules.exact:
        _close(conversion, result, form, at)
    return _finished(conversion, result, form, at)


def _optional(conversion: SchemaConversion, schema: Node, at: Place, *, is_required: bool) -> Node:
    """Strict mode has no optional properties: null stands for one that is not given."""
    if _accepts_null(schema):
        conversion.report.nulls.add(at.data)
        if not is_required:
            conversion.note("lossless", at, "optional; strict mode requires a value, which may be null")
        return schema
    if is_required:
        return schema
    conversion.report.absent.add(at.data)
    conversion.note("lossless", at, "optional; null from the model means not given")
    return _with_null(conversion.rules, schema)


def _close(conversion: SchemaConversion, result: Node, form: Node, at: Place) -> None:
    """Strict mode: every property is required, and no other one accepted."""
    more = form.pop("additionalProperties", None)
    if more not in (None, False):
        conversion.note("widened", at, "undeclared properties are accepted, which strict mode cannot express")
    if more is None:
        if "properties" not in result and at.path:
            conversion.note("widened", at, "an object with any properties, which strict mode cannot express")
        conversion.note(
            "lossless", at, "undeclared properties are no longer accepted", "additionalProperties"
        )
    result.setdefault("properties", {})
    if set(result.get("required", ())) != set(result["properties"]):
        conversion.note("lossless", at, "every property is required", "required")
    result["required"] = list(result["properties"])
    result["additionalProperties"] = False
    if at.data.count("/") >= STRICT_LEVELS:
        conversion.note("widened", at, f"strict mode accepts at most {STRICT_LEVELS} levels")


def _accepts_null(schema: Node) -> bool:
    return "null" in schema.get("type", ()) or any(
        _accepts_null(option) for option in schema.get("anyOf", ())
    )


def _with_null(rules: Rules, schema: Node) -> Node:
    options = schema.get("anyOf")
    if rules.nullable_keyword:
        if options:
            return {**schema, "anyOf": [_with_null(rules, options[0]), *options[1:]]}
        return {**schema, "nullable": True}
    if options:
        return {**schema, "anyOf": [*options, {"type": "null"}]}
    if schema["type"] in ("object", "array"):
        text = {"description": schema["description"]} if "description" in schema else {}
        only = {key: value for key, value in schema.items() if key != "description"}
        return {"anyOf": [only, {"type": "null"}], **text}
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **more}


def _inclusive(conversion: SchemaConversion, form: Node, at: Place) -> Node:
    """The bounds for a provider that only supports inclusive ones; exact for integers."""
    form = dict(form)
    for key, bound, step, tightest in (
        ("exclusiveMinimum", "minimum", 1, max),
        ("exclusiveMaximum", "maximum", -1, min),
    ):
        if key not in form or key in conversion.rules.keywords or form["type"] not in ("integer", "number"):
            continue
        value = form[key]
        if form["type"] == "integer":
            del form[key]
            value = (math.floor(value) if step > 0 else math.ceil(value)) + step
            conversion.note("lossless", at, f"`{key}` became `{bound}`", key)
        form[bound] = tightest(value, form.get(bound, value))
    return form


def _finished(conversion: SchemaConversion, result: Node, form: Node, at: Place) -> Node:
    """Add the keywords that need no conversion; unsupported ones go into the description."""
    kind = "number" if form["type"] == "integer" else form["type"]
    unsupported: list[str] = []
    for key, value in form.items():
        if key in result or key in ANNOTATIONS or CONSTRAINED_TYPE.get(key, kind) != kind:
            continue
        if (
            key in conversion.rules.keywords
            and key != "required"
            and _is_supported(conversion.rules, key, value, form)
        ):
            result[key] = value
        elif key != "format" or kind in ("string", "number"):
            unsupported.append(key)
    if kind == "boolean" and len(form.get("enum", ())) == 2:
        unsupported = [key for key in unsupported if key != "enum"]  # both values are no constraint
    describe(result, conversion.in_words(form, unsupported, at))
    return result


def _is_supported(rules: Rules, key: str, value: JSON, form: Node) -> bool:
    match key:
        case "format":
            return value in rules.formats.get(form["type"], ())
        case "enum":
            # An empty string cannot be a choice. Other types go into the description: for a number written
            # as a string, the model would return a string.
            if rules.string_enums_only:
                return form["type"] == "string" and "" not in value
            return form["type"] not in ("object", "array")
        case "pattern":
            return not rules.exact or "(?" not in value
        case _:
            return True


Alternative = tuple[Node, Place]
_LEAF_KEYS = {"type", "description"}
_SCALARS = ("string", "integer", "number", "boolean")
_BY_TYPE = {"object": _object_form, "array": _array_form}


def converted_to_subset(conversion: SchemaConversion, schema: JSON, at: Place) -> Node:
    """The schema as the provider accepts it."""
    if _is_leaf(schema) and at.path:
        conversion.work.spend_text(len(schema.get("description", "")))
        return dict(schema)
    node, at = conversion.node(schema, at)
    if not at.path:
        node = as_object(conversion, node, at)
    forms = _alternatives(
        conversion, {key: value for key, value in node.items() if key not in ANNOTATIONS}, at
    )
    others = [(form, place) for form, place in forms if form.get("type") != "null"]
    every = [_shaped(conversion, form, place) for form, place in others or forms[:1]]
    shaped = _distinct(conversion, every)
    result = shaped[0] if len(shaped) == 1 else _as_enum(shaped) or {"anyOf": shaped}
    if others and len(others) < len(forms):
        result = _with_null(conversion.rules, result)
    if not ANNOTATIONS.isdisjoint(node):
        _annotate(conversion, result, node, at)
    return result


def _distinct(conversion: SchemaConversion, options: list[JSON]) -> list[JSON]:
    if len(options) == 1:
        return options
    known: dict[str, JSON] = {}
    for option in options:
        known.setdefault(conversion.work.written(option), option)
    return list(known.values())


def _is_leaf(schema: JSON) -> bool:
    """Whether a schema obviously needs no conversion, like half of all real ones."""
    return (
        is_object(schema)
        and schema.keys() <= _LEAF_KEYS
        and schema.get("type") in _SCALARS
        and isinstance(schema.get("description", ""), str)
    )


def _shaped(conversion: SchemaConversion, form: Node, at: Place) -> Node:
    kind = form.get("type")
    if kind is None:
        result = _anything(conversion, form, at)
    else:
        result = _BY_TYPE.get(kind, _scalar_form)(conversion, form, at)
    if not ANNOTATIONS.isdisjoint(form):
        _annotate(conversion, result, form, at)
    return result


def _as_enum(options: Sequence[Node]) -> Node | None:
    """Alternatives of values as one enum, which providers enforce better than alternatives of schemas."""
    kinds = {option.get("type") for option in options}
    if len(kinds) > 1 or any(
        "enum" not in option or option.keys() - {"type", "enum", "description"} for option in options
    ):
        return None
    texts = [f"{quoted(one['enum'])}: {one['description']}" for one in options if "description" in one]
    values = list({json.dumps(value): value for option in options for value in option["enum"]}.values())
    words = {"description": "; ".join(texts)} if texts else {}
    return {"type": kinds.pop(), "enum": values, **words}


def _anything(conversion: SchemaConversion, form: Node, at: Place) -> Node:
    """A place without a type. Keywords for several types at once go into the description."""
    if conversion.rules.exact:
        conversion.note("permissive", at, "any value is accepted here, which strict mode cannot express")
    conversion.note("lossless", at, "any value, written as a choice of types")
    conversion.work.read(ANY_TYPED)
    result: Node = {"anyOf": [dict(option) for option in ANY_TYPED["anyOf"]]}
    result["anyOf"][0]["nullable"] = True
    describe(
        result["anyOf"][0], conversion.in_words(form, [key for key in form if key not in ANNOTATIONS], at)
    )
    return result


def _alternatives(conversion: SchemaConversion, node: Node, at: Place) -> list[Alternative]:
    """The node as a list of alternatives, each with one type or without any."""
    key = next((key for key in ("anyOf", "oneOf") if key in node), None)
    if key is None:
        return _by_type(conversion, node, at)
    base = {name: value for name, value in node.items() if name != key}
    found: list[Alternative] = []
    plain: list[Node] = []
    for number, branch in enumerate(node[key]):
        if branch is False:
            continue
        part, place = conversion.node(branch, at.into(f"{key}/{number}"))
        outer = {**base, **{k: v for k, v in part.items() if k in ANNOTATIONS}}
        form = merged(outer, part, conversion.work)
        if not is_impossible(form):
            plain.append(form)
            found += _alternatives(conversion, form, place)
    if key == "oneOf" and len(plain) > 1:
        kind = "lossless" if are_disjoint(plain, conversion.work) else "widened"
        conversion.note(kind, at, "`oneOf` became `anyOf`", key)
    if not found:
        conversion.note("widened", at, f"no alternative of `{key}` is possible; any is accepted", key)
        return _by_type(conversion, base, at)
    # An alternative that accepts anything makes the others redundant.
    return next(([form] for form in found if not form[0].keys() - ANNOTATIONS), found)


def _by_type(conversion: SchemaConversion, node: Node, at: Place) -> list[Alternative]:
    if "const" in node:
        others = {k: v for k, v in node.items() if k != "const"}
        node = merged({"enum": [node["const"]]}, others, conversion.work)
    types = node.get("type")
    values: Sequence[JSON] = node.get("enum", ())
    names: list[str] = types if is_array(types) else [types] if types else _inferred(node)
    if types is None and names:
        conversion.note("lossless", at, f"no `type` was given; treated as {' or '.join(names)}", "type")
    if not values:
        return [({**node, "type": name}, at) for name in names] or [(node, at)]
    parted = [(name, [value for value in values if _is_of(name, value)]) for name in names]
    if not any(part for _, part in parted):
        conversion.note(
            "widened", at, f"`enum` has no value of type {types!r}: its own types are taken", "type"
        )
        kinds = dict.fromkeys(map(type_of, values))
        parted = [(name, [value for value in values if type_of(value) == name]) for name in kinds]
    valued = {key: value for key, value in node.items() if key != "enum"}
    return [
        ({**valued, "type": name} | ({"enum": part} if name != "null" else {}), at)
        for name, part in parted
        if part
    ]


def _is_of(name: str, value: JSON) -> bool:
    kind = type_of(value)
    return kind == name or (name == "number" and kind == "integer")


def _inferred(node: Node) -> list[str]:
    """The types that a node without one implies, from its values or from the keyword that constrains it."""
    if "enum" in node:
        return list(dict.fromkeys(map(type_of, node["enum"])))
    types = {CONSTRAINED_TYPE[key] for key in node if key in CONSTRAINED_TYPE}
    return list(types) if len(types) == 1 else []


def _annotate(conversion: SchemaConversion, result: Node, node: Node, at: Place) -> None:
    """Put annotations into the description, where the model reads them."""
    words = conversion.in_words(
        node, [key for key in node if key in ANNOTATIONS and key != "description"], at
    )
    # Generated titles only repeat the name of the tool or the property.
    title = node.get("title", "")
    named = at.path.rpartition("/")[2]
    useful = title if named and title.replace(" ", "_").lower() != named.lower() else ""
    text = node.get("description") or useful
    target = result
    while "anyOf" in target and not conversion.rules.description_in_choice:
        target = target["anyOf"][0]
    own = target.get("description", "")
    if text and text != own:
        target["description"] = f"{text} {own}".strip()
    describe(target, words)


_MOST_COMPARED = 64
"""Alternatives of which each is compared with each; of more, only values and common tags are."""


def are_disjoint(forms: Sequence[Node], work: Work) -> bool:
    """Whether no value fits two alternatives: by type, by value, or by a required property that differs."""
    if _differ_by_value(forms, work):
        return True
    if any(_differ_by_value(_tagged(forms, name, work), work) for name in forms[0].get("required", ())):
        return True
    if len(forms) > _MOST_COMPARED:
        return False
    return all(
        _differ(form, other, work)
        or any(_have_tag(form, other, name, work) for name in form.get("required", ()))
        for number, form in enumerate(forms)
        for other in forms[:number]
    )


def _differ_by_value(forms: Sequence[Node], work: Work) -> bool:
    """Whether all list their values, and no value twice."""
    seen: set[str] = set()
    for form in forms:
        values = _listed(form)
        if values is None:
            return False
        texts = set(map(work.written, values))
        if not seen.isdisjoint(texts):
            return False
        seen |= texts
    return bool(forms)


def _tagged(forms: Sequence[Node], name: str, work: Work) -> list[Node]:
    """The property of that name in each alternative; empty unless all require and describe it."""
    found: list[Node] = []
    for form in forms:
        if (tag := _tag(form, name, work)) is None:
            return []
        found.append(tag)
    return found


def _tag(form: Node, name: str, work: Work) -> Node | None:
    work.spend(1 + len(form.get("required", ())) // 16)
    tag = form.get("properties", {}).get(name)
    return tag if is_object(tag) and name in form.get("required", ()) else None


def _have_tag(form: Node, other: Node, name: str, work: Work) -> bool:
    ours, theirs = _tag(form, name, work), _tag(other, name, work)
    return ours is not None and theirs is not None and _differ(ours, theirs, work)


def _differ(form: Node, other: Node, work: Work) -> bool:
    work.spend(1)
    mine, yours = _listed(form), _listed(other)
    if mine is not None and yours is not None:
        return set(map(work.written, mine)).isdisjoint(map(work.written, yours))
    types = [side["type"] if is_array(side.get("type")) else [side.get("type")] for side in (form, other)]
    if any(None in names for names in types):
        return False
    first, second = ({"number" if name == "integer" else name for name in names} for names in types)
    return first.isdisjoint(second)


def _listed(form: Node) -> list[JSON] | None:
    values: JSON = [form["const"]] if "const" in form else form.get("enum")
    return values if is_array(values) else None
