"""What is plainly wrong in an input schema: said once, at the border, and never in the way of a call.

Where a keyword has no meaning nothing can be checked, and the server decides. What only some drafts of JSON
Schema allow is not wrong.
"""

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from toolbus.core.records import JSON, JSONObject
from toolbus.core.text import cleaned

_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null", "any"])
# As the dialects read them; what they say is meant to be an object.
_OBJECT = frozenset(["object", "any", "dict", "map", "record", "struct"])
_SHAPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(["properties", "patternProperties", "$defs", "definitions"], (dict,)),
    **dict.fromkeys(["anyOf", "oneOf", "allOf", "enum"], (list,)),
    **dict.fromkeys(["additionalProperties", "not"], (dict, bool)),
    "items": (dict, bool, list),
    "required": (list, bool),
    "$ref": (str,),
}
"""Which JSON types a keyword may hold."""
_MOST = 5
"""How many faults of one schema are told."""
_DEEPEST = 20


def arguments_schema(schema: JSONObject, ignored: list[str]) -> JSONObject:
    """The schema for the arguments of a call; what had to be ignored of it is added to the list."""
    ignored += _faults(schema)
    if _takes_object(schema, schema, 0):
        return schema
    # No call could ever fit, and yet the server may take one: it is asked.
    ignored.append("inputSchema (it takes no object, which the arguments of a call always are)")
    return {"type": "object", **{key: schema[key] for key in ("title", "description") if key in schema}}


def _faults(schema: JSONObject) -> list[str]:
    found: list[str] = []
    for place, keyword, value in _keywords(schema):
        if keyword == "type":
            names = value if _is_list(value) else [value]
            is_right = bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)
        else:
            is_right = isinstance(value, _SHAPES[keyword])
            if is_right and keyword == "required" and _is_list(value):
                is_right = all(isinstance(name, str) for name in value)
        if not is_right:
            found.append(f"inputSchema{place}/{keyword} ({cleaned(repr(value)):.40})")
    more = len(found) - _MOST
    return found if more <= 0 else [*found[:_MOST], f"{more} more in inputSchema"]


def _keywords(schema: JSONObject) -> Iterator[tuple[str, str, JSON]]:
    """Every keyword of interest with its place, here and in the schemas inside."""
    todo: list[tuple[str, JSON]] = [("", schema)]
    while todo:
        place, node = todo.pop()
        if not _is_object(node):
            continue
        for key, value in node.items():
            if key == "type" or key in _SHAPES:
                yield place, key, value
            if key in ("properties", "patternProperties", "$defs", "definitions") and _is_object(value):
                todo += [(f"{place}/{key}/{cleaned(name)}", inner) for name, inner in value.items()]
            elif key in ("anyOf", "oneOf", "allOf", "items") and _is_list(value):
                todo += [(f"{place}/{key}/{number}", inner) for number, inner in enumerate(value)]
            elif key in ("items", "additionalProperties", "not"):
                todo.append((f"{place}/{key}", value))


def _takes_object(schema: JSON, root: JSONObject, depth: int) -> bool:
    """Whether an object may fit; True where that is not plain to see."""
    if schema is False:
        return False
    if not _is_object(schema) or depth > _DEEPEST:
        return True
    return _type_fits(schema) and _values_fit(schema) and _parts_fit(schema, root, depth + 1)


def _type_fits(schema: JSONObject) -> bool:
    types = schema.get("type", "object")
    names = [str(name).lower() for name in (types if _is_list(types) else [types])]
    return any(name in _OBJECT or name not in _TYPES for name in names) or not names


def _values_fit(schema: JSONObject) -> bool:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return not _is_list(values) or not values or any(map(_is_object, values))


def _parts_fit(schema: JSONObject, root: JSONObject, depth: int) -> bool:
    for key, combined in (("anyOf", any), ("oneOf", any), ("allOf", all)):
        parts = schema.get(key)
        if _is_list(parts) and parts and not combined(_takes_object(part, root, depth) for part in parts):
            return False
    match str(schema.get("$ref", "")).split("/"):
        case ["#", "$defs" | "definitions" as place, name] if _is_object(root.get(place)):
            return _takes_object(root[place].get(name), root, depth)
        case _:
            return True


def _is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    return isinstance(value, dict)


def _is_list(value: JSON) -> TypeGuard[list[JSON]]:
    return isinstance(value, list)
