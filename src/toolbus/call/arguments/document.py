"""Look through a whole schema: what refers to what, and what is meant by `nullable`."""

from collections.abc import Iterator
from urllib.parse import unquote

from toolbus.call.arguments.values import entries_of, is_array, is_object, items_of
from toolbus.core.records import JSON

_ONE = {
    "items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
    "contains", "propertyNames", "not", "if", "then", "else",
}  # fmt: skip
_MANY = {"anyOf", "oneOf", "allOf", "prefixItems", "items"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_BESIDE = {
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "nullable",
}
_IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
"""What is asked about the very same value, not about one inside it."""


def rebuilt(schema: JSON, every: list[dict[str, JSON]]) -> JSON:
    """A copy in which `nullable` is said in JSON Schema; each schema in it is added to `every`."""
    if not is_object(schema):
        return schema
    own = dict(schema)
    for key, inner in own.items():
        if key in _ONE and is_object(inner):
            own[key] = rebuilt(inner, every)
        elif key in _MANY and is_array(inner):
            own[key] = [rebuilt(each, every) for each in inner]
        elif key in _NAMED and is_object(inner):
            own[key] = {name: rebuilt(each, every) for name, each in inner.items()}
    own = _with_null(own) if own.get("nullable") is True else own
    every.append(own)
    return own


def is_closed(document: JSON, every: list[dict[str, JSON]]) -> bool:
    """Whether each reference names something in the document, and none ends where it began."""
    references = [own[key] for own in every for key in ("$ref", "$dynamicRef") if key in own]
    return all(_is_there(each, document) for each in references) and not _is_endless(document, every)


def at(reference: str, document: JSON) -> Iterator[JSON]:
    """What a reference into the document names, if it is there."""
    value = document
    for step in unquote(reference.removeprefix("#")).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if is_object(value) and key in value:
            value = value[key]
        elif is_array(value) and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            return
    yield value


def _with_null(own: dict[str, JSON]) -> dict[str, JSON]:
    said = own.get("type")
    if said is None:
        beside = {key: value for key, value in own.items() if key in _BESIDE}
        inner = {key: value for key, value in own.items() if key not in _BESIDE}
        return {**beside, "anyOf": [inner, {"type": "null"}]}
    enum = {"enum": [*items_of(own["enum"]), None]} if "enum" in own else {}
    return {**own, **enum, "type": [*(said if is_array(said) else [said]), "null"]}


def _is_there(reference: JSON, document: JSON) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    is_anchor = reference != "#" and not reference.startswith("#/")
    return is_anchor or any(True for _ in at(reference, document))


def _is_endless(document: JSON, every: list[dict[str, JSON]]) -> bool:
    """Whether a schema leads back to itself without a step into the value."""
    is_done: dict[int, bool] = {}

    def leads_back(schema: JSON) -> bool:
        if not is_object(schema):
            return False
        if id(schema) in is_done:
            return not is_done[id(schema)]
        is_done[id(schema)] = False
        found = any(leads_back(each) for each in _in_place(schema, document))
        is_done[id(schema)] = True
        return found

    return any(map(leads_back, every))


def _in_place(own: dict[str, JSON], document: JSON) -> Iterator[JSON]:
    reference = own.get("$ref")
    if isinstance(reference, str):
        yield from at(reference, document)
    for key in _IN_PLACE & own.keys():
        yield from items_of(own[key]) if is_array(own[key]) else [own[key]]
    yield from entries_of(own.get("dependentSchemas")).values()
