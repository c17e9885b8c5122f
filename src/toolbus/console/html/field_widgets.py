"""Fields of a form as HTML: each with a label, its description, and what was typed before."""

from collections.abc import Mapping, Sequence

from toolbus.console.html.elements import Attribute, Child, Element, element
from toolbus.console.html.fields import InputField, Typed

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
