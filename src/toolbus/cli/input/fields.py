"""Describe form fields for people: expected values, choices, defaults."""

from typing import Any

from toolbus.core.values.forms import Field

_FORMATS = {
    "email": "an e-mail address",
    "uri": "a URI",
    "date": "a date, such as 2026-01-31",
    "date-time": "a date with a time, such as 2026-01-31T12:00:00Z",
}


def expected_value(field: Field) -> str:
    """The expected value in words; empty if any text is valid."""
    match field.kind:
        case "text":
            return _FORMATS.get(field.format or "") or _with_bounds("", field, " characters")
        case "number":
            return _with_bounds("a number", field)
        case "integer":
            return _with_bounds("a whole number", field)
        case "yes or no":
            return "yes or no"
        case "choice":
            return "one of these"
        case "choices":
            return _with_bounds("some of these, comma-separated", field, " of them")


def field_help(field: Field) -> list[str]:
    """The field's description, and its choices with their numbers."""
    about = " ".join(field.description.split())
    choices = [
        f"{number}  {' '.join(title.split())}" + ("" if title == value else f" ({value})")
        for number, (value, title) in enumerate(field.choices.items(), 1)
    ]
    name = " ".join(field.title.split())
    return ([f"{name}: {about}"] if about else []) + choices


def display_value(field: Field, value: Any) -> str:
    """A value for display."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(field.choices.get(str(item), str(item)) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of choices
    return field.choices.get(str(value), str(value))


def _with_bounds(kind: str, field: Field, unit: str = "") -> str:
    least, most = field.least, field.most
    match least, most:
        case None, None:
            return kind
        case _, None:
            bounds = f"at least {least:g}{unit}"
        case None, _:
            bounds = f"at most {most:g}{unit}"
        case _:
            bounds = f"{least:g} to {most:g}{unit}"
    return f"{kind}, {bounds}" if kind else bounds
