"""The fields of a form, from the input schema of a tool or from the question of a server, and what was typed.

Every field is text in HTML. An empty one that is not required is left out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

from toolbus.console.elements import Attribute, Child, Element, element
from toolbus.console.widgets import anchor
from toolbus.core.values.forms import Form
from toolbus.core.values.forms import Kind as FormKind
from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.describe import number, type_words
from toolbus.schema.node import Schema
from toolbus.schema.reader import Work
from toolbus.schema.values import is_array, is_object

Kind: TypeAlias = FormKind | Literal["json"]
Typed: TypeAlias = Mapping[str, Sequence[str]]
"""The values of a form, by the keys of its fields."""
MOST_FIELDS = 200
MOST_CHOICES = 500
_PER_CHOICE = 4
_PER_STEP = 16
"""Steps of work for a choice, and characters of a text for each."""
ABSENT: Final = object()
_KINDS: dict[tuple[str, ...], Kind] = {
    ("string",): "text",
    ("integer",): "integer",
    ("number",): "number",
    ("integer", "number"): "number",
    ("boolean",): "yes or no",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """One field of a form."""

    name: str
    kind: Kind
    title: str
    description: str = ""
    expected: str = ""
    """What kind of value, in words."""
    required: bool = False
    default: JSON = None
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The titles of the values to choose from, each value as JSON."""
    format: str | None = None
    least: float | None = None
    most: float | None = None
    is_rest: bool = False
    """Whether it takes the arguments that the schema allows and does not name, as an object."""

    @property
    def key(self) -> str:
        """Its name in the HTML form: the name itself may contain anything."""
        return "rest" if self.is_rest else anchor("field", self.name)

    @property
    def initial(self) -> list[str]:
        """What is typed already: the default."""
        if self.default is None:
            return []
        if self.kind == "text" and isinstance(self.default, str):
            return [self.default]
        if self.kind == "choices" and is_array(self.default):
            return [_json(item) for item in self.default]
        return [_json(self.default, indent=2 if self.kind == "json" else None)]

    def read(self, typed: Typed) -> Any:
        """The value that was typed, or `ABSENT`; ValueError if there cannot be one."""
        values = typed.get(self.key, ())
        if self.kind == "choices":
            return [self._choice(value) for value in values] if values or self.required else ABSENT
        text = values[0].replace("\r\n", "\n") if values else ""
        if self.kind == "text":
            return text if text or self.required else ABSENT
        if text.strip():
            return self._value(text.strip())
        if self.required:
            raise ValueError(f"{self.name!r} is required")
        return ABSENT

    def _value(self, text: str) -> JSON:
        match self.kind:
            case "number" | "integer":
                return self._number(text)
            case "yes or no":
                if text not in ("true", "false"):
                    raise ValueError(f"{self.name!r} must be yes or no")
                return text == "true"
            case "choice":
                return self._choice(text)
            case _:
                return self._parsed(text)

    def _choice(self, text: str) -> JSON:
        if text not in self.choices:
            raise ValueError(f"{self.name!r} must be one of its choices")
        return json.loads(text)

    def _number(self, text: str) -> int | float:
        for kind in (int, float):
            try:
                value = kind(text)
            except ValueError:
                continue
            if isinstance(value, int) or isfinite(value):
                return value
        raise ValueError(f"{self.name!r} must be a number")

    def _parsed(self, text: str) -> JSON:
        try:
            return json.loads(text, parse_constant=_reject)
        except (ValueError, RecursionError) as error:
            hint = "; text needs quotes around it" if text[:1] not in '[{"' else ""
            raise ValueError(f"{self.name!r} is not JSON: {error}{hint}") from None


def fields_of_schema(schema: JSONObject) -> list[InputField]:
    """The fields for the arguments of a tool."""
    root = Schema(schema)
    required = root.required({})
    properties = list(root.properties.items())
    fields = [
        _within(root.work, _of_property(name, root.of(part), name in required))
        for name, part in properties[:MOST_FIELDS]
    ]
    if _allows_others(root) or len(properties) > MOST_FIELDS:
        name = "other arguments" if fields else "arguments"
        fields.append(InputField(name=name, kind="json", title=name, expected="object", is_rest=True))
    return fields


def arguments_of(fields: Sequence[InputField], typed: Typed) -> dict[str, JSON]:
    """The arguments that were typed; ValueError if one cannot be read."""
    arguments: dict[str, JSON] = {}
    for one in fields:
        value = one.read(typed)
        if value is ABSENT:
            continue
        if not one.is_rest:
            arguments[one.name] = value
        elif is_object(value):
            arguments = {**value, **arguments}
        else:
            raise ValueError(f"{one.name!r} must be a JSON object")
    return arguments


def fields_of_form(form: Form) -> list[InputField]:
    return [
        InputField(
            name=one.name,
            kind=one.kind,
            title=one.title,
            description=one.description,
            required=one.required,
            default=one.default,
            choices={_json(value): title for value, title in one.choices.items()},
            format=one.format,
            least=one.least,
            most=one.most,
        )
        for one in form.fields
    ]


