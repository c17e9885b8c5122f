"""The vocabulary of JSON Schema as tables: what a well-formed value is, which type a keyword speaks of, and
which keywords hold further schemas."""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeGuard

from toolbus.core.records import JSON

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
DEEPEST = 60
"""Levels of nesting that are read; what lies deeper is cut. Real schemas stay below 20."""
_HUGE = 1e300
_HUGE_COUNT = 2**63
_QUOTED = 160  # characters of a keyword's value that a description repeats


def words(text: str) -> frozenset[str]:
    """The words of a text, for tables of keywords."""
    return frozenset(text.split())


def is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: JSON) -> TypeGuard[list[JSON]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


# Keywords that hold schemas: one, a list, or a map by name.
ONE = words(
    "items additionalProperties not if then else contains propertyNames unevaluatedItems "
    "unevaluatedProperties"
)
MANY = frozenset(["anyOf", "oneOf", "allOf", "prefixItems"])
NAMED = frozenset(["properties", "patternProperties", "dependentSchemas"])

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# What only names or files a schema away; once references are followed, nothing needs it.
IDENTITY = words(
    "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $comment $vocabulary $defs definitions"
)
# What tells about a value without constraining it.
ANNOTATIONS = words(
    "title description default examples deprecated readOnly writeOnly contentEncoding contentMediaType "
    "contentSchema"
)

_SPOKEN = {
    "string": "minLength maxLength pattern",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "array": "items prefixItems minItems maxItems uniqueItems contains minContains maxContains "
    "unevaluatedItems",
    "object": "properties patternProperties additionalProperties required minProperties maxProperties "
    "propertyNames dependentRequired dependentSchemas unevaluatedProperties",
}
SPEAKS_OF = {word: kind for kind, words in _SPOKEN.items() for word in words.split()}
"""The one type that a keyword constrains; `number` stands for integers too."""

IDLE: Mapping[str, tuple[JSON, ...]] = {
    **dict.fromkeys(["minLength", "minItems", "minProperties"], (0,)),
    "uniqueItems": (False,),
    **dict.fromkeys(["additionalProperties", "unevaluatedProperties", "unevaluatedItems"], (True, {})),
}
"""Values that constrain nothing, so that leaving the keyword out loses nothing."""


def is_json(value: JSON, depth: int = 0) -> bool:
    """Whether a value can be sent: no NaN, no infinity, no bottomless nesting."""
    if is_list(value):
        return depth < DEEPEST and all(is_json(item, depth + 1) for item in value)
    if is_object(value):
        return depth < DEEPEST and all(is_json(item, depth + 1) for item in value.values())
    return not isinstance(value, float) or math.isfinite(value)


def type_of(value: JSON) -> str:
    """The JSON Schema type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case float():
            return "integer" if value.is_integer() else "number"
        case _:
            return "integer"


def quoted(value: JSON) -> str:
    """A value in a few words, for a description."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:  # nested too deep to be told
        return "…"
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"


# Python warns of these in a character set because regex flavours disagree on them; so they are not portable.
_DISPUTED = re.compile(r"\[\[|--|&&|~~|\|\|")


def is_pattern(text: JSON) -> bool:
    """Whether a regular expression can be read; one that cannot is refused by whoever enforces it."""
    return isinstance(text, str) and _compiles(text)


@lru_cache(maxsize=2048)
def _compiles(text: str) -> bool:
    if _DISPUTED.search(text):
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_number(value: JSON) -> bool:
    # As a double: what does not fit into one is infinite to most who read it.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE


def _is_count(value: JSON) -> bool:
    # `2.0` is a whole number to JSON Schema, but not to every provider: it is rewritten.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _HUGE_COUNT


def _is_text(value: JSON) -> bool:
    return isinstance(value, str)


def _is_flag(value: JSON) -> bool:
    return isinstance(value, bool)


def _is_schema(value: JSON) -> bool:
    return isinstance(value, dict | bool)


def _is_filled_list(value: JSON) -> bool:
    return is_list(value) and bool(value)  # pyright: ignore[reportUnknownArgumentType] # JSON


def _is_map(value: JSON) -> bool:
    return is_object(value)


def _is_names(value: JSON) -> bool:
    return is_list(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: JSON) -> bool:
    if is_list(value):
        return bool(value) and _is_names(value) and all(item in TYPES for item in value)
    return isinstance(value, str) and value in TYPES


def _is_enum(value: JSON) -> bool:
    # Strings are told apart at once; a mixed list is compared as JSON, which keeps `true` and `1` apart.
    if not _is_filled_list(value) or not is_json(value):
        return False
    texts = value if all(map(_is_text, value)) else [json.dumps(item, sort_keys=True) for item in value]
    return len(set(texts)) == len(texts)


CHECKS: Mapping[str, Callable[[JSON], bool]] = {
    "type": _is_type,
    "enum": _is_enum,
    "pattern": is_pattern,
    "required": _is_names,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "examples": lambda value: is_list(value) and is_json(value),
    "patternProperties": lambda value: _is_map(value) and all(map(is_pattern, value)),
    "dependentRequired": lambda value: _is_map(value) and all(map(_is_names, value.values())),
    "properties": _is_map,
    "dependentSchemas": _is_map,
    **dict.fromkeys(["const", "default"], is_json),
    **dict.fromkeys(words("title description format contentEncoding contentMediaType"), _is_text),
    **dict.fromkeys(words("minimum maximum exclusiveMinimum exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        words("minLength maxLength minItems maxItems minContains maxContains minProperties maxProperties"),
        _is_count,
    ),
    **dict.fromkeys(words("uniqueItems deprecated readOnly writeOnly"), _is_flag),
    **dict.fromkeys([*ONE, "contentSchema"], _is_schema),
    **dict.fromkeys(MANY, _is_filled_list),
}
"""Whether a keyword's value is well-formed, for every keyword of draft 2020-12 that constrains or tells."""
