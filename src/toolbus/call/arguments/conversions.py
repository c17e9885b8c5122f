"""The values that a value of the wrong type may stand for, most likely first.

Conversions lose nothing. A float does not become a string, because 1.10 has already become 1.1. Neither does
a boolean (`true`, `True`, `yes`?) or an object (which spacing, which order?).
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolbus.schema.node import Schema
from toolbus.schema.values import JSON, has_type, is_array, json_copy

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
_FENCE = "```"
_LONGEST = 1_000_000
"""The number of characters of JSON in a string to parse."""


class ValueConversion(NamedTuple):
    """A value, and whether it has another shape than the original."""

    value: JSON
    is_reshaped: bool = False


def conversions(schema: Schema, value: JSON) -> Iterator[ValueConversion]:
    """The values that may have been meant. Each one has yet to be validated."""
    types = schema.likely_types
    if isinstance(value, str):
        yield from _listed(schema.values, value)
    if not types or (has_type(value, types) and not isinstance(value, float)):
        return
    if isinstance(value, str):
        yield from map(ValueConversion, _parsed(value, types))
    elif isinstance(value, float) and value.is_integer() and "integer" in types:
        yield ValueConversion(int(value))  # in draft 4, 5.0 is not an integer
    elif type(value) is int and "string" in types and value.bit_length() < 1000:
        yield ValueConversion(str(value))
    elif is_array(value) and len(value) == 1:
        yield ValueConversion(value[0], is_reshaped=True)
    if "array" in types and _can_be_item(value):
        yield ValueConversion([value], is_reshaped=True)


def is_blank(value: JSON) -> bool:
    """Whether a string stands for no value."""
    return isinstance(value, str) and value.strip() in ("", "null", "None")


def _listed(values: Sequence[JSON], text: str) -> Iterator[ValueConversion]:
    """The only listed value that differs just in case and surrounding blanks."""
    wanted = _folded(text)
    same = [value for value in values if isinstance(value, str) and _folded(value) == wanted]
    if len(same) == 1 and same[0] != text:
        yield ValueConversion(same[0])


def _folded(text: str) -> str:
    return text.strip().casefold()


def _parsed(text: str, types: Sequence[str]) -> Iterator[JSON]:
    """The values of the expected types that the string spells."""
    bare = text.strip()
    if "boolean" in types and bare.lower() in ("true", "false"):
        yield bare.lower() == "true"
    if "integer" in types or "number" in types:
        yield from _numbers(bare, whole="integer" in types)
    if "null" in types and is_blank(bare):
        yield None
    if ("object" in types or "array" in types) and len(bare) <= _LONGEST:
        yield from _documents(bare)


def _numbers(text: str, *, whole: bool) -> Iterator[JSON]:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return
    if found[2] is None and found[3] is None:
        yield int(text)
    elif math.isfinite(number := float(text)):
        # Beyond 2**53 a float cannot represent every integer.
        yield int(number) if whole and number.is_integer() and abs(number) < 2**53 else number


def _documents(text: str) -> Iterator[JSON]:
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        text = text[len(_FENCE) : -len(_FENCE)].removeprefix("json")
    try:
        value = json_copy(json.loads(text, parse_constant=_reject))
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value


def _reject(constant: str) -> JSON:
    raise ValueError(f"{constant} is not JSON")


def _can_be_item(value: JSON) -> bool:
    """Whether the value can be the only item of a list: not a list as text, broken JSON, or empty."""
    if isinstance(value, str):
        return not is_blank(value) and value.lstrip()[0] not in "[{" and not set(value) & set(",;\n")
    return value is not None and not is_array(value)
