"""Find an example of a valid value: one from the schema, or a plausible one. Every example is validated."""

from collections.abc import Iterator
from itertools import islice

from toolbus.schema.describe import as_json, number
from toolbus.schema.node import Schema
from toolbus.schema.validator import Validator
from toolbus.schema.values import JSON, items_of

_LONGEST = 160
"""The number of characters of JSON that an example may have."""
_DEEPEST = 4
_MOST_ATTEMPTS = 5_000
_MOST = 8
"""The number of items, entries or alternatives to try."""
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
"""Likely values of an argument, by the last word of its name."""
_SPELLINGS = ("text", "abc", "ABC", "a", "A1", "1", "10", "1.0.0", "a/b", "#ffffff", "en", *_FORMATS.values())
"""Candidates for a pattern."""


class Examples:
    """Finds examples for the schemas of one document; the number of attempts is limited."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._attempts_left = _MOST_ATTEMPTS

    def hint(self, near: Schema, schema: JSON, name: str = "") -> str:
        """`; for example 10`, or an empty string; `near` is any schema of the document."""
        last = ""
        for value in self._valid(near.of(schema), schema, name, 0):
            text = as_json(value)
            if text and len(text) <= _LONGEST:
                last = f"; for example {text}"
                if value is not None:  # null explains little: only if there is nothing else
                    break
        return last

    def _valid(self, here: Schema, schema: JSON, name: str, depth: int) -> Iterator[JSON]:
        for value in self._candidates(here, name, depth):
            self._attempts_left -= 1
            if self._attempts_left < 0:
                return
            if self._validator.fits(value, schema):
                yield value

    def _candidates(self, here: Schema, name: str, depth: int) -> Iterator[JSON]:
        own = here.own
        yield from items_of(own.get("examples"))[:_MOST]
        yield from (own[key] for key in ("example", "default") if own.get(key) is not None)
        yield from here.values[:_MOST]
        for kind in here.likely_types:
            yield from self._of_type(here, kind, name, depth)
        if depth < _DEEPEST:
            for choice in here.choices[:_MOST]:
                yield from self._candidates(here.of(choice), name, depth + 1)
        if depth and not here.likely_types:
            yield _SPELLINGS[0]  # any value is allowed

    def _of_type(self, here: Schema, kind: str, name: str, depth: int) -> Iterator[JSON]:
        match kind:
            case "string":
                yield from _strings(here, name)
            case "integer" | "number":
                yield from _numbers(here, whole=kind == "integer")
            case "boolean":
                yield from (True, False)
            case "array" if depth < _DEEPEST:
                yield from self._lists(here, name, depth)
            case "object" if depth < _DEEPEST:
                yield from self._objects(here, depth)
            case "null":
                yield None
            case _:
                return

    def _lists(self, here: Schema, name: str, depth: int) -> Iterator[JSON]:
        low, high = int(number(here, "minItems") or 1), number(here, "maxItems")
        if low > _MOST:
            return
        items: list[JSON] = []
        for index in range(low):
            schema = here.item(index)
            found = self._valid(here.of(schema), schema, name.removesuffix("s"), depth + 1)
            values = list(islice(found, index + 1))
            if not values:
                return
            items.append(values[-1] if here.own.get("uniqueItems") else values[0])
        yield items if high is None else items[: int(high)]
        if high == 0 or not number(here, "minItems"):
            yield []

    def _objects(self, here: Schema, depth: int) -> Iterator[JSON]:
        def entry(name: str) -> dict[str, JSON]:
            schema = here.child(name)
            found = self._valid(here.of(schema), schema, name, depth + 1)
            return {name: value for value in islice(found, 1)}  # noqa: B035  # one entry, or none

        entries: dict[str, JSON] = {}
        for name in here.required({})[:_MOST]:
            entries |= entry(name)
        yield entries
        for name in list(here.properties)[:_MOST]:
            yield {**entries, **entry(name)}


def _strings(schema: Schema, name: str) -> Iterator[str]:
    last = name.replace("-", "_").lower().split("_")[-1]
    likely = [_FORMATS.get(str(schema.own.get("format"))), _NAMES.get(last), *_SPELLINGS]
    low, high = number(schema, "minLength") or 0, number(schema, "maxLength")
    for text in filter(None, likely):
        long_enough = text.ljust(min(int(low), _LONGEST), text[-1])
        yield long_enough if high is None else long_enough[: int(high)]
        if "pattern" not in schema.own and "format" not in schema.own:
            return


def _numbers(schema: Schema, *, whole: bool) -> Iterator[float]:
    low = number(schema, "minimum")
    above = number(schema, "exclusiveMinimum")
    step = number(schema, "multipleOf")
    yield 10
    for bound in (low, above, number(schema, "maximum"), number(schema, "exclusiveMaximum")):
        if bound is not None:
            near = int(bound)
            yield from (near, near + 1, near - 1) if whole else (bound, bound + 1, bound - 1, bound + 0.01)
            if step:
                yield from (bound // step * step, (bound // step + 1) * step)
    yield from (step, 0) if step else (1, 0)
