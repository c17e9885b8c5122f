"""The JSON Schema in a rule's `arguments`: every keyword in it has to be one that is checked.

A tool's schema may contain anything, and what is unknown in it is ignored. In a rule, an ignored keyword
would make it match more than it says.
"""

import re
import warnings

from toolbus.config.location import Location, near_miss
from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.keywords import ANNOTATIONS, CHECKS, IDENTITY, REFERENCES, SCHEMA_KEYWORDS, subschemas
from toolbus.schema.patterns import MOST_STATES, state_count, usable
from toolbus.schema.validator import InvalidSchema, Validator
from toolbus.schema.values import entries_of, is_object

_UNCHECKED = ("format", "contentEncoding", "contentMediaType", "contentSchema")
_KNOWN = frozenset([*CHECKS, *ANNOTATIONS, *IDENTITY, *REFERENCES, *SCHEMA_KEYWORDS, "nullable"])


def check_condition(schema: JSONObject, location: Location, key: str) -> None:
    """ConfigError if the schema is invalid, or if part of it would not be checked."""
    try:
        Validator(schema)
    except InvalidSchema as error:
        raise location.error(f"is not a JSON Schema that can be used: {error}", key) from None
    for steps, node in subschemas(schema):
        for keyword, value in node.items():
            problem = _problem(keyword, value, at_top=not steps)
            if problem is not None:
                raise location.error(problem, ".".join((key, *steps, keyword)))


def _problem(keyword: str, value: JSON, *, at_top: bool) -> str | None:
    """Why a keyword would not be checked."""
    if keyword in _UNCHECKED:
        return "is not checked; describe the text with 'pattern'"
    patterns = (
        [value] if keyword == "pattern" else entries_of(value) if keyword == "patternProperties" else ()
    )
    for pattern in patterns:
        if isinstance(pattern, str) and usable(pattern) is None:
            if not _is_regular_expression(pattern):
                return f"{pattern!r} is not a regular expression"
            return (
                f"{pattern!r} cannot be checked; use a shorter one, without look-around and back references"
            )
    if keyword in _KNOWN:
        return None
    if at_top and is_object(value):
        return "unknown keyword; the names of arguments belong under 'properties'"
    return f"unknown keyword{near_miss(keyword, _KNOWN)}"


def _is_regular_expression(pattern: str) -> bool:
    """Whether a pattern that cannot be checked may be one all the same."""
    if state_count(pattern) > MOST_STATES:
        return True  # too long to tell
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
