"""Describe schemas, values and places in a few words."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolbus.schema.node import Schema
from toolbus.schema.values import JSON, has_type

_LONGEST = 80
"""The maximum number of characters shown of a value, a name or a description."""
_MOST_NAMES = 20
_LARGEST = 1e15
_DEEPEST = 8
"""The maximum depth at which nested lists are described."""
_MOST_VALUES = 12
_MOST_LISTED = 50
_LONGEST_WORDS = 2_000
"""The maximum number of characters in a description of the expected values."""
_PLURAL = {
    "string": "strings",
    "integer": "integers",
    "number": "numbers",
    "boolean": "booleans",
    "object": "objects",
    "array": "lists",
    "null": "nulls",
}


def shown(value: JSON) -> str:
    """The value on one line, shortened."""
    if isinstance(value, str):
        return repr(shortened(value))
    text = ""
    try:
        # In pieces, so that only the beginning of a large value is encoded.
        for piece in json.JSONEncoder(default=_foreign).iterencode(value):
            text += piece[:_LONGEST]
            if len(text) > _LONGEST:
                break
    except (ValueError, TypeError, RecursionError):  # an integer of thousands of digits
        return f"{text[:_LONGEST]}… ({type(value).__name__})"
    return shortened(text)


def as_json(value: JSON) -> str:
    """The value as JSON on one line; empty if it cannot be encoded."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return ""


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The text, shortened."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def place_inside(place: str, step: str | int) -> str:
    """The name of a place inside another: `filter.limit`, `ids[0]`."""
    if isinstance(step, int):
        return f"{place}[{step}]"
    name = shortened(step) if step.isprintable() else repr(shortened(step))
    return f"{place}.{name}" if place else name


def names(known: Sequence[str]) -> str:
    """`'a', 'b', 'c'` and how many more."""
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(repr(shortened(name)) for name in known[:_MOST_NAMES]) + more


def either(words: Sequence[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def expected(schema: Schema, depth: int = 0) -> str:
    """The expected value: `an integer from 1 to 100`."""
    if schema.values:
        shown_values = [shortened(as_json(value)) for value in schema.values[:_MOST_VALUES]]
        more = f" ({len(schema.values)} in all)" if len(schema.values) > _MOST_VALUES else ""
        return ("one of " if len(schema.values) > 1 else "") + ", ".join(shown_values) + more
    choices = schema.choices[:_MOST_VALUES] if depth < 3 and schema.work.allows(1) else []
    words = [_BY_TYPE[kind](schema) for kind in schema.likely_types if kind in _BY_TYPE]
    if not words or words == ["an object"]:
        words = [expected(schema.of(choice), depth + 1) for choice in choices] or words
    return shortened(either(list(dict.fromkeys(words))), _LONGEST_WORDS) or "another value"


def purpose(schema: Schema) -> str:
    """The description in parentheses, or an empty string."""
    text = schema.description or schema.own.get("title", "")
    return f" ({shortened(' '.join(text.split()))})" if text.strip() else ""


def number(schema: Schema, key: str) -> float | None:
    """A number in the schema, unless it is too large to be useful."""
    found: Any = schema.own.get(key)
    return found if has_type(found, ["number"]) and abs(found) < _LARGEST else None


def type_words(schema: Schema, depth: int = 0) -> str:
    """The type for people: `integer`, `list of string`, `a, b or c`."""
    if values := schema.all_values:
        words = [value if isinstance(value, str) else json.dumps(value) for value in values[:_MOST_LISTED]]
        more = len(values) - _MOST_LISTED
        listed = either(words) if more <= 0 else f"{', '.join(words)} or one of {more:,} more"
        return shortened(listed, _LONGEST_WORDS)
    types = [kind for kind in schema.all_types if kind != "null"]
    if "array" in types and depth < _DEEPEST and schema.items.all_types:
        types[types.index("array")] = f"list of {type_words(schema.items, depth + 1)}"
    return either(types) or "any"


def _foreign(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _size(low: float | None, high: float | None, unit: str) -> str:
    """` of 1 to 5 characters`, ` of at least 1 item`."""
    if low is None and high is None:
        return ""
    bound = f"{low} to {high}" if low and high is not None and low != high else None
    bound = bound or (f"exactly {high}" if low == high else None)
    bound = bound or (f"at most {high}" if high is not None else f"at least {low}")
    return f" of {bound} {unit}{'' if (high if high is not None else low) == 1 else 's'}"


def _string(schema: Schema) -> str:
    form = schema.own.get("format")
    pattern = schema.own.get("pattern")
    return "".join(
        [
            "a string",
            _size(number(schema, "minLength"), number(schema, "maxLength"), "character"),
            f" in the format {shortened(form)}" if isinstance(form, str) else "",
            f" that matches {shortened(pattern)}" if isinstance(pattern, str) else "",
        ]
    )


def _number(article: str) -> Callable[[Schema], str]:
    def words(schema: Schema) -> str:
        low, high = number(schema, "minimum"), number(schema, "maximum")
        above, below = number(schema, "exclusiveMinimum"), number(schema, "exclusiveMaximum")
        step = number(schema, "multipleOf")
        if low is not None and high is not None:
            bounds = [f"from {low} to {high}"]
        else:
            bounds = [f"of at least {low}"] if low is not None else []
            bounds += [f"of at most {high}"] if high is not None else []
        bounds += [f"above {above}"] if above is not None else []
        bounds += [f"below {below}"] if below is not None else []
        bounds += [f"that is a multiple of {step}"] if step is not None else []
        return " ".join([article, " and ".join(bounds)]).strip()

    return words


def _array(schema: Schema) -> str:
    inner = schema.of(schema.item(0))
    kinds = [_PLURAL[kind] for kind in inner.likely_types if kind in _PLURAL]
    size = _size(number(schema, "minItems"), number(schema, "maxItems"), "item")
    if inner.values:
        return f"a list{size}, each {expected(inner)}"
    if size:
        return f"a list{size}" + (f", all {either(kinds)}" if kinds else "")
    return f"a list of {either(kinds)}" if kinds else "a list"


def _object(schema: Schema) -> str:
    known = schema.required({}) or list(schema.properties)
    return f"an object with {names(known[:8])}" if known else "an object"


_BY_TYPE: dict[str, Callable[[Schema], str]] = {
    "string": _string,
    "integer": _number("an integer"),
    "number": _number("a number"),
    "boolean": lambda _: "true or false",
    "array": _array,
    "object": _object,
    "null": lambda _: "null",
}
