"""The fields of a form in words: what is expected, what there is to choose from, what was said."""

from typing import Any

from toolbus.core.forms import Field

_FORMATS = {
    "email": "an e-mail address",
    "uri": "a URI",
    "date": "a date, such as 2026-01-31",
    "date-time": "a date with a time, such as 2026-01-31T12:00:00Z",
}


def expected(field: Field) -> str:
    """What may be typed, in words; empty where any text will do."""
    match field.kind:
        case "text":
            return _FORMATS.get(field.format or "") or _bounded("", field, " characters")
        case "number":
            return _bounded("a number", field)
        case "integer":
            return _bounded("a whole number", field)
        case "yes or no":
            return "yes or no"
        case "choice":
            return "one of these"
        case "choices":
            return _bounded("some of these, comma-separated", field, " of them")


def described(field: Field) -> list[str]:
    """What to know before one types: what it is for, and the choices with their numbers."""
    about = " ".join(field.description.split())
    choices = [
        f"{number}  {' '.join(title.split())}" + ("" if title == value else f" ({value})")
        for number, (value, title) in enumerate(field.choices.items(), 1)
    ]
    name = " ".join(field.title.split())
    return ([f"{name}: {about}"] if about else []) + choices


def shown(field: Field, value: Any) -> str:
    """A value as a person would say it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(field.choices.get(str(item), str(item)) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of choices
    return field.choices.get(str(value), str(value))


def _bounded(kind: str, field: Field, unit: str = "") -> str:
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
