"""A form that a server asks a user to fill in: a flat list of simple fields.

The schema is the restricted JSON Schema of MCP's elicitation: an object of strings, numbers, booleans, and
choices of one or several values. Anything else is rejected before a user sees it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from math import isfinite
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from toolbus.schema.values import JSON, JSONObject, has_type, is_array, is_object

Kind: TypeAlias = Literal["text", "number", "integer", "yes or no", "choice", "choices"]
_KINDS: dict[str, Kind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "yes or no",
    "array": "choices",
}
MOST_FIELDS = 200
MOST_CHOICES = 2_000
"""The most choices in all fields together."""
_SHOWN_CHOICES = 20
_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form."""

    name: str
    kind: Kind
    title: str
    description: str = ""
    required: bool = False
    default: Any = None
    """The value if none is given; None if there is no default."""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values to choose from, each with its title."""
    format: str | None = None
    """Of a text: email, uri, date or date-time."""
    least: float | None = None
    """The smallest number, the fewest characters or choices."""
    most: float | None = None

    def checked(self, value: Any) -> Any:
        """The value; ValueError if it is invalid."""
        problem = _problem(self, value)
        if problem is not None:
            raise ValueError(f"{self.name!r} {problem}")
        return value

    def read(self, text: str) -> Any:
        """The value that a user typed: a number, yes, the title or the position of a choice."""
        typed = text.strip()
        match self.kind:
            case "text":
                return self.checked(text)
            case "yes or no":
                word = typed.lower()
                return self.checked(True if word in _YES else False if word in _NO else typed)
            case "number" | "integer":
                return self.checked(_number(typed, whole=self.kind == "integer"))
            case "choice":
                return self.checked(self._chosen(typed))
            case "choices":
                parts = [part.strip() for part in typed.split(",")]
                return self.checked([self._chosen(part) for part in parts if part])

    def _chosen(self, typed: str) -> str:
        """The choice with that value, that title, or that position in the list, from 1."""
        if typed in self.choices:
            return typed
        named = [value for value, title in self.choices.items() if title.lower() == typed.lower()]
        if named:
            return named[0]
        values = list(self.choices)
        return values[int(typed) - 1] if typed.isdecimal() and 0 < int(typed) <= len(values) else typed


class Form:
    """The fields of a form, in the server's order."""

    def __init__(self, schema: JSONObject) -> None:
        """Read a schema; ValueError if it is not a form."""
        if schema.get("type", "object") != "object":
            raise ValueError(f"a form is an object, not {schema.get('type')!r}")
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not is_object(properties) or not is_array(required):
            raise ValueError("properties must be an object and required a list")
        if len(properties) > MOST_FIELDS:
            raise ValueError(f"it has {len(properties):,} fields, more than {MOST_FIELDS}")
        for name in required:
            if not isinstance(name, str) or name not in properties:
                raise ValueError(f"required names {name!r}, which is not a field")
        self.fields = tuple(_field(name, spec, name in required) for name, spec in properties.items())
        if (choices := sum(len(one.choices) for one in self.fields)) > MOST_CHOICES:
            raise ValueError(f"it has {choices:,} choices, more than {MOST_CHOICES:,}")

    def filled(self, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values, with defaults for missing ones; ValueError if one is invalid."""
        given = {name: value for name, value in (values or {}).items() if value is not None}
        names = {field.name for field in self.fields}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}; known fields: {', '.join(sorted(names))}")
        content: dict[str, Any] = {}
        for one in self.fields:
            if one.name in given:
                content[one.name] = one.checked(given[one.name])
            elif one.default is not None:
                content[one.name] = one.default
            elif one.required:
                raise ValueError(f"{one.name!r} is required")
        return content


def _field(name: str, spec: JSON, required: bool) -> Field:
    if not is_object(spec):
        raise ValueError(f"the definition of {name!r} is not an object")
    choices = _choices(spec)
    kind = _KINDS.get(str(spec.get("type", "string" if choices else None)))
    if kind is None:
        raise ValueError(f"{name!r} is of type {spec.get('type')!r}, which a form does not support")
    if kind == "text" and choices is not None:
        kind = "choice"
    if kind == "choices":
        choices = _choices(spec.get("items"))
        if choices is None:
            raise ValueError(f"{name!r} is a list, but its items are not listed choices")
    least, most = _bounds(name, spec, kind)
    made = Field(
        name=name,
        kind=kind,
        title=_text(spec.get("title")) or name,
        description=_text(spec.get("description")),
        required=required,
        default=spec.get("default"),
        choices=choices or {},
        format=_text(spec.get("format")) or None,
        least=least,
        most=most,
    )
    if made.default is not None:
        try:
            made.checked(made.default)
        except ValueError as error:
            raise ValueError(f"the default of {error}") from None
    return made


def _choices(spec: JSON) -> dict[str, str] | None:
    """The choices of a field, in any notation that the protocol has had."""
    if not is_object(spec):
        return None
    if is_array(spec.get("enum")):
        values = [str(value) for value in spec["enum"]]
        names = spec.get("enumNames")
        titles = names if is_array(names) and len(names) == len(values) else values
        return dict(zip(values, map(str, titles), strict=True))
    options = next((spec[key] for key in ("oneOf", "anyOf") if is_array(spec.get(key))), None)
    if options is None or not all(is_object(option) and "const" in option for option in options):
        return None
    return {str(option["const"]): _text(option.get("title")) or str(option["const"]) for option in options}


_BOUNDS: dict[Kind, tuple[str, str]] = {
    "text": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}


def _bounds(name: str, spec: JSONObject, kind: Kind) -> tuple[float | None, float | None]:
    least, most = (spec.get(key) for key in _BOUNDS.get(kind, ("", "")))
    for bound in (least, most):
        if bound is not None and not has_type(bound, ["number"]):
            raise ValueError(f"a bound of {name!r} is not a number")
    return least, most


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(typed: str, *, whole: bool) -> Any:
    for kind in (int, float) if whole else (float,):
        try:
            return kind(typed)
        except ValueError:
            pass
    return typed


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond what a float holds
        return False


def _problem(one: Field, value: Any) -> str | None:
    """The reason why a value is invalid for a field; None if it is valid."""
    match one.kind:
        case "text":
            if not isinstance(value, str):
                return "must be text"
            is_valid, expected = _FORMATS.get(one.format or "", (bool, ""))
            outside = _outside(one, len(value), "have", " characters")
            return outside or (f"must be {expected}" if expected and not is_valid(value) else None)
        case "number" | "integer":
            if not has_type(value, ["number"]) or not _is_finite(value):
                return "must be a number"
            is_whole = one.kind == "number" or has_type(value, ["integer"])
            return _outside(one, value, "be") if is_whole else "must be a whole number"
        case "yes or no":
            return None if isinstance(value, bool) else "must be yes or no"
        case "choice":
            # In a list: a handler may return a value that cannot be hashed.
            return None if value in list(one.choices) else f"must be one of {_listed(one)}"
        case "choices":
            if not is_array(value) or any(item not in list(one.choices) for item in value):
                return f"must be a list of {_listed(one)}"
            return _outside(one, len(value), "have", " of them")


def _listed(one: Field) -> str:
    first = ", ".join(list(one.choices)[:_SHOWN_CHOICES])
    more = len(one.choices) - _SHOWN_CHOICES
    return first if more <= 0 else f"{first} and {more:,} more"


def _outside(one: Field, size: float, verb: str, unit: str = "") -> str | None:
    if one.least is not None and size < one.least:
        return f"must {verb} at least {one.least:g}{unit}"
    return f"must {verb} at most {one.most:g}{unit}" if one.most is not None and size > one.most else None


def _is_email(value: str) -> bool:
    return bool(re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*", value))


def _is_uri(value: str) -> bool:
    try:
        return bool(urlsplit(value).scheme)
    except ValueError:
        return False


def _is_day(value: str) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", value)) and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _is_time(value: str) -> bool:
    try:
        return "T" in value.upper() and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


_FORMATS = {
    "email": (_is_email, "an e-mail address"),
    "uri": (_is_uri, "a URI"),
    "date": (_is_day, "a date, such as 2026-01-31"),
    "date-time": (_is_time, "a date with a time, such as 2026-01-31T12:00:00Z"),
}
