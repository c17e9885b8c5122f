"""What else a value of the wrong type may have been meant as, the likeliest first.

Only readings that lose nothing. A float is not read as a string, since 1.10 has become 1.1 on its way here;
neither is a boolean (`true`, `True`, `yes`?) nor an object (which spacing, which order?).
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolbus.call.arguments.guide import Guide
from toolbus.call.arguments.values import is_array, is_one_of, plain
from toolbus.core.records import JSON

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
_FENCE = "```"
_LONGEST = 1_000_000
"""How many characters of JSON in a string are read."""


class Reading(NamedTuple):
    """A value, and whether its shape is another one than that of the value it was read from."""

    value: JSON
    is_reshaped: bool = False


def readings(guide: Guide, value: JSON) -> Iterator[Reading]:
    """What the value may have been meant as. Each one still has to be judged."""
    kinds = guide.kinds
    if isinstance(value, str):
        yield from _listed(guide.values, value)
    if not kinds or (is_one_of(value, kinds) and not isinstance(value, float)):
        return
    if isinstance(value, str):
        yield from map(Reading, _spelt(value, kinds))
    elif isinstance(value, float) and value.is_integer() and "integer" in kinds:
        yield Reading(int(value))  # until draft 4, 5.0 was no integer
    elif type(value) is int and "string" in kinds and value.bit_length() < 1000:
        yield Reading(str(value))
    elif is_array(value) and len(value) == 1:
        yield Reading(value[0], is_reshaped=True)
    if "array" in kinds and _is_single(value):
        yield Reading([value], is_reshaped=True)


def is_blank(value: JSON) -> bool:
    """Whether a string says that there is no value."""
    return isinstance(value, str) and value.strip() in ("", "null", "None")


def _listed(values: Sequence[JSON], text: str) -> Iterator[Reading]:
    """The one listed value that differs only in case and surrounding blanks."""
    wanted = _folded(text)
    same = [value for value in values if isinstance(value, str) and _folded(value) == wanted]
    if len(same) == 1 and same[0] != text:
        yield Reading(same[0])


def _folded(text: str) -> str:
    return text.strip().casefold()


def _spelt(text: str, kinds: Sequence[str]) -> Iterator[JSON]:
    """What the string spells, of the types that are expected."""
    bare = text.strip()
    if "boolean" in kinds and bare.lower() in ("true", "false"):
        yield bare.lower() == "true"
    if "integer" in kinds or "number" in kinds:
        yield from _numbers(bare, whole="integer" in kinds)
    if "null" in kinds and is_blank(bare):
        yield None
    if ("object" in kinds or "array" in kinds) and len(bare) <= _LONGEST:
        yield from _documents(bare)


def _numbers(text: str, *, whole: bool) -> Iterator[JSON]:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return
    if found[2] is None and found[3] is None:
        yield int(text)
    elif math.isfinite(number := float(text)):
        # Beyond 2**53 a float does not hold every integer.
        yield int(number) if whole and number.is_integer() and abs(number) < 2**53 else number


def _documents(text: str) -> Iterator[JSON]:
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        text = text[len(_FENCE) : -len(_FENCE)].removeprefix("json")
    try:
        value = plain(json.loads(text, parse_constant=_refused))
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value


def _refused(constant: str) -> JSON:
    raise ValueError(f"{constant} is not JSON")


def _is_single(value: JSON) -> bool:
    """Whether the value can be the one item of a list: not a list in disguise, broken JSON, or nothing."""
    if isinstance(value, str):
        return not is_blank(value) and value.lstrip()[0] not in "[{" and not set(value) & set(",;\n")
    return value is not None and not is_array(value)
