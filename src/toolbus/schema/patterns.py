"""The validators of jsonschema-rs, and what regular expressions cost.

This is the one place that imports jsonschema-rs, when it is first needed. Its patterns take linear time, but
each of their states costs time for every character: `[ab]{0,3000}c` takes 80 us for each. So a pattern with
many states is not used, nor one for a text that is too long for it. Formats are annotations, and a reference
is never fetched.
"""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal

from toolbus.schema.values import JSON, entries_of, is_array, is_object

_LARGEST_PATTERN = 1_000_000
"""Bytes of a compiled pattern; `schema.patterns` refuses nearly all of these before they are compiled."""


def package() -> Any:
    """The package itself."""
    return import_module("jsonschema_rs")


def compiled(schema: JSON, function: Literal["validator_for", "validator_map_for"] = "validator_for") -> Any:
    """The validator of a schema; ValueError if the schema is invalid."""
    jsonschema_rs = package()
    return getattr(jsonschema_rs, function)(
        schema,
        offline=True,
        validate_formats=False,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=_LARGEST_PATTERN),
    )


MOST_STATES = 2_000
"""Of one pattern; compiling takes about a microsecond for each."""
MOST_STEPS = 1_000_000
"""States times characters."""
_UNICODE = 600
"""The states of a Unicode class."""
_TOKEN = re.compile(
    r"(?P<escape>\\[pPuxk]\{[^{}]{0,100}\}|\\[\s\S]?)|(?P<set>\[\^?\]?(?:[^\]\\]|\\[\s\S]?)*+\]?)"
    r"|\{(?P<low>\d{0,9}),?(?P<high>\d{0,9})\}|[\s\S]"
)


@lru_cache(maxsize=2048)
def state_count(pattern: str) -> int:
    """About how many states the pattern has, at least; more than `MOST_STATES` is not counted exactly."""
    if len(pattern) > MOST_STATES:
        return len(pattern)
    outer: list[int] = []
    total = last = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            outer.append(total)
            total = last = 0
        elif text == ")":
            last, total = total, total + (outer.pop() if outer else 0)
        elif len(text) > 1 and text[0] == "{":
            times = max(1, int(token["low"] or 0) + 1, int(token["high"] or 0))
            total, last = total + last * (times - 1), last * times
        else:
            last = _states_of(text)
            total += last
    return total + sum(outer)


def _states_of(text: str) -> int:
    if r"\p" in text or r"\P" in text:
        return _UNICODE * (text.count(r"\p") + text.count(r"\P"))
    is_wide = text == "." or text.startswith("[^") or not text.isascii() or text[:2] in (r"\W", r"\D", r"\S")
    return 5 if is_wide else 1


@lru_cache(maxsize=2048)
def usable(pattern: str) -> Any:
    """A function that tells whether a text matches; None if the pattern is invalid, or takes too long."""
    if state_count(pattern) > MOST_STATES:
        return None
    try:
        return compiled({"pattern": pattern}).is_valid
    except ValueError:
        return None


def matches(pattern: str, text: str) -> bool:
    """Whether a text is known to match."""
    is_match = usable(pattern) if state_count(pattern) * len(text) <= MOST_STEPS else None
    return is_match is not None and bool(is_match(text))


def pattern_length(schema: JSON) -> int:
    """The number of characters in all patterns of a schema, at any place."""
    length, waiting = 0, [schema]
    while waiting:
        node = waiting.pop()
        if is_object(node):
            pattern = node.get("pattern")
            length += len(pattern) if isinstance(pattern, str) else 0
            length += sum(map(len, entries_of(node.get("patternProperties"))))
            waiting.extend(node.values())
        elif is_array(node):
            waiting.extend(node)
    return length
