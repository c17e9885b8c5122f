"""JSON values and their types."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

JSON: TypeAlias = Any
"""A JSON value; the one place where `Any` is meant."""

JSONObject: TypeAlias = Mapping[str, JSON]
Node: TypeAlias = dict[str, JSON]
"""A schema that is an object."""
_PLAIN = frozenset([str, bool, type(None)])
_MOST_BITS = 14_000
"""The limit of an integer that Python converts to text."""


def is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: JSON) -> TypeGuard[list[JSON]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def entries_of(value: JSON) -> dict[str, JSON]:
    """The value if it is an object, else an empty one."""
    return value if is_object(value) else {}


def items_of(value: JSON) -> list[JSON]:
    """A copy of the value if it is an array, else an empty one."""
    return list(value) if is_array(value) else []


def value_at(value: JSON, path: Iterable[str | int]) -> JSON:
    """The value at a path inside another; None if there is none."""
    for step in path:
        if is_array(value):
            value = value[step] if isinstance(step, int) and step < len(value) else None
        else:
            value = entries_of(value).get(str(step))
    return value


def type_of(value: JSON) -> str:
    """The JSON Schema type of a value; its Python type if it is not JSON."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return next((name for kind, name in _TYPES if isinstance(value, kind)), type(value).__name__)


def has_type(value: JSON, types: Sequence[str]) -> bool:
    """Whether the value has one of the types."""
    kind = type_of(value)
    return kind in types or (kind == "integer" and "number" in types)


def same_json(a: JSON, b: JSON) -> bool:
    """Whether two values are the same JSON; unlike `==`, keeps `true` and `1` apart."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def json_copy(value: JSON, deepest: int = 50) -> JSON:
    """A copy made of plain JSON types; ValueError if it is nested too deeply or is not JSON."""
    if type(value) in _PLAIN:
        return value
    if deepest < 0:
        raise ValueError("nested too deeply")
    if _is_mapping(value):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("a key is not a string")
        return {str.__str__(key): json_copy(item, deepest - 1) for key, item in value.items()}
    if _is_row(value):
        return [json_copy(item, deepest - 1) for item in value]
    return _scalar_copy(value)


def is_larger(value: JSON, size: int) -> bool:
    """Whether a JSON value has more than that many values inside."""
    waiting, found = [value], 0
    while waiting:
        item = waiting.pop()
        inner = item.values() if _is_mapping(item) else item if _is_row(item) else ()
        found += len(inner)
        if found > size:
            return True
        waiting.extend([each for each in inner if isinstance(each, dict | list | tuple)])
    return False


def _scalar_copy(value: JSON) -> JSON:
    """The value as a plain type, even if a program uses a subclass."""
    match value:
        case str():
            return str.__str__(value)
        case None | bool():
            return value
        case int() if value.bit_length() < _MOST_BITS:
            return int.__int__(value)
        case float() if math.isfinite(value):
            return float.__float__(value)
        case _:
            raise ValueError(f"a {type(value).__name__} that is not JSON")


def _is_mapping(value: JSON) -> TypeGuard[Mapping[Any, JSON]]:
    return type(value) is dict or isinstance(value, Mapping)


def _is_row(value: JSON) -> TypeGuard[Sequence[JSON]]:
    return isinstance(value, list | tuple)


# In this order: a boolean is an int for Python.
_TYPES: list[tuple[type, str]] = [
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
]
