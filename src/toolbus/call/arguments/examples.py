"""Make an example of what fits: the schema's own, or a plausible one. Every example has been judged."""

from collections.abc import Iterator
from itertools import islice

from toolbus.call.arguments.guide import Guide
from toolbus.call.arguments.judge import TimeBox
from toolbus.call.arguments.values import items_of
from toolbus.call.arguments.wording import number, written
from toolbus.core.records import JSON

_LONGEST = 160
"""How many characters of JSON an example may have."""
_DEEPEST = 4
_MOST = 8
"""How many items, entries or alternatives are tried."""
_UUID = "123e4567-e89b-42d3-a456-426614174000"
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "uri-reference": "/start",
    "url": "https://example.com",
    "uuid": _UUID,
}
_NAMES = {
    "path": "notes.txt",
    "file": "notes.txt",
    "filename": "notes.txt",
    "url": "https://example.com",
    "uri": "https://example.com",
    "email": "ada@example.com",
    "date": "2026-01-31",
}
"""What an argument is likely to hold, by the last word of its name."""
_SPELLINGS = ("text", "abc", "ABC", "a", "A1", "1", "10", "1.0.0", "a/b", "#ffffff", "en", *_FORMATS.values())
"""What is tried where a pattern is asked for."""


def example(hearing: TimeBox, guide: Guide, schema: JSON, name: str = "") -> str:
    """`; for example 10`, or nothing if none was found."""
    last = ""
    for value in _fitting(hearing, guide.of(schema), schema, name, 0):
        text = written(value)
        if text and len(text) <= _LONGEST:
            last = f"; for example {text}"
            if value is not None:  # which shows nothing: only if there is no other
                break
    return last


def _fitting(hearing: TimeBox, guide: Guide, schema: JSON, name: str, depth: int) -> Iterator[JSON]:
    for value in _candidates(hearing, guide, name, depth):
        if hearing.is_over:
            return
        if hearing.fits(value, schema):
            yield value


def _candidates(hearing: TimeBox, guide: Guide, name: str, depth: int) -> Iterator[JSON]:
    own = guide.own
    yield from items_of(own.get("examples"))[:_MOST]
    yield from (own[key] for key in ("example", "default") if own.get(key) is not None)
    yield from guide.values[:_MOST]
    for kind in guide.kinds:
        yield from _made(hearing, guide, kind, name, depth)
    if depth < _DEEPEST:
        for choice in guide.choices[:_MOST]:
            yield from _candidates(hearing, guide.of(choice), name, depth + 1)
    if depth and not guide.kinds:
        yield _SPELLINGS[0]  # where anything goes


def _made(hearing: TimeBox, guide: Guide, kind: str, name: str, depth: int) -> Iterator[JSON]:
    match kind:
        case "string":
            yield from _strings(guide, name)
        case "integer" | "number":
            yield from _numbers(guide, whole=kind == "integer")
        case "boolean":
            yield from (True, False)
        case "array" if depth < _DEEPEST:
            yield from _lists(hearing, guide, name, depth)
        case "object" if depth < _DEEPEST:
            yield from _objects(hearing, guide, depth)
        case "null":
            yield None
        case _:
            return


def _strings(guide: Guide, name: str) -> Iterator[str]:
    last = name.replace("-", "_").lower().split("_")[-1]
    likely = [_FORMATS.get(str(guide.own.get("format"))), _NAMES.get(last), *_SPELLINGS]
    low, high = number(guide, "minLength") or 0, number(guide, "maxLength")
    for text in filter(None, likely):
        long_enough = text.ljust(min(int(low), _LONGEST), text[-1])
        yield long_enough if high is None else long_enough[: int(high)]
        if "pattern" not in guide.own and "format" not in guide.own:
            return


def _numbers(guide: Guide, *, whole: bool) -> Iterator[float]:
    low = number(guide, "minimum")
    above = number(guide, "exclusiveMinimum")
    step = number(guide, "multipleOf")
    yield 10
    for bound in (low, above, number(guide, "maximum"), number(guide, "exclusiveMaximum")):
        if bound is not None:
            near = int(bound)
            yield from (near, near + 1, near - 1) if whole else (bound, bound + 1, bound - 1, bound + 0.01)
            if step:
                yield from (bound // step * step, (bound // step + 1) * step)
    yield from (step, 0) if step else (1, 0)


def _lists(hearing: TimeBox, guide: Guide, name: str, depth: int) -> Iterator[JSON]:
    low, high = int(number(guide, "minItems") or 1), number(guide, "maxItems")
    if low > _MOST:
        return
    items: list[JSON] = []
    for index in range(low):
        schema = guide.item(index)
        found = _fitting(hearing, guide.of(schema), schema, name.removesuffix("s"), depth + 1)
        values = list(islice(found, index + 1))
        if not values:
            return
        items.append(values[-1] if guide.own.get("uniqueItems") else values[0])
    yield items if high is None else items[: int(high)]
    if high == 0 or not number(guide, "minItems"):
        yield []


def _objects(hearing: TimeBox, guide: Guide, depth: int) -> Iterator[JSON]:
    def entry(name: str) -> dict[str, JSON]:
        schema = guide.child(name)
        found = _fitting(hearing, guide.of(schema), schema, name, depth + 1)
        return {name: value for value in islice(found, 1)}  # noqa: B035  # of one, or none

    entries: dict[str, JSON] = {}
    for name in guide.needed({})[:_MOST]:
        entries |= entry(name)
    yield entries
    for name in list(guide.properties)[:_MOST]:
        yield {**entries, **entry(name)}
