"""What a JSON value is."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from toolbus.core.records import JSON


def is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    """Whether it is an object, for jsonschema: a dict."""
    return isinstance(value, dict)


def is_array(value: JSON) -> TypeGuard[list[JSON]]:
    """Whether it is an array, for jsonschema: a list."""
    return isinstance(value, list)


def entries_of(value: JSON) -> dict[str, JSON]:
    """The value if it is an object, else an empty one."""
    return value if is_object(value) else {}


def items_of(value: JSON) -> list[JSON]:
    """The items if it is an array, else none."""
    return list(value) if is_array(value) else []


def kind_of(value: JSON) -> str:
    """The JSON type of a value; its Python type if it is none."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


def is_one_of(value: JSON, kinds: Sequence[str]) -> bool:
    """Whether the value has one of the types."""
    kind = kind_of(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def is_names(value: JSON) -> TypeGuard[list[str]]:
    """Whether it is an array of strings."""
    return is_array(value) and all(isinstance(name, str) for name in value)


def plain(value: JSON, deepest: int = 50) -> JSON:
    """A copy of dicts and lists only; ValueError if it is nested too deep, or a key is no string."""
    if deepest < 0:
        raise ValueError("nested too deep")
    if _is_mapping(value):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("a key is no string")
        return {key: plain(item, deepest - 1) for key, item in value.items()}
    return [plain(item, deepest - 1) for item in value] if _is_row(value) else value


def _is_mapping(value: JSON) -> TypeGuard[Mapping[Any, JSON]]:
    return isinstance(value, Mapping)


def _is_row(value: JSON) -> TypeGuard[Sequence[JSON]]:
    return isinstance(value, list | tuple)


# In this order: a boolean is an int for Python.
_KINDS: list[tuple[type, str]] = [
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
]
