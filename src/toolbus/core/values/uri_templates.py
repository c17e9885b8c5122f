"""Expand URI templates of resources (RFC 6570, all four levels)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import quote

from toolbus.core.values.errors import ArgumentsError

Values: TypeAlias = Mapping[str, str | Sequence[str] | Mapping[str, str]]
_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_CHARACTER = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE = re.compile(rf"({_CHARACTER}(?:\.?{_CHARACTER})*)(?::([1-9]\d{{0,3}})|(\*))?")
_RESERVED = ":/?#[]@!$&'()*+,;="
_ENCODED = re.compile(r"(%[0-9A-Fa-f]{2})")


class _Operator(NamedTuple):
    """The way to expand an expression: its prefix, separator, and whether values have names."""

    first: str
    between: str
    named: bool = False
    when_empty: str = ""
    reserved: bool = False
    """Whether reserved characters such as slashes are kept."""


_OPERATORS = {
    "": _Operator("", ","),
    "+": _Operator("", ",", reserved=True),
    "#": _Operator("#", ",", reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, when_empty="="),
    "&": _Operator("&", "&", named=True, when_empty="="),
}


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    prefix: int | None
    explode: bool


@dataclass(frozen=True, slots=True)
class _Expression:
    sign: str
    variables: tuple[_Variable, ...]

    def expanded(self, values: Values) -> str:
        operator = _OPERATORS[self.sign]
        pieces = [
            piece
            for variable in self.variables
            if values.get(variable.name) not in (None, [], (), {})
            for piece in _pieces(operator, variable, values[variable.name])
        ]
        return operator.first + operator.between.join(pieces) if pieces else ""


def variables(template: str) -> tuple[str, ...]:
    """The names of the variables in the template, in order; `ArgumentsError` if it is invalid."""
    expressions = (part for part in _parts(template) if isinstance(part, _Expression))
    return tuple(dict.fromkeys(v.name for expression in expressions for v in expression.variables))


def required_variables(template: str) -> frozenset[str]:
    """Those that need a value: all outside of a query. `ArgumentsError` if the template is invalid."""
    return frozenset(
        variable.name
        for part in _parts(template)
        if isinstance(part, _Expression) and part.sign not in ("?", "&")
        for variable in part.variables
    )


def expanded(template: str, values: Values) -> str:
    """The expanded URI; `ArgumentsError` names a missing or unknown value.

    Values in a query are optional.
    """
    known, needed = variables(template), required_variables(template)
    missing = [name for name in known if name in needed and name not in values]
    if missing:
        raise _invalid(template, f"no value for {' and '.join(map(repr, missing))}")
    unknown = [name for name in values if name not in known]
    if unknown:
        raise _invalid(template, f"unknown variable {unknown[0]!r}; known: {', '.join(known) or 'none'}")
    parts = _parts(template)
    return "".join(part if isinstance(part, str) else part.expanded(values) for part in parts)


def _parts(template: str) -> Iterator[str | _Expression]:
    """The literals and expressions, in order."""
    at = 0
    for found in _EXPRESSION.finditer(template):
        yield _literal(template, template[at : found.start()])
        yield _Expression(found[1], tuple(_variable(template, name) for name in found[2].split(",")))
        at = found.end()
    yield _literal(template, template[at:])


def _literal(template: str, text: str) -> str:
    if "{" in text or "}" in text:
        raise _invalid(template, "unbalanced brace")
    return _quoted(text, reserved=True)


def _variable(template: str, text: str) -> _Variable:
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise _invalid(template, f"{text!r} is not a variable name")
    return _Variable(found[1], int(found[2]) if found[2] else None, found[3] is not None)


def _pieces(operator: _Operator, variable: _Variable, value: object) -> list[str]:
    """The expansion of one variable: one piece, or one for each item."""
    if isinstance(value, Mapping):
        pairs = [
            (_encoded(operator, k), _encoded(operator, v))
            for k, v in cast("Mapping[str, str]", value).items()
        ]
        if variable.explode:
            return [_named(operator, k, v) if operator.named else f"{k}={v}" for k, v in pairs]
        return [_named(operator, variable.name, ",".join(part for pair in pairs for part in pair))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_encoded(operator, item) for item in cast("Sequence[str]", value)]
        if variable.explode:
            return [_named(operator, variable.name, item) for item in items]
        return [_named(operator, variable.name, ",".join(items))]
    text = str(value)
    return [_named(operator, variable.name, _encoded(operator, text[: variable.prefix]))]


def _named(operator: _Operator, name: str, value: str) -> str:
    if not operator.named:
        return value
    return f"{name}={value}" if value else f"{name}{operator.when_empty}"


def _encoded(operator: _Operator, text: str) -> str:
    return _quoted(str(text), reserved=operator.reserved)


def _quoted(text: str, *, reserved: bool) -> str:
    if not reserved:
        return quote(text, safe="~")
    # Parts that are already encoded are kept.
    return "".join(
        part if at % 2 else quote(part, safe=_RESERVED + "~") for at, part in enumerate(_ENCODED.split(text))
    )


def _invalid(template: str, problem: str) -> ArgumentsError:
    return ArgumentsError(f"the template {template!r}", problem)


_LONG = 4_096
"""Characters of a URI from which on its parents are not looked up one by one: they may be too many."""


def within(uri: str, parents: Collection[str]) -> list[str]:
    """The parents that a URI equals or is below; the outermost first, unless the URI is very long."""
    whole = f"{uri}/"
    if len(uri) > _LONG:
        return [one for one in parents if whole.startswith(f"{one.removesuffix('/')}/")]
    found: list[str] = []
    at = whole.find("/")
    while at >= 0:
        found.extend(one for one in (whole[:at], whole[: at + 1]) if one in parents)
        at = whole.find("/", at + 1)
    return list(dict.fromkeys(found))  # of "a//", both slashes end "a/"
