"""Schemas that are better judged by the server: here it would take for ever, or come out wrong."""

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from importlib import import_module
from typing import Any, cast

from toolbus.call.arguments.document import rebuilt
from toolbus.call.arguments.values import is_object
from toolbus.core.records import JSON

_EXACT = 2**20
"""The finest step that binary fractions divide without a rest."""
_MANY = 16
"""Repeats of more than that may go wrong within one another."""


def is_risky(schema: JSON) -> bool:
    """Whether judging by the schema may block the process, or refuse what is valid.

    A pattern may take exponential time, and a multiple of 0.01 is none in binary fractions.
    """
    every: list[dict[str, JSON]] = []
    rebuilt(schema, every)
    return any(_is_risky(own) for own in every)


def _is_risky(own: dict[str, JSON]) -> bool:
    named = own.get("patternProperties")
    patterns = [own.get("pattern"), *(named if is_object(named) else ())]
    return _is_inexact(own.get("multipleOf")) or any(
        isinstance(pattern, str) and _explodes(pattern) for pattern in patterns
    )


def compares(schema: JSON) -> bool:
    """Whether items of a list are compared each with each."""
    every: list[dict[str, JSON]] = []
    rebuilt(schema, every)
    return any(own.get("uniqueItems") is True for own in every)


def _is_inexact(step: JSON) -> bool:
    return isinstance(step, float) and math.isfinite(step) and Fraction(step).denominator > _EXACT


def _explodes(pattern: str) -> bool:
    # The parser of the standard library, which has no public name.
    parser: Any = import_module("re._parser")
    try:
        parsed = cast("list[Any]", parser.parse(pattern))
    except (re.error, RecursionError, OverflowError):
        return False  # whoever judges finds that it is invalid
    return _repeats(parsed, within=False)


def _repeats(tree: Iterable[Any], *, within: bool) -> bool:
    """Whether a repeat stands in a repeat, or a choice does."""
    for operation, argument in tree:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, most, inner = argument
            many = most > _MANY
            if (within and many) or _repeats(inner, within=within or many):
                return True
        elif name == "BRANCH":
            if within or any(_repeats(branch, within=within) for branch in argument[1]):
                return True
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            inner = cast("tuple[Any, ...]", argument)[-1] if isinstance(argument, tuple) else argument
            if _repeats(inner, within=within):
                return True
    return False
