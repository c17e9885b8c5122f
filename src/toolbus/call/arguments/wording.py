"""Say to a model, in few words, what is expected, what was got, and where."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolbus.call.arguments.guide import Guide
from toolbus.core.records import JSON

_LONGEST = 80
"""How many characters of a value, a name or a description are told."""
_MOST_NAMES = 20
_LARGEST = 1e15
_MOST_VALUES = 12
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
    """The value on one line, its beginning if it is long."""
    if isinstance(value, str):
        return repr(cut(value))
    text = ""
    try:
        # In pieces: of a large value only the beginning is spelt.
        for piece in json.JSONEncoder(default=_foreign).iterencode(value):
            text += piece[:_LONGEST]
            if len(text) > _LONGEST:
                break
    except (ValueError, TypeError, RecursionError):  # an integer of thousands of digits
        return f"{text[:_LONGEST]}… ({type(value).__name__})"
    return cut(text)


def written(value: JSON) -> str:
    """The value as JSON on one line; nothing if it cannot be written."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return ""


def cut(text: str) -> str:
    """The text, or its beginning."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def inside(place: str, step: str | int) -> str:
    """The name of a place inside another: `filter.limit`, `ids[0]`."""
    if isinstance(step, int):
        return f"{place}[{step}]"
    name = cut(step) if step.isprintable() else repr(cut(step))
    return f"{place}.{name}" if place else name


def names(known: Sequence[str]) -> str:
    """`'a', 'b', 'c'`, and how many more."""
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(repr(cut(name)) for name in known[:_MOST_NAMES]) + more


def either(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def expected(guide: Guide, depth: int = 0) -> str:
    """What is expected: `an integer from 1 to 100`."""
    if guide.values:
        told = [cut(written(value)) for value in guide.values[:_MOST_VALUES]]
        more = f" ({len(guide.values)} in all)" if len(guide.values) > _MOST_VALUES else ""
        return ("one of " if len(guide.values) > 1 else "") + ", ".join(told) + more
    choices = guide.choices[:_MOST_VALUES] if depth < 3 else []
    words = [_KINDS[kind](guide) for kind in guide.kinds if kind in _KINDS]
    if not words or words == ["an object"]:
        words = [expected(guide.of(choice), depth + 1) for choice in choices] or words
    return either(list(dict.fromkeys(words))) or "another value"


def described(guide: Guide) -> str:
    """` (what it is for)`, or nothing."""
    said = guide.own.get("description") or guide.own.get("title")
    return f" ({cut(' '.join(said.split()))})" if isinstance(said, str) and said.strip() else ""


def number(guide: Guide, key: str) -> float | None:
    """A number that stands in the schema, unless it is beyond counting."""
    found: Any = guide.own.get(key)
    return found if type(found) in (int, float) and abs(found) < _LARGEST else None


def _foreign(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _span(low: float | None, high: float | None, unit: str) -> str:
    """` of 1 to 5 characters`, ` of at least 1 item`."""
    if low is None and high is None:
        return ""
    bound = f"{low} to {high}" if low and high is not None and low != high else None
    bound = bound or (f"exactly {high}" if low == high else None)
    bound = bound or (f"at most {high}" if high is not None else f"at least {low}")
    return f" of {bound} {unit}{'' if (high if high is not None else low) == 1 else 's'}"


def _string(guide: Guide) -> str:
    form = guide.own.get("format")
    pattern = guide.own.get("pattern")
    return "".join(
        [
            "a string",
            _span(number(guide, "minLength"), number(guide, "maxLength"), "character"),
            f" in the format {cut(form)}" if isinstance(form, str) else "",
            f" that matches {cut(pattern)}" if isinstance(pattern, str) else "",
        ]
    )


def _number(article: str) -> Callable[[Guide], str]:
    def words(guide: Guide) -> str:
        low, high = number(guide, "minimum"), number(guide, "maximum")
        above, below = number(guide, "exclusiveMinimum"), number(guide, "exclusiveMaximum")
        step = number(guide, "multipleOf")
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


def _array(guide: Guide) -> str:
    inner = guide.of(guide.item(0))
    kinds = [_PLURAL[kind] for kind in inner.kinds if kind in _PLURAL]
    size = _span(number(guide, "minItems"), number(guide, "maxItems"), "item")
    if inner.values:
        return f"a list{size}, each {expected(inner)}"
    if size:
        return f"a list{size}" + (f", all {either(kinds)}" if kinds else "")
    return f"a list of {either(kinds)}" if kinds else "a list"


def _object(guide: Guide) -> str:
    known = guide.needed({}) or list(guide.properties)
    return f"an object with {names(known[:8])}" if known else "an object"


_KINDS: dict[str, Callable[[Guide], str]] = {
    "string": _string,
    "integer": _number("an integer"),
    "number": _number("a number"),
    "boolean": lambda _: "true or false",
    "array": _array,
    "object": _object,
    "null": lambda _: "null",
}
