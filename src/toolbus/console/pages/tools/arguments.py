"""The arguments of a tool as a form with objects, lists and alternatives inside.

Each part of the form has a key, under which its text comes back. The key with `-as` adds its shape: typed as
JSON, the items of a list, or left out. So a form describes its own shape, and works without script: a button
posts it, and it comes back with one item more.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from toolbus.console.fields import ABSENT, InputField, Kind, Typed, parsed
from toolbus.console.widgets import anchor
from toolbus.core.text.text import visible
from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.describe import number, place_inside, type_words
from toolbus.schema.node import Schema
from toolbus.schema.values import has_type, is_array, is_object

Shape: TypeAlias = Literal["field", "object", "list", "union"]
MOST_PARTS = 200
"""Parts beyond this limit are typed as JSON."""
MOST_ITEMS = 50
MOST_CHOICES = 500
MOST_VARIANTS = 16
DEEPEST = 6
AS = "-as"
_FEW_CHOICES = 20
_PER_CHOICE = 4
_PER_STEP = 16
"""Steps of work for a choice, and characters of a text for each."""
_TYPED: Final = object()
"""Take the value of a part from the form."""
_FRESH: Final = object()
"""The part is new: it gets its default."""
_IDS = re.compile(r"list:([0-9]{1,6}(?:,[0-9]{1,6})*)?")
_KINDS: dict[tuple[str, ...], Kind] = {
    ("string",): "text",
    ("integer",): "integer",
    ("number",): "number",
    ("integer", "number"): "number",
    ("boolean",): "yes or no",
}


@dataclass(slots=True, kw_only=True)
class FormPart:
    """A part of the arguments, with its typed text."""

    about: InputField
    shape: Shape
    place: str
    """As in messages about arguments: `filter.limit`, `ids[0]`."""
    texts: list[str] = field(default_factory=list[str])
    mark: str = ""
    """The shape of the part, unless its text shows that."""
    parts: list["FormPart"] = field(default_factory=list["FormPart"])
    """The entries of an object, the items of a list, or the chosen alternative."""
    variants: list[str] = field(default_factory=list[str])
    """The names of the alternatives."""
    is_rest: bool = False
    """Whether it takes what the schema allows and does not name, as an object."""

    @property
    def key(self) -> str:
        return self.about.key

    @property
    def ids(self) -> list[int]:
        """The items of a list; an item keeps its number when others go."""
        found = _IDS.fullmatch(self.mark)
        ids = found[1].split(",")[:MOST_ITEMS] if found and found[1] else []
        return list(dict.fromkeys(map(int, ids)))

    @property
    def is_open(self) -> bool:
        """Whether an object or a list is sent."""
        return self.mark != "absent"

    def walk(self) -> Iterator["FormPart"]:
        yield self
        for part in self.parts:
            yield from part.walk()


class _At:
    """The place of a part."""

    __slots__ = ("depth", "key", "name", "place", "required")

    def __init__(self, name: str, key: str, place: str, depth: int, *, required: bool) -> None:
        self.name, self.key, self.place, self.depth, self.required = name, key, place, depth, required

    def inside(self, step: str | int, *, name: str, required: bool, place: str | None = None) -> "_At":
        # At the top, keys are those of the names alone.
        key = (
            anchor("field", str(step))
            if not self.depth
            else anchor("inner", f"{self.key} {json.dumps(step)}")
        )
        where = place_inside(self.place, step) if place is None else place
        return _At(name, key, where, self.depth + 1, required=required)


class ArgumentForm:
    """The form for the arguments of one tool."""

    def __init__(self, schema: JSONObject, typed: Typed | None = None, value: JSON = _FRESH) -> None:
        """Fill it with typed text, or else with a value; by default, with the defaults of the schema."""
        self._given = schema
        self._root = Schema(schema)
        self._typed: Typed = typed or {}
        self._left = MOST_PARTS
        self._variants_of: dict[Schema, list[Schema]] = {}
        given = _TYPED if typed is not None and value is _FRESH else value
        self.root = self._part(_At("arguments", "root", "", 0, required=True), self._root, given)
        self.by_key = {part.key: part for part in self.root.walk()}

    # What is in it

    @property
    def typed(self) -> dict[str, list[str]]:
        """All that is typed, as the form would send it."""
        parts = self.by_key.values()
        typed = [part for part in parts if part.shape in ("field", "union") and part.mark != "choices"]
        found = {part.key: part.texts or [""] for part in typed}
        found |= {part.key: part.texts for part in parts if part.mark == "choices" and part.texts}
        marks = {f"{part.key}{AS}": [part.mark] for part in self.by_key.values() if part.mark}
        return {**found, **marks}

    def read(self, *, keeps_faults: bool = False) -> tuple[dict[str, JSON], dict[str, str]]:
        """The arguments, and the problems by key; with `keeps_faults`, unreadable text is kept as it is."""
        problems: dict[str, str] = {}
        value = self._read(self.root, problems, keeps_faults=keeps_faults)
        return value if is_object(value) else {}, problems

    def key_at(self, place: str) -> str | None:
        """The key of the part at a place, or of the one around it; None if only the whole form is."""
        known = {part.place: part.key for part in self.by_key.values() if part is not self.root}
        while place and place not in known:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return known.get(place)

    # Changes of its shape: what is typed after them

    def can_grow(self, part: FormPart) -> bool:
        return len(part.ids) < MOST_ITEMS and self._left > 0

    def with_item(self, key: str) -> dict[str, list[str]]:
        """Add an item to a list, or an optional object."""
        part, typed = self.by_key.get(key), self.typed
        if part is not None and part.shape == "list" and self.can_grow(part):
            typed[f"{key}{AS}"] = [_listed([*part.ids, max(part.ids, default=-1) + 1])]
        elif part is not None and part.shape == "object":
            typed[f"{key}{AS}"] = ["object"]
        return typed

    def next_key(self, key: str) -> str:
        """The key of the part that `with_item` adds."""
        after = ArgumentForm(self._given, self.with_item(key)).by_key
        added = [part for one, part in after.items() if one not in self.by_key]
        fields = [part for part in added if part.shape == "field"]
        return next((part.key for part in (*fields, *added)), key)

    def without(self, key: str, item: int | None = None) -> dict[str, list[str]]:
        """Without an item of a list, or without an object."""
        part, typed = self.by_key.get(key), self.typed
        if part is not None and part.shape == "list":
            left = [one for one in part.ids if one != item]
            typed[f"{key}{AS}"] = [_listed(left) if left or part.about.required else "absent"]
        elif part is not None and part.shape == "object":
            typed[f"{key}{AS}"] = ["absent"]
        return typed

    # Building

    def _part(self, at: _At, outer: Schema, value: JSON) -> FormPart:
        self._left -= 1
        schema = self._unwrapped(outer)
        shape, one = self._shape(at, schema), self._field(at, outer, schema)
        part = FormPart(about=one, shape=shape, place=at.place)
        if value is _TYPED and (self._was_typed(part) or not at.depth):
            return self._filled(part, at, schema, _TYPED)
        inner = value
        if value is _TYPED or value is _FRESH:
            value = _initial(outer, schema, required=at.required)
            inner = _FRESH if value is ABSENT else value
        return self._valued(part, at, schema, value, inner)

    def _was_typed(self, part: FormPart) -> bool:
        """Take the typed text of a part; False for a new part, which has none."""
        texts, mark = self._typed.get(part.key), (self._typed.get(f"{part.key}{AS}") or [""])[0]
        if texts is None and not mark:
            return False
        part.texts, part.mark = [*(texts or ())], mark
        if mark == "json" or (not mark and part.shape in ("object", "list")):
            _as_json(part)
        return True

    def _valued(self, part: FormPart, at: _At, schema: Schema, value: JSON, inner: JSON) -> FormPart:
        """The part with a value, or with none."""
        if value is ABSENT:
            is_there = "object" if at.required else "absent"
            no_items = "list:" if at.required else "absent"
            part.mark = {"object": is_there, "list": no_items}.get(part.shape, _mark_of(part.about))
            if part.shape == "union":
                part.texts = ["0"] if at.required else [""]
            return self._filled(part, at, schema, inner)
        match part.shape:
            case "object" if is_object(value) and self._has_room(value):
                part.mark = "object"
            case "list" if is_array(value) and len(value) <= MOST_ITEMS and self._has_room(value):
                part.mark = _listed(range(len(value)))
            case "union" if (chosen := self._meant(schema, value)) is not None:
                part.texts = [str(chosen)]
            case "field" if (texts := _texts(part.about, value)) is not None:
                part.texts = texts
                part.mark = _mark_of(part.about)
            case _:
                part.texts = [as_json(value)]
                _as_json(part)
        return self._filled(part, at, schema, inner)

    def _filled(self, part: FormPart, at: _At, schema: Schema, value: JSON) -> FormPart:
        """The part with those within it; `value` has theirs."""
        match part.shape:
            case "object" if part.is_open:
                part.parts = self._entries(at, schema, value)
            case "list":
                items = value if is_array(value) else ()
                for index, item in enumerate(part.ids):
                    name, place = f"item {index + 1}", f"{at.place}[{index}]"
                    inner = items[index] if index < len(items) else value
                    inside = at.inside(item, name=name, required=True, place=place)
                    part.parts.append(self._part(inside, schema.items, inner))
            case "union":
                variants = self._variants(schema)
                part.variants = [_variant_name(one, index) for index, one in enumerate(variants)]
                chosen = part.texts[0] if part.texts else ""
                if chosen.isdecimal() and int(chosen[:3]) < len(variants):
                    inside = at.inside(f"|{chosen}", name=at.name, required=True, place=at.place)
                    part.parts = [self._part(inside, variants[int(chosen[:3])], value)]
            case _:
                pass
        return part

    def _entries(self, at: _At, schema: Schema, value: JSON) -> list[FormPart]:
        required = schema.required({})

        def of(name: str) -> JSON:
            return value.get(name, ABSENT) if is_object(value) else value

        known = list(schema.properties.items())[:MOST_PARTS]
        found = [
            self._part(at.inside(name, name=name, required=name in required), schema.of(child), of(name))
            for name, child in known
        ]
        if (rest := self._rest(at, schema, value, {name for name, _ in known})) is not None:
            found.append(rest)
        return found

    def _rest(self, at: _At, schema: Schema, value: JSON, known: set[str]) -> FormPart | None:
        """The entries that have no field of their own, if there may be or are some."""
        key = f"{at.key}-rest" if at.depth else "rest"
        name = "other arguments" if known else "arguments"
        if at.depth:
            name = "other entries"
        texts = list(self._typed.get(key, ())) if value is _TYPED else []
        if is_object(value) and (others := {name: one for name, one in value.items() if name not in known}):
            texts = [as_json(others)]
        if not any(texts) and not _allows_others(schema) and len(schema.properties) <= len(known):
            return None
        one = InputField(name=name, kind="json", title=name, expected="object", id=key)
        return FormPart(about=one, shape="field", place=f"{at.place} *", texts=texts, is_rest=True)

    def _shape(self, at: _At, schema: Schema) -> Shape:
        if not at.depth:
            return "union" if len(self._variants(schema)) > 1 else "object"
        # What was typed in fields has them again, even if others have come before it.
        is_full = self._left <= 0 and f"{at.key}{AS}" not in self._typed
        if at.depth > DEEPEST or is_full or _leaf_kind(schema) != "json":
            return "field"
        if len(self._variants(schema)) > 1:
            return "union"
        types = _types(schema)
        if types == ("object",) and schema.properties:
            return "object"
        return "list" if types == ("array",) and not schema.own.get("prefixItems") else "field"

    def _field(self, at: _At, outer: Schema, schema: Schema) -> InputField:
        kind = _leaf_kind(schema)
        values = _values(schema.items if kind == "choices" else schema) if "choice" in kind else []
        low, high = ("minLength", "maxLength") if kind == "text" else ("minimum", "maximum")
        titles = (outer.own.get("title"), schema.own.get("title"))
        title = next((one for one in titles if isinstance(one, str) and one != at.name), "")
        one = InputField(
            name=at.name,
            kind=kind,
            title=at.name,
            description=outer.description or schema.description or title,
            expected=type_words(schema) if kind == "json" else "",
            required=at.required,
            choices={
                _compact(value): value if isinstance(value, str) else _compact(value) for value in values
            },
            format=schema.own.get("format"),
            least=number(schema, low),
            most=number(schema, high),
            id=at.key,
        )
        return self._within(one)

    def _within(self, one: InputField) -> InputField:
        """The field; without its choices and texts if the form has become too long."""
        texts = (one.name, one.description, one.expected, *one.choices, *one.choices.values())
        steps = _PER_CHOICE * (1 + len(one.choices)) + sum(map(len, texts)) // _PER_STEP
        if self._root.work.allows(steps):
            return one
        kind = "json" if one.choices else one.kind
        return InputField(name=one.name, kind=kind, title=one.title, required=one.required, id=one.id)

    def _unwrapped(self, schema: Schema) -> Schema:
        """The schema without the alternative null, if there is only one other."""
        variants = self._variants(schema)
        return variants[0] if len(variants) == 1 else schema

    def _variants(self, schema: Schema) -> list[Schema]:
        """The alternatives except null, each merged with the schema around them."""
        if schema not in self._variants_of:
            self._variants_of[schema] = _alternatives(schema)
        return self._variants_of[schema]

    def _meant(self, schema: Schema, value: JSON) -> int | None:
        """The alternative that a value is most likely meant for."""
        scores = [_likeness(one, value) for one in self._variants(schema)]
        best = max(scores, default=0)
        return scores.index(best) if best > 0 else None

    def _has_room(self, value: JSON) -> bool:
        return len(value) <= self._left

    # Reading

    def _read(self, part: FormPart, problems: dict[str, str], *, keeps_faults: bool) -> JSON:
        match part.shape:
            case "object":
                return self._read_object(part, problems, keeps_faults) if part.is_open else ABSENT
            case "list":
                read = [self._read(one, problems, keeps_faults=keeps_faults) for one in part.parts]
                items = [one for one in read if one is not ABSENT]
                return items if part.is_open else ABSENT
            case "union":
                if part.parts:
                    return self._read(part.parts[0], problems, keeps_faults=keeps_faults)
                if part.about.required:
                    problems[part.key] = f"choose one of the kinds of {part.about.name!r}"
                return ABSENT
            case "field":
                try:
                    return part.about.read({part.key: part.texts})
                except ValueError as error:
                    problems[part.key] = str(error)
                    return part.texts[0] if keeps_faults and part.texts and part.texts[0] else ABSENT

    def _read_object(self, part: FormPart, problems: dict[str, str], keeps_faults: bool) -> JSON:
        found: dict[str, JSON] = {}
        for one in part.parts:
            value = self._read(one, problems, keeps_faults=keeps_faults)
            if value is ABSENT:
                continue
            if not one.is_rest:
                found[one.about.name] = value
            elif is_object(value):
                found = {**value, **found}
            else:
                problems[one.key] = f"{one.about.name!r} must be a JSON object"
        return found


def as_json(value: JSON) -> str:
    """A value as JSON that can be typed on: what a page would write out is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if visible(text) == text else json.dumps(value, indent=2)


