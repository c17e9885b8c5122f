"""Proofs for values without parts, and how proofs are joined. A proof says yes, or nothing."""

import re
from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from toolbus.call.arguments.values import is_array
from toolbus.core.records import JSON

Proof: TypeAlias = Callable[[JSON], bool]

_SCALAR = (bool, int, float, type(None))
_UNBOUNDED = (-inf, inf)
type_of: Callable[[JSON], object] = type
"""The very type: a bool is an int, and an enum may be a string, but for JSON they are not."""


def silent(_: JSON) -> bool:
    """The proof that never can tell."""
    return False


def anything(_: JSON) -> bool:
    """The proof for a schema that allows everything."""
    return True


def all_of(parts: Sequence[Proof]) -> Proof:
    """The proof that needs each of the parts."""
    match parts:
        case []:
            return anything
        case [part]:
            return part
        case [first, second]:
            return lambda value: first(value) and second(value)
        case _:
            return lambda value: all(part(value) for part in parts)


def one_of(parts: Sequence[Proof]) -> Proof:
    """The proof that needs one of the parts."""
    match parts:
        case []:
            return silent
        case [part]:
            return part
        case [first, second]:
            return lambda value: first(value) or second(value)
        case _:
            return lambda value: any(part(value) for part in parts)


def among(values: JSON) -> Proof:
    """The proof that a value is one of those listed."""
    if not is_array(values):
        return silent
    strings = frozenset(value for value in values if isinstance(value, str))
    # With the type: `true` is not 1. Of lists and objects it knows nothing.
    others = frozenset((type(value), value) for value in values if isinstance(value, _SCALAR))
    if not others:
        return lambda value: type(value) is str and value in strings
    return lambda value: (
        value in strings
        if type(value) is str
        else isinstance(value, _SCALAR) and (type(value), value) in others
    )


def is_string(value: JSON) -> bool:
    """The proof of a string without bounds."""
    return type(value) is str


def string(own: dict[str, JSON]) -> Proof:
    """The proof of a string."""
    pattern = own.get("pattern")
    limits = bounds(own.get("minLength"), own.get("maxLength"))
    if limits == _UNBOUNDED and pattern is None:
        return is_string
    found = _finder("" if pattern is None else pattern)
    if limits is None or found is None:
        return silent
    low, high = limits
    return lambda value: type(value) is str and low <= len(value) <= high and found(value) is not None


def _finder(pattern: JSON) -> Callable[[str], object] | None:
    try:
        return re.compile(pattern).search
    except (re.error, TypeError, OverflowError, RecursionError, Warning):
        return None


def number(own: dict[str, JSON], *, whole: bool) -> Proof:
    """The proof of a number, or of an integer; 5.0 is one."""
    limits = bounds(own.get("minimum"), own.get("maximum"))
    outside = bounds(own.get("exclusiveMinimum"), own.get("exclusiveMaximum"))
    if limits is None or outside is None:
        return silent
    low, high = limits
    above, below = outside
    is_open = outside != _UNBOUNDED

    def proven(value: JSON) -> bool:
        kind = type_of(value)
        if kind is not int and (kind is not float or (whole and not value.is_integer())):
            return False
        return low <= value <= high and (not is_open or above < value < below)

    return proven


def bounds(low: JSON, high: JSON) -> tuple[float, float] | None:
    """The bounds, infinite where there is none; None if they make no sense."""
    low, high = (-inf if low is None else low), (inf if high is None else high)
    return (low, high) if type(low) in (int, float) and type(high) in (int, float) else None
