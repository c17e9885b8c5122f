"""Convert a listed tool into a record, or quarantine it with a reason.

Names and input schemas have to be valid, because a call depends on them. Other invalid parts are ignored, and
recorded in the tool's history. Texts are cleaned. Values that have the wrong type or cannot be written as
JSON are dropped. Dropping a hint is safe, because the protocol's defaults are cautious.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import to_json

from toolbus.core.text.canonical import DEEPEST, encoding_problem, is_too_deep
from toolbus.core.text.text import cleaned, cleaned_schema
from toolbus.core.values.records import EMPTY, RECEIVED, Change, Origin, Quarantined, ToolSpec
from toolbus.schema.keywords import TYPES, subschemas
from toolbus.schema.patterns import pattern_length
from toolbus.schema.references import References
from toolbus.schema.values import JSON, JSONObject, is_array, is_larger, is_object

_LONGEST_PATTERNS = 5_000
"""Characters of all patterns in a schema: compiling takes some microseconds for each."""
_SCHEMAS = ("inputSchema", "outputSchema")
_EXTRAS = ("execution", "icons")
_OPTIONAL: Mapping[str, type] = {
    "description": str,
    "title": str,
    "annotations": dict,
    "_meta": dict,
    "outputSchema": dict,
}
_HINTS: Mapping[str, type] = {
    "title": str,
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
}


def tool_spec(server: str, tool: JSON, longest: int = 10_000, largest: int = 3_000) -> ToolSpec | Quarantined:
    """The record of a listed tool, under the server's own name; `Quarantined` if it is unusable.

    `longest` is for the characters of the description, `largest` for the values in a schema.
    """
    if not isinstance(tool, dict):
        return Quarantined(tool="(no name)", reason="the definition is not an object")
    item = cast("dict[str, JSON]", tool)
    name = item.get("name")
    if not isinstance(name, str) or not name.strip():
        return Quarantined(tool="(no name)", reason="it has no name")
    ignored: list[str] = []
    item = _with_object(item, ignored)
    if not isinstance(item.get("inputSchema"), dict):
        problem = "is missing" if item.get("inputSchema") is None else "is not an object"
        return Quarantined(tool=_shown(name), reason=f"inputSchema {problem}")
    item = _typed(item, _OPTIONAL, ignored)
    encoded = _encoded(item)
    if encoded is None or _values_at_most(encoded) > largest or b'"pattern' in encoded:
        item, encoded = _with_small_schemas(item, largest, ignored), None
    annotations: JSONObject = item.get("annotations") or EMPTY
    if annotations:
        annotations = _typed(annotations, _HINTS, ignored, "annotations.")
    meta: JSONObject = item.get("_meta") or EMPTY
    extras = {key: item[key] for key in _EXTRAS if item.get(key)} or EMPTY
    if not _is_plain(item, encoded):
        if (fault := encoding_problem(name)) is not None:
            return Quarantined(tool=_shown(name), reason=f"its name {fault}")
        item = _with_clean_texts(item, ignored)
        if (fault := encoding_problem(item["inputSchema"])) is not None:
            return Quarantined(tool=name, reason=f"inputSchema {fault}")
        item = _with_writable_output(item, ignored)
        annotations = _writable(annotations, ignored, "annotations.")
        meta = _writable(meta, ignored, "_meta.")
        extras = _writable(extras, ignored, "")
    input_schema = arguments_schema(item["inputSchema"], ignored)
    return ToolSpec(
        name=name,
        origin=Origin(server, name),
        description=_cut(item.get("description") or "", longest, ignored),
        title=item.get("title") or annotations.get("title"),
        input_schema=input_schema,
        output_schema=item.get("outputSchema"),
        annotations=annotations,
        meta=meta,
        extras=extras,
        history=(Change(shaper=RECEIVED, fields=tuple(ignored)),) if ignored else (),
    )


def _cut(description: str, longest: int, ignored: list[str]) -> str:
    if len(description) <= longest:
        return description
    ignored.append(f"description (beyond {longest:,} characters)")
    return f"{description[:longest]}..."


def _with_object(item: JSONObject, ignored: list[str]) -> JSONObject:
    """The definition with an object schema in place of the input schema `true`, which accepts anything."""
    if item.get("inputSchema") is not True:
        return item
    ignored.append("inputSchema (true)")
    return {**item, "inputSchema": {"type": "object"}}


def _typed(given: JSONObject, kinds: Mapping[str, type], ignored: list[str], at: str = "") -> JSONObject:
    """The object without the known keys that have the wrong type; null is treated as absent."""
    wrong = [key for key, kind in kinds.items() if key in given and not isinstance(given[key], kind)]
    if not wrong:
        return given
    ignored += [f"{at}{key}" for key in wrong if given[key] is not None]
    return {key: value for key, value in given.items() if key not in wrong}


def _encoded(item: JSONObject) -> bytes | None:
    """The definition as JSON; None if it has values that cannot be written."""
    try:
        return to_json(item, inf_nan_mode="constants")
    except ValueError:
        return None


def _values_at_most(encoded: bytes) -> int:
    return encoded.count(b",") + encoded.count(b"{") + encoded.count(b"[")


def _is_plain(item: JSONObject, encoded: bytes | None) -> bool:
    """Whether it can be written as JSON; for most tools, three times as fast as `encoding_problem`."""
    text = _encoded(item) if encoded is None else encoded
    if text is None:
        return False
    # A short text has no number of more than 4,300 digits, which Python would not write.
    is_small = len(text) < 4_300 and text.count(b"{") + text.count(b"[") <= DEEPEST
    return (is_small and b"NaN" not in text and b"Infinity" not in text) or encoding_problem(item) is None


def _with_small_schemas(item: JSONObject, largest: int, ignored: list[str]) -> JSONObject:
    """The definition without schemas that take long to read; a call of the tool is then not checked."""
    fresh: dict[str, Any] = dict(item)
    for key, instead in (("inputSchema", {"type": "object"}), ("outputSchema", None)):
        schema = item.get(key)
        if is_too_deep(schema, widest=100):
            continue  # it costs the tool
        if is_larger(schema, largest):
            fresh[key] = instead
            ignored.append(f"{key} (more than {largest:,} values, limits.schema_size)")
        elif pattern_length(schema) > _LONGEST_PATTERNS:
            fresh[key] = instead
            ignored.append(f"{key} (patterns of more than {_LONGEST_PATTERNS:,} characters)")
    return fresh


def _with_clean_texts(item: JSONObject, ignored: list[str]) -> JSONObject:
    """The definition with those texts cleaned that cannot be written as they were sent."""
    fresh: dict[str, Any] = dict(item)
    for key, clean in (
        ("description", cleaned),
        ("title", cleaned),
        *((key, cleaned_schema) for key in _SCHEMAS),
    ):
        if item.get(key) is not None and encoding_problem(item[key]) is not None:
            fresh[key] = clean(item[key])
            ignored.append(key)
    return fresh


def _with_writable_output(item: JSONObject, ignored: list[str]) -> JSONObject:
    if encoding_problem(item.get("outputSchema")) is None:
        return item
    ignored += ["outputSchema"] if "outputSchema" not in ignored else []
    return {key: value for key, value in item.items() if key != "outputSchema"}


def _writable(given: JSONObject, ignored: list[str], at: str) -> JSONObject:
    """The object without the entries that cannot be written as JSON."""
    wrong = [key for key, value in given.items() if encoding_problem({key: value}) is not None]
    ignored += [f"{at}{_shown(key)}" for key in wrong]
    return {key: value for key, value in given.items() if key not in wrong} if wrong else given


def _shown(name: str) -> str:
    """The name with characters that cannot be encoded escaped."""
    return name.encode(errors="backslashreplace").decode()


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
    """The schema for the arguments of a call; ignored parts are added to the list.

    Plain mistakes are reported once, on arrival, and never in the way of a call. Where a keyword has no
    meaning nothing can be checked, and the server decides.
    """
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
