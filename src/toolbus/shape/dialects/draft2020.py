"""Convert schemas for providers that accept JSON Schema draft 2020-12: most of it stays as it is."""

from toolbus.core.values.records import JSON
from toolbus.schema.keywords import CHECKS, DEEPEST, IDENTITY, MANY, NAMED, ONE, REFERENCES, is_json
from toolbus.schema.reader import Place
from toolbus.schema.values import Node, is_object
from toolbus.shape.dialects.conversion import SchemaConversion, as_object, describe
from toolbus.shape.dialects.definition import escaped
from toolbus.shape.dialects.rules import Rules

_KEEPS_FALSE = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
# Keywords where a wider subschema makes the whole schema narrower.
_INVERTING = ("not", "if", "oneOf", "contains")
_NOT_DRAFT_2020 = IDENTITY.union(REFERENCES, ["nullable", "dependencies", "additionalItems"]) - {
    "$schema",
    "$comment",
}


def _is_node_accepted(schema: JSON, rules: Rules, depth: int = 0) -> bool:
    """Whether a provider accepts a schema as it is; the fast path for nearly every real tool."""
    if not is_object(schema) or depth > DEEPEST:
        return False
    for key, value in schema.items():
        if key in CHECKS:
            if (
                key not in rules.keywords
                or not CHECKS[key](value)
                or not _is_part_accepted(key, value, rules, depth)
            ):
                return False
        elif key in _NOT_DRAFT_2020 or not is_json(value):
            return False
    types = schema.get("type", "")
    if not rules.complete:
        return True
    return ("array" not in types or "items" in schema) and ("object" not in types or "properties" in schema)


def is_accepted(schema: JSON, rules: Rules) -> bool:
    """Whether a provider accepts a whole schema as it is."""
    return (
        _is_node_accepted(schema, rules)
        and schema.get("type") == "object"
        and "properties" in schema
        and rules.not_at_top.isdisjoint(schema)
    )


def _is_part_accepted(key: str, value: JSON, rules: Rules, depth: int) -> bool:
    if key in NAMED:
        names = rules.property_names
        if names is not None and key != "patternProperties" and not all(map(names.legal.fullmatch, value)):
            return False
        return all(_is_node_accepted(inner, rules, depth + 1) for inner in value.values())
    if key in MANY:
        return all(_is_node_accepted(inner, rules, depth + 1) for inner in value)
    if key in ONE:
        return (key in _KEEPS_FALSE and isinstance(value, bool)) or _is_node_accepted(value, rules, depth + 1)
    return True


def converted_to_draft2020(conversion: SchemaConversion, schema: JSON, at: Place) -> Node:
    """The schema as the provider accepts it."""
    node, at = conversion.node(schema, at)
    if not at.path:
        node = as_object(conversion, node, at)
    result: Node = {}
    unsupported: list[str] = []
    for key, value in node.items():
        if key in CHECKS and key not in conversion.rules.keywords:
            unsupported.append(key)
        elif key in _INVERTING:
            _add_inverting(conversion, (key, node), result, unsupported, at)
        else:
            result[key] = _value(conversion, key, value, at)
    if "if" in unsupported:
        unsupported += [key for key in ("then", "else") if result.pop(key, None) is not None]
    describe(result, conversion.in_words(node, unsupported, at))
    if conversion.rules.complete:
        _complete(conversion, result, at)
    return result


def _add_inverting(
    conversion: SchemaConversion, given: tuple[str, Node], result: Node, unsupported: list[str], at: Place
) -> None:
    key, node = given
    mark = len(conversion.report.losses)
    converted = _value(conversion, key, node[key], at)
    if not conversion.report.widened_since(mark):
        result[key] = converted
    elif key == "oneOf" and "anyOf" not in node:
        conversion.note("widened", at, "`oneOf` became `anyOf`, because an alternative was widened", key)
        result["anyOf"] = converted
    else:
        del conversion.report.losses[mark:]
        unsupported.append(key)


def _value(conversion: SchemaConversion, key: str, value: JSON, at: Place) -> JSON:
    if key in NAMED:
        return _named(conversion, key, value, at)
    if key in MANY:
        step = "*" if key == "prefixItems" else None
        possible = [inner for inner in value if inner is not False] if key in ("anyOf", "oneOf") else value
        return [
            converted_to_draft2020(conversion, inner, at.into(f"{key}/{number}", step))
            for number, inner in enumerate(possible or [False])
        ]
    if key in ONE:
        if key in _KEEPS_FALSE and isinstance(value, bool):
            return value
        step = "*" if key in ("items", "contains", *_KEEPS_FALSE) else None
        return converted_to_draft2020(conversion, value, at.into(key, step))
    if key == "required":
        return [conversion.names[name] for name in value]
    if key == "dependentRequired":
        return {
            conversion.names[name]: [conversion.names[other] for other in others]
            for name, others in value.items()
        }
    return value


def _named(conversion: SchemaConversion, key: str, value: JSON, at: Place) -> Node:
    result: Node = {}
    for original, inner in value.items():
        name = original if key == "patternProperties" else conversion.names[original]
        step = {"properties": escaped(name), "patternProperties": "*"}.get(key)
        if key == "properties" and name != original:
            conversion.report.renamed.setdefault(at.data, {})[name] = original
            conversion.note(
                "lossless", at, f"{original!r} is renamed to {name!r}", f"properties/{escaped(original)}"
            )
        result[name] = converted_to_draft2020(conversion, inner, at.into(f"{key}/{escaped(original)}", step))
    return result


def _complete(conversion: SchemaConversion, result: Node, at: Place) -> None:
    types = result.get("type", "")
    for kind, key in (("array", "items"), ("object", "properties")):
        if kind in types and key not in result:
            result[key] = {}
            conversion.note("lossless", at, f"an empty `{key}` was added", key)