def arguments_in(text: str) -> dict[str, JSON]:
    """The arguments in the JSON that was typed; ValueError if they are not an object."""
    value: JSON = parsed(text) if text.strip() else {}
    if not is_object(value):
        raise ValueError("the arguments must be a JSON object, such as {}")
    return value


def _as_json(part: FormPart) -> None:
    """Have a part typed as JSON."""
    part.shape, part.mark = "field", "json"
    expected = part.about.expected or "any"
    part.about = replace(part.about, kind="json", choices={}, expected=expected)


def _listed(ids: Sequence[int]) -> str:
    return f"list:{','.join(map(str, ids))}"


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _mark_of(one: InputField) -> str:
    """Boxes of which none is checked send nothing else."""
    return "choices" if one.kind == "choices" else ""


def _alternatives(schema: Schema) -> list[Schema]:
    own = {key: value for key, value in schema.own.items() if key not in ("anyOf", "oneOf")}
    if schema.choices:
        shared = {key: value for key, value in own.items() if key not in ("title", "description", "default")}
        found = schema.choices[:MOST_VARIANTS]
        inner = [schema.of({"allOf": [shared, one]} if shared else one) for one in found]
        return [one for one in inner if one.types != ("null",)]
    types = _types(schema)
    if len(types) < 2 or types in _KINDS:
        return []
    return [schema.of({**own, "type": kind}) for kind in types]


