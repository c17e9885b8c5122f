"""The vocabulary of JSON Schema as tables: what a well-formed value is, which type a keyword constrains, and
which keywords hold further schemas."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from toolbus.schema.values import JSON, is_array, is_object

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
DEEPEST = 60
"""Levels of nesting that are read; anything deeper is cut. Real schemas stay below 20."""
_LARGEST_NUMBER = 1e300
_LARGEST_COUNT = 2**63
_LONGEST_PATTERN = 1_000
"""Characters; compiling takes some microseconds for each."""
_QUOTED = 160  # characters of a keyword's value that a description repeats
_encoder = json.JSONEncoder(ensure_ascii=False)


def words(text: str) -> frozenset[str]:
    """The words of a text, for tables of keywords."""
    return frozenset(text.split())


# Keywords that hold schemas: one, a list, or a map by name.
ONE = words(
    "items additionalProperties not if then else contains propertyNames unevaluatedItems "
    "unevaluatedProperties"
)
MANY = frozenset(["anyOf", "oneOf", "allOf", "prefixItems"])
NAMED = frozenset(["properties", "patternProperties", "dependentSchemas"])
# The same in any draft, with the definitions.
_ANY_ONE = ONE | {"additionalItems"}
_ANY_MANY = MANY | {"items"}
_ANY_NAMED = NAMED | {"$defs", "definitions", "dependencies"}
SCHEMA_KEYWORDS = _ANY_ONE | _ANY_MANY | _ANY_NAMED
"""Keywords that hold schemas, in any draft."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that only name or store schemas; once references are followed, they are not needed.
IDENTITY = words(
    "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $comment $vocabulary $defs definitions"
)
# Keywords that describe a value without constraining it.
ANNOTATIONS = words(
    "title description default examples deprecated readOnly writeOnly contentEncoding contentMediaType "
    "contentSchema"
)

_CONSTRAINING = {
    "string": "minLength maxLength pattern",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "array": "items prefixItems minItems maxItems uniqueItems contains minContains maxContains "
    "unevaluatedItems",
    "object": "properties patternProperties additionalProperties required minProperties maxProperties "
    "propertyNames dependentRequired dependentSchemas unevaluatedProperties",
}
CONSTRAINED_TYPE = {word: kind for kind, words in _CONSTRAINING.items() for word in words.split()}
"""The one type that a keyword constrains; `number` includes integers."""

WITHOUT_EFFECT: Mapping[str, tuple[JSON, ...]] = {
    **dict.fromkeys(["minLength", "minItems", "minProperties"], (0,)),
    "uniqueItems": (False,),
    **dict.fromkeys(["additionalProperties", "unevaluatedProperties", "unevaluatedItems"], (True, {})),
}
"""Values that constrain nothing: leaving the keyword out loses nothing."""


def part_kind(key: str, value: JSON) -> Literal["one", "many", "named"] | None:
    """The way the value of a keyword holds schemas, in any draft; None if it holds none."""
    if key in _ANY_MANY and is_array(value):
        return "many"
    if key in _ANY_NAMED and is_object(value):
        return "named"
    return "one" if key in _ANY_ONE else None


def parts(node: Mapping[str, JSON]) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """Every schema directly inside a node, with the steps that lead to it."""
    for key, value in node.items():
        if key in _ANY_MANY and is_array(value):
            yield from (((key, str(number)), inner) for number, inner in enumerate(value))
        elif key in _ANY_NAMED and is_object(value):
            yield from (((key, name), inner) for name, inner in value.items())
        elif key in _ANY_ONE:
            yield (key,), value


def subschemas(root: JSON) -> Iterator[tuple[tuple[str, ...], dict[str, JSON]]]:
    """Every schema in a document that is an object, the root first, with the steps that lead to it."""
    waiting: list[tuple[tuple[str, ...], JSON]] = [((), root)]
    while waiting:
        place, node = waiting.pop()
        if is_object(node):
            yield place, node
            inside = [((*place, *steps), inner) for steps, inner in parts(node)]
            waiting.extend(reversed(inside))


def is_json(value: JSON, depth: int = 0) -> bool:
    """Whether a value can be sent: no NaN, no infinity, no bottomless nesting."""
    if is_array(value):
        return depth < DEEPEST and all(is_json(item, depth + 1) for item in value)
    if is_object(value):
        return depth < DEEPEST and all(is_json(item, depth + 1) for item in value.values())
    return not isinstance(value, float) or math.isfinite(value)


def quoted(value: JSON) -> str:
    """A value as short text, for a description."""
    try:
        text = value if isinstance(value, str) else _beginning(value)
    except RecursionError:  # nested too deeply
        return "…"
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"


def _beginning(value: JSON) -> str:
    """The value as JSON, at least as much of it as is shown."""
    text = ""
    for piece in _encoder.iterencode(value):  # in pieces: a value may be huge, and be quoted often
        text += piece
        if len(text) > _QUOTED:
            break
    return text


# Python warns about these in a character set because regex dialects disagree on them.
_AMBIGUOUS = re.compile(r"\[\[|--|&&|~~|\|\|")


def is_pattern(text: JSON) -> bool:
    """Whether a regular expression compiles; a provider rejects one that does not."""
    return isinstance(text, str) and _compiles_in_python(text)


@lru_cache(maxsize=2048)
def _compiles_in_python(text: str) -> bool:
    if len(text) > _LONGEST_PATTERN or _AMBIGUOUS.search(text):
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_number(value: JSON) -> bool:
    # As a double: most readers turn anything larger into infinity.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


def _is_count(value: JSON) -> bool:
    # JSON Schema accepts `2.0` as an integer, but not every provider does: it is rewritten.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_COUNT


def _of(*types: type) -> Callable[[JSON], bool]:
    return lambda value: isinstance(value, types)


_is_text = _of(str)


def _is_filled_list(value: JSON) -> bool:
    return is_array(value) and bool(value)  # pyright: ignore[reportUnknownArgumentType] # JSON


def _is_names(value: JSON) -> bool:
    return is_array(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: JSON) -> bool:
    if is_array(value):
        return bool(value) and _is_names(value) and all(item in TYPES for item in value)
    return isinstance(value, str) and value in TYPES


def _is_enum(value: JSON) -> bool:
    # A list of strings needs no conversion; a mixed one is compared as JSON, so `true` and `1` differ.
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
    "examples": lambda value: is_array(value) and is_json(value),
    "patternProperties": lambda value: is_object(value) and all(map(is_pattern, value)),
    "dependentRequired": lambda value: is_object(value) and all(map(_is_names, value.values())),
    "properties": is_object,
    "dependentSchemas": is_object,
    **dict.fromkeys(["const", "default"], is_json),
    **dict.fromkeys(words("title description format contentEncoding contentMediaType"), _of(str)),
    **dict.fromkeys(words("minimum maximum exclusiveMinimum exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        words("minLength maxLength minItems maxItems minContains maxContains minProperties maxProperties"),
        _is_count,
    ),
    **dict.fromkeys(words("uniqueItems deprecated readOnly writeOnly"), _of(bool)),
    **dict.fromkeys([*ONE, "contentSchema"], _of(dict, bool)),
    **dict.fromkeys(MANY, _is_filled_list),
}
"""Whether a keyword's value is well-formed, for every draft 2020-12 keyword that constrains or describes."""
