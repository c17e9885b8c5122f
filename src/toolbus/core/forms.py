"""A form that a server wants filled in: flat, a handful of simple kinds of fields.

The schema is the restricted JSON Schema of MCP's elicitation: an object of texts, numbers, yes or no, and
choices of one or several. What goes beyond that is no form, and is refused before a person sees it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from math import isfinite
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

Kind: TypeAlias = Literal["text", "number", "integer", "yes or no", "choice", "choices"]
_KINDS: dict[str, Kind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "yes or no",
    "array": "choices",
}
MOST_FIELDS = 200
_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to fill in."""

    name: str
    kind: Kind
    title: str
    description: str = ""
    required: bool = False
    default: Any = None
    """What is meant if nothing is said; None if there is no default."""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values there are to choose from, each with its title."""
    format: str | None = None
    """Of a text: email, uri, date or date-time."""
    least: float | None = None
    """The smallest number, the fewest characters or choices."""
    most: float | None = None

    def checked(self, value: Any) -> Any:
        """The value; ValueError says what does not fit."""
        problem = _CHECKS[self.kind](self, value)
        if problem is not None:
            raise ValueError(f"{self.name!r} {problem}")
        return value

    def read(self, text: str) -> Any:
        """The value that a person typed: a number, yes, the title or the place of a choice."""
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
        """The value meant by a value, a title, or its place in the list, from 1."""
        if typed in self.choices:
            return typed
        named = [value for value, title in self.choices.items() if title.lower() == typed.lower()]
        if named:
            return named[0]
        values = list(self.choices)
        return values[int(typed) - 1] if typed.isdecimal() and 0 < int(typed) <= len(values) else typed


class Form:
    """The fields of a form, in the order of the server."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Read a schema; ValueError says what makes it no form."""
        if schema.get("type", "object") != "object":
            raise ValueError(f"a form is an object, not {schema.get('type')!r}")
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise ValueError("properties must be an object and required a list")
        named = cast("Mapping[str, Any]", properties)
        if len(named) > MOST_FIELDS:
            raise ValueError(f"it has {len(named):,} fields, more than {MOST_FIELDS}")
        for name in cast("list[Any]", required):
            if not isinstance(name, str) or name not in named:
                raise ValueError(f"required names {name!r}, which is no field")
        needed = frozenset(cast("list[str]", required))
        self.fields = tuple(_field(name, spec, name in needed) for name, spec in named.items())

    def filled(self, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values with the defaults of what was left out; ValueError says what does not fit."""
        given = {name: value for name, value in (values or {}).items() if value is not None}
        names = {field.name for field in self.fields}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}; there are {', '.join(sorted(names))}")
        content: dict[str, Any] = {}
        for one in self.fields:
            if one.name in given:
                content[one.name] = one.checked(given[one.name])
            elif one.default is not None:
                content[one.name] = one.default
            elif one.required:
                raise ValueError(f"{one.name!r} is required")
        return content


def _field(name: str, spec: Any, required: bool) -> Field:
    if not isinstance(spec, Mapping):
        raise ValueError(f"the definition of {name!r} is no object")
    known = cast("Mapping[str, Any]", spec)
    choices = _choices(known)
    kind = _KINDS.get(str(known.get("type", "string" if choices else None)))
    if kind is None:
        raise ValueError(f"{name!r} is of type {known.get('type')!r}, which a form cannot have")
    if kind == "text" and choices is not None:
        kind = "choice"
    if kind == "choices":
        items = known.get("items")
        choices = _choices(cast("Mapping[str, Any]", items)) if isinstance(items, Mapping) else None
        if choices is None:
            raise ValueError(f"{name!r} is a list, but not of given choices")
    least, most = _bounds(name, known, kind)
    made = Field(
        name=name,
        kind=kind,
        title=_text(known.get("title")) or name,
        description=_text(known.get("description")),
        required=required,
        default=known.get("default"),
        choices=choices or {},
        format=_text(known.get("format")) or None,
        least=least,
        most=most,
    )
    if made.default is not None:
        try:
            made.checked(made.default)
        except ValueError as error:
            raise ValueError(f"the default of {error}") from None
    return made


def _choices(spec: Mapping[str, Any]) -> dict[str, str] | None:
    """The choices of a field, in any of the spellings that the protocol has had."""
    if isinstance(spec.get("enum"), list):
        values = [str(value) for value in spec["enum"]]
        names = spec.get("enumNames")
        titles = cast("list[Any]", names) if isinstance(names, list) else values
        if len(titles) != len(values):
            titles = values
        return dict(zip(values, map(str, titles), strict=True))
    for key in ("oneOf", "anyOf"):
        options = spec.get(key)
        if isinstance(options, list):
            found: dict[str, str] = {}
            for option in cast("list[Any]", options):
                if not isinstance(option, Mapping) or "const" not in option:
                    return None
                value = str(cast("Mapping[str, Any]", option)["const"])
                found[value] = _text(cast("Mapping[str, Any]", option).get("title")) or value
            return found
    return None


_BOUNDS: dict[Kind, tuple[str, str]] = {
    "text": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}


def _bounds(name: str, spec: Mapping[str, Any], kind: Kind) -> tuple[float | None, float | None]:
    least, most = (spec.get(key) for key in _BOUNDS.get(kind, ("", "")))
    for bound in (least, most):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float)):
            raise ValueError(f"a bound of {name!r} is no number")
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


# What each kind has to say against a value; None if nothing.


def _against_text(one: Field, value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a text"
    if one.least is not None and len(value) < one.least:
        return f"must have at least {one.least:g} characters"
    if one.most is not None and len(value) > one.most:
        return f"must have at most {one.most:g} characters"
    form = _FORMATS.get(one.format or "")
    return None if form is None or form[0](value) else f"must be {form[1]}"


def _against_number(one: Field, value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return "must be a number"
    if one.kind == "integer" and value != int(value):
        return "must be a whole number"
    if one.least is not None and value < one.least:
        return f"must be at least {one.least:g}"
    return f"must be at most {one.most:g}" if one.most is not None and value > one.most else None


def _against_yes_or_no(one: Field, value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be yes or no"


def _against_choice(one: Field, value: Any) -> str | None:
    # In a list: what a handler gives may have no hash.
    return None if value in list(one.choices) else f"must be one of {', '.join(one.choices)}"


def _against_choices(one: Field, value: Any) -> str | None:
    if not isinstance(value, list) or any(item not in list(one.choices) for item in cast("list[Any]", value)):
        return f"must be a list of {', '.join(one.choices)}"
    count = len(cast("list[Any]", value))
    if one.least is not None and count < one.least:
        return f"must have at least {one.least:g} of them"
    return f"must have at most {one.most:g} of them" if one.most is not None and count > one.most else None


_CHECKS = {
    "text": _against_text,
    "number": _against_number,
    "integer": _against_number,
    "yes or no": _against_yes_or_no,
    "choice": _against_choice,
    "choices": _against_choices,
}


def _is_address(value: str) -> bool:
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
    "email": (_is_address, "an e-mail address"),
    "uri": (_is_uri, "a URI"),
    "date": (_is_day, "a date, such as 2026-01-31"),
    "date-time": (_is_time, "a date with a time, such as 2026-01-31T12:00:00Z"),
}
