"""Find plain mistakes in an input schema: reported once, on arrival, and never in the way of a call.

Where a keyword has no meaning nothing can be checked, and the server decides. Keywords that only some drafts
of JSON Schema allow are not wrong.
"""

from collections.abc import Mapping

from toolbus.core.text.text import cleaned
from toolbus.schema.keywords import TYPES, subschemas
from toolbus.schema.references import References
from toolbus.schema.values import JSON, JSONObject, is_array, is_object

# The other names for an object that `toolbus.schema.normalize` knows.
_OBJECT = frozenset(["object", "any", "dict", "map", "record", "struct"])
_SHAPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(["properties", "patternProperties", "$defs", "definitions"], (dict,)),
    **dict.fromkeys(["anyOf", "oneOf", "allOf", "enum"], (list,)),
    **dict.fromkeys(["additionalProperties", "not"], (dict, bool)),
    "items": (dict, bool, list),
    "required": (list, bool),
    "$ref": (str,),
}
"""The JSON types that a keyword may have."""
_PLAIN = frozenset(
    [
        *("title", "description", "default", "examples", "format", "pattern", "$schema"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
    ]
)
"""Keywords that contain no schema and may have any value."""
_MOST = 5
"""The number of faults to report for one schema."""
_DEEPEST = 20


def arguments_schema(schema: JSONObject, ignored: list[str]) -> JSONObject:
    """The schema for the arguments of a call; ignored parts are added to the list."""
    takes_objects = schema.get("type") == "object" and schema.keys().isdisjoint(("enum", "anyOf"))
    if takes_objects and _is_ordinary(schema):
        return schema
    ignored += _faults(schema)
    if _takes_object(schema):
        return schema
    # No call could be valid, and yet the server may accept one.
    ignored.append("inputSchema (it does not accept an object, which the arguments of a call always are)")
    return {"type": "object", **{key: schema[key] for key in ("title", "description") if key in schema}}


def _is_ordinary(schema: JSON, depth: int = 0) -> bool:
    """Whether it has only common keywords, with valid values: true for most schemas, and fast to check."""
    if not is_object(schema) or depth > _DEEPEST:
        return False
    for keyword, value in schema.items():
        match keyword:
            case "type":
                valid = _is_type(value)
            case "anyOf":  # what optional arguments have
                valid = is_array(value) and all(_is_ordinary(part, depth + 1) for part in value)
            case "properties":
                valid = is_object(value) and all(_is_ordinary(part, depth + 1) for part in value.values())
            case "required":
                valid = is_array(value) and all(isinstance(name, str) for name in value)
            case "items" | "additionalProperties":
                valid = isinstance(value, bool) or _is_ordinary(value, depth + 1)
            case "enum":
                valid = is_array(value)
            case _:
                valid = keyword in _PLAIN
        if not valid:
            return False
    return True


def _is_type(value: JSON) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return is_array(value) and bool(value) and all(isinstance(name, str) and name in TYPES for name in value)


def _faults(schema: JSONObject) -> list[str]:
    found = [
        f"inputSchema{''.join(f'/{cleaned(step)}' for step in place)}/{keyword} ({cleaned(repr(value)):.40})"
        for place, node in subschemas(schema)
        for keyword, value in node.items()
        if not _is_well_formed(keyword, value)
    ]
    more = len(found) - _MOST
    return found if more <= 0 else [*found[:_MOST], f"{more} more in inputSchema"]


def _is_well_formed(keyword: str, value: JSON) -> bool:
    match keyword:
        case "type":
            names = value if is_array(value) else [value]
            return bool(names) and all(name in (*TYPES, "any") for name in names)
        case "required" if is_array(value):
            return all(isinstance(name, str) for name in value)
        case _:
            return isinstance(value, _SHAPES.get(keyword, object))


def _takes_object(root: JSONObject) -> bool:
    """Whether an object may be valid; True where that is not obvious."""
    references = References(root)
    seen: set[int] = set()

    def may_take(schema: JSON, depth: int) -> bool:
        if schema is False:
            return False
        # Each schema once: references may be many, and recurse.
        if not is_object(schema) or id(schema) in seen or depth > _DEEPEST:
            return True
        seen.add(id(schema))
        if not _may_be_object(schema):
            return False
        for key, combined in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            parts = schema.get(key)
            if is_array(parts) and parts and not combined(may_take(part, depth + 1) for part in parts):
                return False
        return "$ref" not in schema or may_take(references.target(schema["$ref"]), depth + 1)

    return may_take(root, 0)


def _may_be_object(schema: JSONObject) -> bool:
    types = schema.get("type", "object")
    names = [str(name).lower() for name in (types if is_array(types) else [types])]
    if names and not any(name in _OBJECT or name not in TYPES for name in names):
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return not is_array(values) or not values or any(map(is_object, values))
