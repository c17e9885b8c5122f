"""Repair invalid values: only where they are invalid, and only with a result that is valid.

Where several repairs are possible the least invasive one wins, and only if it is the only one of its level.
The number of attempts is limited; beyond that a value stays as it is.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolbus.call.arguments.conversions import conversions, is_blank
from toolbus.schema.describe import place_inside, shown
from toolbus.schema.node import Schema
from toolbus.schema.validator import Validator
from toolbus.schema.values import JSON, is_array, is_object, same_json

_DEEPEST = 32
_MOST_BRANCHES = 32
_MOST_ATTEMPTS = 10_000
_NONE = object()

Level: TypeAlias = int
"""The extent of a repair: 0 a spelling, 1 a shape or a name or an addition, 2 something is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A value as far as it could be repaired, and the repairs."""

    value: JSON
    is_valid: bool = False
    notes: tuple[str, ...] = ()
    level: Level = 0

    def after(self, notes: tuple[str, ...], level: Level) -> "Repaired":
        """The same, after other repairs."""
        return replace(self, notes=notes + self.notes, level=max(level, self.level))


class _Draft:
    """An object or a list under repair."""

    def __init__(self, value: JSON) -> None:
        self.value = value
        self.notes: list[str] = []
        self.level: Level = 0

    def note(self, note: str, level: Level = 0) -> None:
        self.notes.append(note)
        self.level = max(self.level, level)

    def take(self, key: str | int, repaired: Repaired) -> None:
        """Replace a value with the repaired one."""
        self.value[key] = repaired.value
        self.notes += repaired.notes
        self.level = max(self.level, repaired.level)

    def done(self) -> Repaired:
        return Repaired(value=self.value, notes=tuple(self.notes), level=self.level)


class Repairer:
    """Repairs one value."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._attempts_left = _MOST_ATTEMPTS

    def repaired(self, value: JSON) -> Repaired:
        """The whole value, repaired where possible."""
        schema = self._validator.schema
        return self._repaired(Schema(schema), schema, value, "", 0)

    def _fits(self, value: JSON, schema: JSON) -> bool:
        self._attempts_left -= 1
        return self._attempts_left >= 0 and self._validator.fits(value, schema)

    def _repaired(self, near: Schema, schema: JSON, value: JSON, place: str, depth: int) -> Repaired:
        """The value at a place, for the schema there; `near` is any schema of the document."""
        if self._fits(value, schema):
            return Repaired(value=value, is_valid=True)
        if depth > _DEEPEST or self._attempts_left < 0:
            return Repaired(value=value)
        here = near.of(schema)
        inner = self._repaired_inside(here, value, place, depth)
        if inner.notes and self._fits(inner.value, schema):
            return replace(inner, is_valid=True)
        for conversion in conversions(here, value):
            note = f"{place}: {shown(value)} became {shown(conversion.value)}"
            converted = self._repaired(here, schema, conversion.value, place, depth + 1)
            if converted.is_valid:
                return converted.after((note,), 1 if conversion.is_reshaped else 0)
        return self._repaired_as_choice(here, schema, inner, place, depth) or inner

    def _repaired_as_choice(
        self, here: Schema, schema: JSON, start: Repaired, place: str, depth: int
    ) -> Repaired | None:
        """The value repaired for one of the alternatives."""
        found: list[Repaired] = []
        for choice in here.choices[:_MOST_BRANCHES]:
            tried = self._repaired(here, choice, start.value, place, depth + 1)
            if tried.is_valid and tried.notes and self._fits(tried.value, schema):
                found.append(tried)
        lowest = min((each.level for each in found), default=0)
        found = [each for each in found if each.level == lowest]
        if not found or not all(same_json(found[0].value, other.value) for other in found):
            return None
        return found[0].after(start.notes, start.level)

    def _repaired_inside(self, schema: Schema, value: JSON, place: str, depth: int) -> Repaired:
        if is_object(value):
            return self._object(schema, value, place, depth)
        return self._list(schema, value, place, depth) if is_array(value) else Repaired(value=value)

    def _list(self, schema: Schema, value: list[JSON], place: str, depth: int) -> Repaired:
        draft = _Draft(list(value))
        for index, item in enumerate(value):
            here = place_inside(place, index)
            draft.take(index, self._repaired(schema, schema.item(index), item, here, depth + 1))
        return draft.done()

    def _object(self, schema: Schema, value: dict[str, JSON], place: str, depth: int) -> Repaired:
        draft = _renamed(schema, value, place)
        required = set(schema.required(draft.value))
        for name in list(draft.value):
            here, child, item = place_inside(place, name), schema.child(name), draft.value[name]
            if child is False:
                del draft.value[name]
                draft.note(f"{here}: dropped, there is no such argument", 2)
                continue
            repaired = self._repaired(schema, child, item, here, depth + 1)
            if not repaired.is_valid and name not in required and _means_absent(schema.of(child), item):
                del draft.value[name]
                draft.note(f"{here}: {shown(item)} was left out")
            else:
                draft.take(name, repaired)
        self._fill(schema, draft, place)
        return draft.done()

    def _fill(self, schema: Schema, draft: _Draft, place: str) -> None:
        """Add missing values that the schema knows."""
        for name in schema.required(draft.value):
            child = schema.properties.get(name)
            if name in draft.value or child is None:
                continue
            found = next((value for value in schema.of(child).fallbacks if self._fits(value, child)), _NONE)
            if found is not _NONE:
                draft.value[name] = deepcopy(found)
                draft.note(f"{place_inside(place, name)}: missing, filled in with {shown(found)}", 1)


def _means_absent(schema: Schema, value: JSON) -> bool:
    takes_text = any("string" in each.likely_types for each in schema.alternatives())
    return value is None or (is_blank(value) and not takes_text)


def _renamed(schema: Schema, value: dict[str, JSON], place: str) -> _Draft:
    """The object with entries under their proper names, where only case, `-` and `_` differ."""
    draft = _Draft(dict(value))
    required = set(schema.required(value))
    absent: dict[str, list[str]] = {}
    for known in schema.properties:
        if known not in value:
            absent.setdefault(_folded(known), []).append(known)
    for name in [name for name in value if name not in schema.properties]:
        match absent.get(_folded(name)):
            # An allowed name is taken for another one only if that one is required.
            case [known] if known in required or schema.child(name) is False:
                draft.value = {known if key == name else key: item for key, item in draft.value.items()}
                draft.note(f"{place_inside(place, name)}: renamed to {place_inside('', known)}", 1)
                del absent[_folded(name)]
            case _:
                pass
    return draft


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(" ", "").casefold()
