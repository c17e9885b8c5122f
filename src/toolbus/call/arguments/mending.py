"""Repair what does not fit: only where it does not, and only by what fits then.

Where several repairs are possible the gentlest decides, and only if it is the only one of its kind.
The hearing is bounded: beyond that a value stays as it is.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolbus.call.arguments.guide import Guide
from toolbus.call.arguments.judge import TimeBox
from toolbus.call.arguments.readings import is_blank, readings
from toolbus.call.arguments.values import is_array, is_object
from toolbus.call.arguments.wording import inside, shown
from toolbus.core.records import JSON, same_json

_DEEPEST = 32
_MOST_BRANCHES = 32
_NO_FILLING = object()

Boldness: TypeAlias = int
"""How much a repair dares: 0 a new spelling, 1 a new shape or name or something added, 2 something lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A value as far as it could be repaired, and what was done to it."""

    value: JSON
    fits: bool = False
    notes: tuple[str, ...] = ()
    boldness: Boldness = 0

    def after(self, notes: tuple[str, ...], boldness: Boldness) -> "Mended":
        """The same, when something was done before."""
        return replace(self, notes=notes + self.notes, boldness=max(boldness, self.boldness))


class _Draft:
    """An object or a list under repair."""

    def __init__(self, value: JSON) -> None:
        self.value = value
        self.notes: list[str] = []
        self.boldness: Boldness = 0

    def note(self, note: str, boldness: Boldness = 0) -> None:
        self.notes.append(note)
        self.boldness = max(self.boldness, boldness)

    def take(self, key: str | int, mended: Mended) -> None:
        """Put a repaired value in the place of the old one."""
        self.value[key] = mended.value
        self.notes += mended.notes
        self.boldness = max(self.boldness, mended.boldness)

    def done(self) -> Mended:
        return Mended(value=self.value, notes=tuple(self.notes), boldness=self.boldness)


class Repairer:
    """Repairs the value of one hearing."""

    def __init__(self, hearing: TimeBox) -> None:
        self._hearing = hearing

    def mended(self, value: JSON) -> Mended:
        """The whole value, repaired where that was possible."""
        schema = self._hearing.schema
        return self._mended(Guide(schema, schema), schema, value, "", 0)

    def _mended(self, near: Guide, schema: JSON, value: JSON, place: str, depth: int) -> Mended:
        """The value at a place, for the schema there; `near` is any guide to the document."""
        if self._hearing.fits(value, schema):
            return Mended(value=value, fits=True)
        if depth > _DEEPEST or self._hearing.is_over:
            return Mended(value=value)
        guide = near.of(schema)
        within = self._within(guide, value, place, depth)
        if within.notes and self._hearing.fits(within.value, schema):
            return replace(within, fits=True)
        for reading in readings(guide, value):
            note = f"{place}: {shown(value)} became {shown(reading.value)}"
            read = self._mended(guide, schema, reading.value, place, depth + 1)
            if read.fits:
                return read.after((note,), 1 if reading.is_reshaped else 0)
        return self._chosen(guide, schema, within, place, depth) or within

    def _chosen(self, guide: Guide, schema: JSON, start: Mended, place: str, depth: int) -> Mended | None:
        """The value as one of the alternatives would have it."""
        found: list[Mended] = []
        for choice in guide.choices[:_MOST_BRANCHES]:
            tried = self._mended(guide, choice, start.value, place, depth + 1)
            if tried.fits and tried.notes and self._hearing.fits(tried.value, schema):
                found.append(tried)
        gentlest = min((mended.boldness for mended in found), default=0)
        found = [mended for mended in found if mended.boldness == gentlest]
        if not found or not all(same_json(found[0].value, other.value) for other in found):
            return None
        return found[0].after(start.notes, start.boldness)

    def _within(self, guide: Guide, value: JSON, place: str, depth: int) -> Mended:
        if is_object(value):
            return self._object(guide, value, place, depth)
        return self._list(guide, value, place, depth) if is_array(value) else Mended(value=value)

    def _list(self, guide: Guide, value: list[JSON], place: str, depth: int) -> Mended:
        draft = _Draft(list(value))
        for index, item in enumerate(value):
            draft.take(index, self._mended(guide, guide.item(index), item, inside(place, index), depth + 1))
        return draft.done()

    def _object(self, guide: Guide, value: dict[str, JSON], place: str, depth: int) -> Mended:
        draft = _renamed(guide, value, place)
        needed = set(guide.needed(draft.value))
        for name in list(draft.value):
            here, schema, item = inside(place, name), guide.child(name), draft.value[name]
            if schema is False:
                del draft.value[name]
                draft.note(f"{here}: dropped, there is no such argument", 2)
                continue
            mended = self._mended(guide, schema, item, here, depth + 1)
            if not mended.fits and name not in needed and _says_nothing(guide.of(schema), item):
                del draft.value[name]
                draft.note(f"{here}: {shown(item)} was left out")
            else:
                draft.take(name, mended)
        self._fill(guide, draft, place)
        return draft.done()

    def _fill(self, guide: Guide, draft: _Draft, place: str) -> None:
        """Put in what is missing, where the schema knows it."""
        for name in guide.needed(draft.value):
            schema = guide.properties.get(name)
            if name in draft.value or schema is None:
                continue
            fillings = guide.of(schema).filling
            filling = next((value for value in fillings if self._hearing.fits(value, schema)), _NO_FILLING)
            if filling is not _NO_FILLING:
                draft.value[name] = deepcopy(filling)
                draft.note(f"{inside(place, name)}: missing, filled in with {shown(filling)}", 1)


def _says_nothing(guide: Guide, value: JSON) -> bool:
    return value is None or (is_blank(value) and "string" not in guide.all_kinds())


def _renamed(guide: Guide, value: dict[str, JSON], place: str) -> _Draft:
    """The object with entries under their right names, where only case, `-` and `_` are different."""
    draft = _Draft(dict(value))
    needed = set(guide.needed(value))
    absent: dict[str, list[str]] = {}
    for known in guide.properties:
        if known not in value:
            absent.setdefault(_folded(known), []).append(known)
    for name in value:
        match absent.get(_folded(name)):
            # One that is free to be there is taken for another only if that one has to be there.
            case [known] if name not in guide.properties and (known in needed or guide.child(name) is False):
                draft.value = {known if key == name else key: item for key, item in draft.value.items()}
                draft.note(f"{inside(place, name)}: renamed to {inside('', known)}", 1)
                del absent[_folded(name)]
            case _:
                pass
    return draft


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(" ", "").casefold()