def _types(schema: Schema) -> tuple[str, ...]:
    return tuple(sorted(kind for kind in schema.all_types if kind != "null"))


def _values(schema: Schema) -> list[JSON]:
    """The values to choose from; none if another one may be typed."""
    if schema.values:
        return schema.values
    choices = [schema.of(one) for one in schema.choices]
    others = [one for one in choices if one.types != ("null",)]
    return schema.all_values if others and all(one.values for one in others) else []


def _leaf_kind(schema: Schema) -> Kind:
    """The kind of field for a schema; `json` if no other one fits."""
    values = _values(schema)
    if values and len(values) <= MOST_CHOICES:
        return "choice"
    types = _types(schema)
    if types == ("array",) and schema.own.get("uniqueItems") is True:
        listed = _values(schema.items)
        return "choices" if listed and len(listed) <= _FEW_CHOICES else "json"
    return _KINDS.get(types, "json")


def _initial(outer: Schema, schema: Schema, *, required: bool) -> JSON:
    """The default, or the only possible value of a required part."""
    for one in (outer, schema):
        if one.own.get("default") is not None:
            return one.own["default"]
    return schema.values[0] if required and len(schema.values) == 1 else ABSENT


def _texts(one: InputField, value: JSON) -> list[str] | None:
    """The text of a field for a value; None if the field cannot hold it."""
    match one.kind:
        case "text":
            is_plain = (
                isinstance(value, str) and value != "" and "\r" not in value and visible(value) == value
            )
            return [value] if is_plain else None
        case "number" | "integer" | "yes or no":
            fits = isinstance(value, bool) if one.kind == "yes or no" else has_type(value, ["number"])
            return [_compact(value)] if fits else None
        case "choice":
            return [_compact(value)] if _compact(value) in one.choices else None
        case "choices":
            texts = [_compact(item) for item in value] if is_array(value) else [""]
            is_known = all(text in one.choices for text in texts) and len(set(texts)) == len(texts)
            return texts if is_known and (texts or one.required) else None
        case "json":
            return [as_json(value)]


def _allows_others(schema: Schema) -> bool:
    own = schema.own
    if own.get("additionalProperties") is False:
        return False
    return "additionalProperties" in own or "patternProperties" in own


def _likeness(schema: Schema, value: JSON) -> float:
    """A score for how well a value fits an alternative; 0 if it does not."""
    types = schema.all_types
    if schema.values:
        return 2.0 if value in schema.values else 0.0
    if types and not has_type(value, types):
        return 0.0
    if not is_object(value):
        return 1.0 if types else 0.5
    for name, child in schema.properties.items():
        values = schema.of(child).values
        if values and name in value and value[name] not in values:
            return 0.0
    missing = sum(name not in value for name in schema.required({}))
    unknown = sum(name not in schema.properties for name in value)
    return 1.0 / (1 + missing + unknown)


def _variant_name(schema: Schema, index: int) -> str:
    title = schema.own.get("title")
    if isinstance(title, str) and title:
        return title
    for child in schema.properties.values():
        values = schema.of(child).values
        if len(values) == 1 and isinstance(values[0], str):
            return values[0]
    words = type_words(schema)
    if words == "object" and schema.properties:
        words = f"with {', '.join(list(schema.properties)[:3])}"
    return words if words != "any" else f"kind {index + 1}"
