"""Describe the mistakes in a model's arguments: which one, the expected value, an example."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from toolbus.call.arguments.examples import Examples
from toolbus.schema.describe import either, expected, names, place_inside, purpose, shortened, shown
from toolbus.schema.node import Schema
from toolbus.schema.validator import Fault, Validator
from toolbus.schema.values import JSON, entries_of, is_object, value_at

_MOST_LINES = 5


def problems_by_place(validator: Validator, value: JSON, given: JSON) -> dict[str, str]:
    """The problems of a value, a line for each place; `given` is the value before repairs.

    Only the first lines are worded.
    """
    lines = _Lines(validator, given)
    for fault in validator.faults(value):
        lines.add(fault)
    return lines.by_place


def described_problem(by_place: Mapping[str, str]) -> str:
    """The problems of all places for a model."""
    if not by_place:
        return "the arguments do not match the schema of the tool"
    first = list(by_place.values())[:_MOST_LINES]
    more = list(by_place)[_MOST_LINES:]
    return "\n".join([*first, f"and {len(more)} more: {names(more)}"] if more else first)


class _Lines:
    """The faults as lines, one for each place."""

    def __init__(self, validator: Validator, given: JSON) -> None:
        self.by_place: dict[str, str] = {}
        self._given = given
        self._root = Schema(validator.schema)
        self._examples = Examples(validator)
        self._checked: set[tuple[tuple[str | int, ...], int]] = set()
        """The objects whose missing names were added, and the schemas: each name is a fault of its own."""

    def add(self, fault: Fault) -> None:
        place = ""
        for step in fault.path:
            place = place_inside(place, step)
        schema = self._root.of(fault.schema)
        match fault.keyword:
            case "required" if (fault.path, id(fault.schema)) in self._checked:
                pass
            case "required" | "dependentRequired" | "dependencies" if is_object(fault.value):
                self._checked.add((fault.path, id(fault.schema)))
                self._add_missing(schema, self._schema_at(fault.path), fault.value, place)
                self._add_unknown(schema, entries_of(value_at(self._given, fault.path)), place)
            case "additionalProperties" | "unevaluatedProperties" if is_object(fault.value):
                self._add_unknown(schema, fault.value, place)
            case "anyOf" | "oneOf" if (branch := _meant_branch(fault)) is not None:
                for inner in branch:
                    self.add(inner)
            case _:
                self._add_line(place, lambda: self._mismatch(fault, schema))

    def _add_line(self, place: str, line: Callable[[], str]) -> None:
        """Add a line, unless the place has one; beyond the limit, only its place is kept."""
        if place not in self.by_place:
            is_shown = len(self.by_place) < _MOST_LINES
            subject = f"argument {place!r}" if place else "the arguments"
            self.by_place[place] = f"{subject}{line()}" if is_shown else ""

    def _mismatch(self, fault: Fault, schema: Schema) -> str:
        if fault.keyword is None:
            return " is not allowed here"
        name = next((step for step in reversed(fault.path) if isinstance(step, str)), "")
        in_words = _EXPECTED.get(fault.keyword)
        words = in_words(schema, fault.limit) if in_words else expected(schema)
        hint = self._examples.hint(schema, fault.schema, name)
        return f": expected {words}, got {shown(fault.value)}{hint}"

    def _schema_at(self, path: tuple[str | int, ...]) -> Schema:
        """The schema of a place, as far as it can be found from the root."""
        schema = self._root
        for step in path:
            schema = schema.of(schema.item(step) if isinstance(step, int) else schema.child(step))
        return schema

    def _add_missing(self, schema: Schema, outer: Schema, value: dict[str, JSON], place: str) -> None:
        def line(child: JSON, name: str) -> str:
            known = schema.of(child)
            words = f"expected {expected(known)}" if known.own else "any value is accepted"
            return f" is missing: {words}{purpose(known)}{self._examples.hint(schema, child, name)}"

        for name in schema.required(value):
            if name not in value:
                # An alternative or a condition may require what only the outer schema describes.
                child = (schema if name in schema.properties else outer).child(name)
                self._add_line(place_inside(place, name), lambda child=child, name=name: line(child, name))

    def _add_unknown(self, schema: Schema, value: dict[str, JSON], place: str) -> None:
        """Report unknown names: likely the missing ones, misspelled."""

        def line(name: str) -> str:
            close = get_close_matches(shortened(name), list(schema.properties), n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            return f" is unknown: {hint}known: {names(list(schema.properties))}"

        for name in value if schema.properties else ():
            if name not in schema.properties and schema.child(name) in (True, False):
                self._add_line(place_inside(place, name), lambda name=name: line(name))


def _meant_branch(fault: Fault) -> tuple[Fault, ...] | None:
    """The faults of the alternative that the value was meant for, if that is clear."""
    if not isinstance(fault.value, dict | list):
        return None
    here = len(fault.path)
    near = [branch for branch in fault.branches if not any(_rules_out(inner, here) for inner in branch)]
    return near[0] if len(near) == 1 else None


def _rules_out(fault: Fault, depth: int) -> bool:
    """Whether the fault shows that the alternative was not meant: another type, or another tag inside."""
    if len(fault.path) == depth:
        return fault.keyword in ("type", "enum", "const", None)
    return len(fault.path) == depth + 1 and fault.keyword in ("const", "enum")


_EXPECTED: dict[str, Callable[[Schema, JSON], str]] = {
    "uniqueItems": lambda schema, _: f"{expected(schema)} that all differ",
    "contains": lambda schema, limit: f"a list that holds {expected(schema.of(limit))}",
    "minProperties": lambda _, limit: f"at least this many entries: {limit}",
    "maxProperties": lambda _, limit: f"at most this many entries: {limit}",
    "anyOf": lambda schema, limit: either([expected(schema.of(choice)) for choice in limit]),
    "oneOf": lambda schema, limit: either([expected(schema.of(choice)) for choice in limit]),
    "not": lambda schema, limit: f"anything but {expected(schema.of(limit))}",
    "unevaluatedItems": lambda _, __: "no more items",
}
"""The expected value, where the type alone does not explain it."""
