"""Tell a model what is wrong with its arguments: which one, what was expected, an example."""

from collections.abc import Callable
from difflib import get_close_matches

from toolbus.call.arguments.examples import example
from toolbus.call.arguments.guide import Guide
from toolbus.call.arguments.judge import Fault, TimeBox
from toolbus.call.arguments.values import entries_of, is_array, is_object
from toolbus.call.arguments.wording import cut, described, either, expected, inside, names, shown
from toolbus.core.records import JSON

_MOST_LINES = 5


def complaint(hearing: TimeBox, value: JSON, given: JSON) -> str:
    """Why the value does not fit, a line for each place; `given` is what it was before repairs."""
    teller = _Teller(hearing, given)
    for fault in hearing.faults(value):
        teller.tell(fault)
    if not teller.lines:
        return "the arguments do not fit the schema of the tool"
    told = list(teller.lines.values())[:_MOST_LINES]
    more = list(teller.lines)[_MOST_LINES:]
    return "\n".join([*told, f"and {len(more)} more: {names(more)}"] if more else told)


class _Teller:
    """Puts faults into lines, one for each place."""

    def __init__(self, hearing: TimeBox, given: JSON) -> None:
        self.lines: dict[str, str] = {}
        self._hearing = hearing
        self._given = given
        self._root = Guide(hearing.schema, hearing.schema)

    def tell(self, fault: Fault) -> None:
        place = ""
        for step in fault.path:
            place = inside(place, step)
        guide = self._root.of(fault.schema)
        match fault.keyword:
            case "required" | "dependentRequired" | "dependencies" if is_object(fault.value):
                self._missing(guide, self._place(fault.path), fault.value, place)
                self._unknown(guide, entries_of(_at(fault.path, self._given)), place)
            case "additionalProperties" | "unevaluatedProperties" if is_object(fault.value):
                self._unknown(guide, fault.value, place)
            case "anyOf" | "oneOf" if (meant := _meant(fault)) is not None:
                for inner in meant:
                    self.tell(inner)
            case _:
                self._say(place, lambda: self._wrong(fault, guide))

    def _say(self, place: str, line: Callable[[], str]) -> None:
        """Take the line down; of those that will not be told, only the place."""
        if place not in self.lines:
            is_told = len(self.lines) < _MOST_LINES
            subject = f"argument {place!r}" if place else "the arguments"
            self.lines[place] = f"{subject}{line()}" if is_told else ""

    def _wrong(self, fault: Fault, guide: Guide) -> str:
        if fault.keyword is None:
            return " is not allowed here"
        name = next((step for step in reversed(fault.path) if isinstance(step, str)), "")
        told = _TOLD.get(fault.keyword)
        words = told(guide, fault.limit) if told else expected(guide)
        hint = example(self._hearing, guide, fault.schema, name)
        return f": expected {words}, got {shown(fault.value)}{hint}"

    def _place(self, path: tuple[str | int, ...]) -> Guide:
        """What the schema says of a place, as far as that can be had from outside."""
        guide = self._root
        for step in path:
            guide = guide.of(guide.item(step) if isinstance(step, int) else guide.child(step))
        return guide

    def _missing(self, guide: Guide, outer: Guide, value: dict[str, JSON], place: str) -> None:
        def line(schema: JSON, name: str) -> str:
            known = guide.of(schema)
            words = f"expected {expected(known)}" if known.own else "any value will do"
            return f" is missing: {words}{described(known)}{example(self._hearing, guide, schema, name)}"

        for name in guide.needed(value):
            if name not in value:
                # An alternative or a condition may ask for what is described only outside of it.
                schema = (guide if name in guide.properties else outer).child(name)
                self._say(inside(place, name), lambda schema=schema, name=name: line(schema, name))

    def _unknown(self, guide: Guide, value: dict[str, JSON], place: str) -> None:
        """Tell what was given under names that nobody knows: likely the missing ones, misspelt."""

        def line(name: str) -> str:
            close = get_close_matches(cut(name), list(guide.properties), n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            return f" is unknown: {hint}known: {names(list(guide.properties))}"

        for name in value if guide.properties else ():
            if name not in guide.properties and guide.child(name) in (True, False):
                self._say(inside(place, name), lambda name=name: line(name))


def _meant(fault: Fault) -> tuple[Fault, ...] | None:
    """The faults of the alternative that the value was meant for, if that is clear."""
    if not isinstance(fault.value, dict | list):
        return None
    here = len(fault.path)
    near = [branch for branch in fault.branches if not any(_sets_apart(inner, here) for inner in branch)]
    return near[0] if len(near) == 1 else None


def _sets_apart(fault: Fault, depth: int) -> bool:
    """Whether the fault says that the alternative was not meant: another type, or another tag inside."""
    if len(fault.path) == depth:
        return fault.keyword in ("type", "enum", "const", None)
    return len(fault.path) == depth + 1 and fault.keyword in ("const", "enum")


def _at(path: tuple[str | int, ...], value: JSON) -> JSON:
    for step in path:
        if isinstance(step, int):
            value = value[step] if is_array(value) and step < len(value) else None
        else:
            value = entries_of(value).get(step)
    return value


_TOLD: dict[str, Callable[[Guide, JSON], str]] = {
    "uniqueItems": lambda guide, _: f"{expected(guide)} that all differ",
    "contains": lambda guide, limit: f"a list that holds {expected(guide.of(limit))}",
    "minProperties": lambda _, limit: f"at least this many entries: {limit}",
    "maxProperties": lambda _, limit: f"at most this many entries: {limit}",
    "anyOf": lambda guide, limit: either([expected(guide.of(choice)) for choice in limit]),
    "oneOf": lambda guide, limit: either([expected(guide.of(choice)) for choice in limit]),
    "not": lambda guide, limit: f"anything but {expected(guide.of(limit))}",
    "unevaluatedItems": lambda _, __: "no more items",
}
"""What is expected where the type alone does not say it."""
