"""Convert one place with one type to the subset that a provider accepts."""

import math
from collections.abc import Callable
from typing import TypeAlias

from toolbus.core.values.records import JSON
from toolbus.schema.keywords import ANNOTATIONS, CONSTRAINED_TYPE
from toolbus.schema.reader import Place
from toolbus.schema.values import Node
from toolbus.shape.dialects.conversion import Conversion, describe, escaped
from toolbus.shape.dialects.rules import Rules

Inner: TypeAlias = Callable[[Conversion, JSON, Place], Node]
"""The conversion of subschemas."""
STRICT_LEVELS = 10


def scalar_form(conversion: Conversion, form: Node, at: Place, _: Inner) -> Node:
    """A string, a number, a boolean or null."""
    return _finished(conversion, {"type": form["type"]}, _inclusive(conversion, form, at), at)


def array_form(conversion: Conversion, form: Node, at: Place, inner: Inner) -> Node:
    """An array, with one schema for all items."""
    form = dict(form)
    items = form.pop("items", True)
    positions = form.pop("prefixItems", None)
    if positions is not None:
        if form.get("maxItems", len(positions) + 1) > len(positions):
            positions = [*positions, items]
        known: dict[str, JSON] = {}
        for position in positions:
            known.setdefault(conversion.work.written(position), position)
        unique = list(known.values())
        items = unique[0] if len(unique) == 1 else {"anyOf": unique}
        kind = "lossless" if len(unique) == 1 else "widened"
        conversion.note(kind, at, "one schema for all items replaces one per position", "prefixItems")
    result: Node = {"type": "array", "items": inner(conversion, items, at.into("items", "*"))}
    return _finished(conversion, result, form, at)


def object_form(conversion: Conversion, form: Node, at: Place, inner: Inner) -> Node:
    """An object with its declared properties."""
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
        properties[name] = inner(conversion, schema, below)
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


def _optional(conversion: Conversion, schema: Node, at: Place, *, is_required: bool) -> Node:
    """Strict mode has no optional properties: null stands for one that is not given."""
    if accepts_null(schema):
        conversion.report.nulls.add(at.data)
        if not is_required:
            conversion.note("lossless", at, "optional; strict mode requires a value, which may be null")
        return schema
    if is_required:
        return schema
    conversion.report.absent.add(at.data)
    conversion.note("lossless", at, "optional; null from the model means not given")
    return with_null(conversion.rules, schema)


def _close(conversion: Conversion, result: Node, form: Node, at: Place) -> None:
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


def accepts_null(schema: Node) -> bool:
    """Whether a converted schema accepts null."""
    return "null" in schema.get("type", ()) or any(accepts_null(option) for option in schema.get("anyOf", ()))


def with_null(rules: Rules, schema: Node) -> Node:
    """The converted schema, or null."""
    options = schema.get("anyOf")
    if rules.nullable_keyword:
        if options:
            return {**schema, "anyOf": [with_null(rules, options[0]), *options[1:]]}
        return {**schema, "nullable": True}
    if options:
        return {**schema, "anyOf": [*options, {"type": "null"}]}
    if schema["type"] in ("object", "array"):
        text = {"description": schema["description"]} if "description" in schema else {}
        only = {key: value for key, value in schema.items() if key != "description"}
        return {"anyOf": [only, {"type": "null"}], **text}
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **more}


def _inclusive(conversion: Conversion, form: Node, at: Place) -> Node:
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


def _finished(conversion: Conversion, result: Node, form: Node, at: Place) -> Node:
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
