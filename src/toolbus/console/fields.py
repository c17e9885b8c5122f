"""The fields of a form, for the arguments of a tool or the question of a server, and their typed text.

Every field is text in HTML. An empty one that is not required is left out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

from toolbus.console.elements import Attribute, Child, Element, element
from toolbus.console.widgets import anchor
from toolbus.core.values.forms import Form
from toolbus.core.values.forms import Kind as FormKind
from toolbus.core.values.records import JSON
from toolbus.schema.values import is_array

Kind: TypeAlias = FormKind | Literal["json"]
Typed: TypeAlias = Mapping[str, Sequence[str]]
"""The values of a form, by the keys of its fields."""
ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """One field of a form."""

    name: str
    kind: Kind
    title: str
    description: str = ""
    expected: str = ""
    """The expected kind of value, in words."""
    required: bool = False
    default: JSON = None
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The titles of the values to choose from, each value as JSON."""
    format: str | None = None
    least: float | None = None
    most: float | None = None
    id: str = ""
    """Tells it from fields of the same name elsewhere in the form."""

    @property
    def key(self) -> str:
        """Its name in the HTML form: the name itself may contain anything."""
        return self.id or anchor("field", self.name)

    @property
    def initial(self) -> list[str]:
        """The text in the field at first: the default."""
        if self.default is None:
            return []
        if self.kind == "text" and isinstance(self.default, str):
            return [self.default]
        if self.kind == "choices" and is_array(self.default):
            return [_json(item) for item in self.default]
        return [_json(self.default)]

    def read(self, typed: Typed) -> Any:
        """The value that was typed, or `ABSENT`; ValueError if there cannot be one."""
        values = typed.get(self.key, ())
        if self.kind == "choices":
            return [self._choice(value) for value in values] if values or self.required else ABSENT
        text = values[0].replace("\r\n", "\n") if values else ""
        if self.kind == "text" and text:
            return text
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
            return parsed(text)
        except ValueError as error:
            hint = "; text needs quotes around it" if text[:1] not in '[{"' else ""
            raise ValueError(f"{self.name!r} is not JSON: {error}{hint}") from None


def arguments_of(fields: Sequence[InputField], typed: Typed) -> dict[str, JSON]:
    """The arguments that were typed; ValueError if one cannot be read."""
    read = {one.name: one.read(typed) for one in fields}
    return {name: value for name, value in read.items() if value is not ABSENT}


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


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def parsed(text: str) -> JSON:
    """The value of a JSON text; ValueError if it is not one."""
    try:
        return json.loads(text, parse_constant=_reject)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _reject(word: str) -> JSON:
    raise ValueError(f"{word} is not a JSON value")


_SHORT = 200
"""Characters up to which a text gets a single line, which Enter sends."""
_LONG_TEXTS = re.compile(r"(?i)text|content|body|code|script|message|markdown|html|patch|diff|sql|prompt")
"""Names of texts that often have several lines."""
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_INPUTS = {"email": "email", "uri": "url", "date": "date"}


def field_widget(
    one: InputField, typed: Typed | None, form: str, problem: str = "", *, is_first: bool = False
) -> Element:
    """A field with the text of `typed`; `form` makes its id unique on the page.

    `problem` is shown beside it; the first field with a problem gets the focus.
    """
    key = f"{form}-{one.key}"
    values = one.initial if typed is None else [*typed.get(one.key, ())]
    about = _about(one)
    notes = [f"{key}-about" if about else "", f"{key}-problem" if problem else ""]
    shared: dict[str, Attribute] = {
        "id": key,
        "name": one.key,
        "required": one.required,
        "aria_describedby": " ".join(filter(None, notes)) or None,
        "aria_invalid": "true" if problem else None,
        "autofocus": is_first,
    }
    if one.kind == "choices":
        return _choices(one, values, key, about, problem)
    return element(
        "div",
        element("label", one.title, one.required and required_mark(), for_=key),
        about and element("p", about, id=f"{key}-about", class_="faint"),
        _input(one, values[0] if values else "", shared),
        problem_note(key, problem),
        class_="field",
    )


def required_mark() -> Element:
    return element("span", " (required)", class_="faint")


def problem_note(key: str, problem: str) -> Child:
    """The problem of the field with that id."""
    return problem and element("p", problem, id=f"{key}-problem", class_="problem")


def _about(one: InputField) -> str:
    bounds = [f"at least {one.least:g}" if one.least is not None else ""]
    bounds += [f"at most {one.most:g}" if one.most is not None else ""]
    is_one = (one.least if one.most is None else one.most) == 1
    unit = (" character" if is_one else " characters") if one.kind == "text" else ""
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
            # A number field of a browser shows nothing else, but what was typed has to stay.
            kind = "number" if not value or _NUMBER.fullmatch(value) else "text"
            return element("input", type=kind, step=step, value=value, **bounds, **shared)
        case "yes or no":
            return _select({"true": "yes", "false": "no"}, value, shared)
        case "choice" | "choices":
            return _select(one.choices, value, shared)
        case "json":
            return _area(value, 4, shared, spellcheck="false", class_="code")
        case "text":
            is_long = one.most is not None and one.most > _SHORT
            if "\n" in value or is_long or _LONG_TEXTS.search(one.name):
                return _area(value, 3, shared)
            kind = _INPUTS.get(one.format or "", "text")
            return element("input", type=kind, value=value, autocomplete="off", **shared)


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


def _choices(one: InputField, values: Sequence[str], key: str, about: str, problem: str) -> Element:
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
        element("legend", one.title, one.required and required_mark()),
        about and element("p", about, class_="faint"),
        boxes,
        problem_note(key, problem),
        class_="field",
    )
