"""The styles of OpenAPI: parameter values as text, exploded or not.

A query becomes a list of pairs. The caller joins them, and chooses the percent-encoding.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote

from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.records import JSON
from toolbus.openapi.operation import Style

Encode = Callable[[str], str]
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_RESERVED = ":/?@!$'()*;="
"""The reserved characters that `allowReserved` leaves as they are; `&`, `+`, `#` and brackets have a meaning
for every server."""
_COOKIE = "!#$&'()*+-./:<=>?@[]^_`{|}~"


def plain_text(value: object) -> str:
    """A value as text: nested values as JSON."""
    match value:
        case str():
            return value
        case bytes():
            return value.decode()
        case _:
            return json_text(value)


def json_text(value: object) -> str:
    """A value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def query_pairs(
    name: str, value: JSON, style: Style, *, explode: bool, encode: Encode
) -> list[tuple[str, str]]:
    """The encoded pairs of a query, a form or cookies; a value that is null has none."""
    if style == "deepObject":
        return [(encoded(key), encode(text)) for key, text in _deep(name, value)]
    if value is None:
        return []
    if is_mapping(value):
        pairs = _members(value)
        if explode:
            return [(encoded(key), encode(text)) for key, text in pairs]
        items = [text for pair in pairs for text in pair]
    elif is_list(value):
        items = _items(value)
        if explode:
            return [(encoded(name), encode(item)) for item in items]
    else:
        return [(encoded(name), encode(plain_text(value)))]
    return [(encoded(name), _DELIMITERS.get(style, ",").join(map(encode, items)))] if items else []


def path_text(name: str, value: JSON, style: Style, *, explode: bool, encode: Encode) -> str:
    """The text that takes the place of `{name}` in a path; also the value of a header, in style `simple`."""
    items = _simple(value, explode=explode, encode=encode)
    match style:
        case "label":
            return "." + ("." if explode else ",").join(items)
        case "matrix":
            return _matrix(encode(name), value, items, explode=explode)
        case _:
            return ",".join(items)


def encoded(text: str) -> str:
    """Text as a part of a URL, with every reserved character encoded."""
    return quote(text, safe="")


def encoded_but_reserved(text: str) -> str:
    """Text of a parameter that may contain reserved characters."""
    return quote(text, safe=_RESERVED)


def encoded_for_cookie(text: str) -> str:
    """Text as the value of a cookie; few servers decode it, so that little is encoded."""
    return quote(text, safe=_COOKIE)


def _matrix(name: str, value: JSON, items: list[str], *, explode: bool) -> str:
    if explode and is_mapping(value):
        return "".join(f";{item}" for item in items)
    parts = items if explode else [",".join(items)]
    return "".join(f";{name}={part}" if part else f";{name}" for part in parts)


def _simple(value: JSON, *, explode: bool, encode: Encode) -> list[str]:
    if is_list(value):
        return list(map(encode, _items(value)))
    if not is_mapping(value):
        return [encode(plain_text(value))]
    pairs = [(encode(key), encode(text)) for key, text in _members(value)]
    return [f"{key}={text}" for key, text in pairs] if explode else [text for pair in pairs for text in pair]


def _items(value: Sequence[JSON]) -> list[str]:
    return [plain_text(item) for item in value if item is not None]


def _members(value: Mapping[str, JSON]) -> list[tuple[str, str]]:
    return [(key, plain_text(member)) for key, member in value.items() if member is not None]


def _deep(name: str, value: JSON) -> Iterator[tuple[str, str]]:
    """The pairs of a nested value, as Rails, PHP, qs and Stripe read them: `a[b]`, `a[]`, `a[0][b]`."""
    if is_mapping(value):
        for key, member in value.items():
            yield from _deep(f"{name}[{key}]", member)
    elif is_list(value):
        is_nested = any(is_mapping(item) or is_list(item) for item in value)
        for index, item in enumerate(value):
            yield from _deep(f"{name}[{index if is_nested else ''}]", item)
    elif value is not None:
        yield name, plain_text(value)