def _of_property(name: str, schema: Schema, required: bool) -> InputField:
    values = schema.all_values
    kinds = tuple(sorted(kind for kind in schema.all_types if kind != "null"))
    kind = _KINDS.get(kinds, "json")
    if values and len(values) <= MOST_CHOICES and (schema.values or kind == "text"):
        kind = "choice"
    given = schema.own.get("default")
    title = schema.own.get("title")
    description = schema.description
    low, high = ("minLength", "maxLength") if kind == "text" else ("minimum", "maximum")
    return InputField(
        name=name,
        kind=kind,
        title=name,
        description=description or (title if isinstance(title, str) and title != name else ""),
        expected=type_words(schema) if kind == "json" else "",
        required=required,
        default=given,
        choices={_json(value): _shown(value) for value in values} if kind == "choice" else {},
        format=schema.own.get("format"),
        least=number(schema, low),
        most=number(schema, high),
    )


def _within(work: Work, one: InputField) -> InputField:
    """The field; without its choices and texts if the form has become too long."""
    texts = (one.name, one.description, one.expected, *one.initial, *one.choices, *one.choices.values())
    if work.allows(_PER_CHOICE * (1 + len(one.choices)) + sum(map(len, texts)) // _PER_STEP):
        return one
    kind = "json" if one.kind == "choice" else one.kind
    return InputField(name=one.name, kind=kind, title=one.title, required=one.required)


def _allows_others(schema: Schema) -> bool:
    if schema.own.get("additionalProperties") is False:
        return False
    is_open = "additionalProperties" in schema.own or "patternProperties" in schema.own
    return is_open or bool(schema.choices)


def _json(value: JSON, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _shown(value: JSON) -> str:
    return value if isinstance(value, str) else _json(value)


def _reject(word: str) -> JSON:
    raise ValueError(f"{word} is not a JSON value")


_SHORT = 200
"""Characters up to which a text gets a single line."""
_INPUTS = {"email": "email", "uri": "url", "date": "date"}


def field_widget(one: InputField, typed: Typed | None, form: str) -> Element:
    """A field; `typed` is what was typed before, and `form` makes its id unique on the page."""
    key = f"{form}-{one.key}"
    values = one.initial if typed is None else [*typed.get(one.key, ())]
    about = _about(one)
    shared: dict[str, Attribute] = {
        "id": key,
        "name": one.key,
        "required": one.required,
        "aria_describedby": f"{key}-about" if about else None,
    }
    if one.kind == "choices":
        return _choices(one, values, key, about)
    return element(
        "div",
        element("label", one.title, one.required and _mark(), for_=key),
        about and element("p", about, id=f"{key}-about", class_="faint"),
        _input(one, values[0] if values else "", shared),
        class_="field",
    )


def _mark() -> Element:
    return element("span", " (required)", class_="faint")


def _about(one: InputField) -> str:
    bounds = [f"at least {one.least:g}" if one.least is not None else ""]
    bounds += [f"at most {one.most:g}" if one.most is not None else ""]
    unit = " characters" if one.kind == "text" else ""
    bound = " and ".join(filter(None, bounds))
    words = [one.description, bound and f"{bound}{unit}"]
    words += [f"as JSON: {one.expected}" if one.kind == "json" else ""]
    *first, last = [word for word in words if word] or [""]
    return "; ".join([*(word.rstrip(".") for word in first), last])


def _input(one: InputField, value: str, shared: Mapping[str, Attribute]) -> Element:
    match one.kind:
        case "number" | "integer":
            step = "1" if one.kind == "integer" else "any"
            bounds = {"min": _bound(one.least), "max": _bound(one.most)}
            return element("input", type="number", step=step, value=value, **bounds, **shared)
        case "yes or no":
            return _select({"true": "yes", "false": "no"}, value, shared)
        case "choice" | "choices":
            return _select(one.choices, value, shared)
        case "json":
            return _area(value, 4, shared, spellcheck="false", class_="code")
        case "text":
            if one.format in _INPUTS or (one.most is not None and one.most <= _SHORT):
                kind = _INPUTS.get(one.format or "", "text")
                return element("input", type=kind, value=value, autocomplete="off", **shared)
            return _area(value, 2, shared)


def _bound(bound: float | None) -> str | None:
    return None if bound is None else f"{bound:g}" if abs(bound) < 1e6 else str(bound)


def _area(value: str, rows: int, shared: Mapping[str, Attribute], **more: Attribute) -> Element:
    # Browsers drop the first line feed of a text area, so one of ours goes first.
    return element("textarea", f"\n{value}", rows=rows, **more, **shared)


def _select(choices: Mapping[str, str], value: str, shared: Mapping[str, Attribute]) -> Element:
    options: list[Child] = [
        element("option", title, value=choice, selected=choice == value) for choice, title in choices.items()
    ]
    return element("select", element("option", "", value=""), options, **shared)


def _choices(one: InputField, values: Sequence[str], key: str, about: str) -> Element:
    boxes: list[Child] = []
    for place, (choice, title) in enumerate(one.choices.items()):
        box = f"{key}-{place}"
        boxes.append(
            element(
                "div",
                element(
                    "input",
                    type="checkbox",
                    name=one.key,
                    value=choice,
                    id=box,
                    checked=choice in values,
                ),
                " ",
                element("label", title, for_=box, class_="choice"),
            )
        )
    return element(
        "fieldset",
        element("legend", one.title, one.required and _mark()),
        about and element("p", about, class_="faint"),
        boxes,
        class_="field",
    )
