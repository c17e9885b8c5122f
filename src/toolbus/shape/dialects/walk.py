"""Go through a schema place by place: references followed, `allOf` joined, every step counted.

The bounds are fixed, so that no server can make a conversion long: a definition stands inside itself at most
`RECURSION` times, and all places together are at most `PLACES`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from toolbus.core.records import JSON
from toolbus.shape.dialects.definition import Kind, Report
from toolbus.shape.dialects.keywords import (
    ANNOTATIONS,
    CHECKS,
    DEEPEST,
    IDENTITY,
    IDLE,
    REFERENCES,
    is_object,
    quoted,
)
from toolbus.shape.dialects.merge import joined
from toolbus.shape.dialects.names import PropertyNames
from toolbus.shape.dialects.references import MISSING, References
from toolbus.shape.dialects.rules import Rules
from toolbus.shape.dialects.tidy import Node, tidied

RECURSION = 2
PLACES = 5_000
ANYTHING: Node = {}
_LABELS = {"enum": "one of", "const": "always", "allOf": "and", "additionalProperties": "other properties"}


class Place(NamedTuple):
    """Where the walk is: in the schema, in the arguments it describes, and which references led here."""

    path: str = ""
    data: str = ""
    depth: int = 0
    trail: tuple[str, ...] = ()

    def into(self, keyword: str, step: str | None = None) -> "Place":
        """A schema below; `step` leads to its values, if it speaks of others than this one."""
        below = self.data if step is None else f"{self.data}/{step}"
        return Place(f"{self.path}/{keyword}", below, self.depth + 1, self.trail)


def escaped(name: str) -> str:
    """A name as a step of a pointer; a property named `*` is told apart from the `*` for any item."""
    if name.isidentifier():
        return name
    return name.replace("~", "~0").replace("/", "~1").replace("*", "~2")


@dataclass(slots=True)
class Walk:
    """The state of one conversion."""

    rules: Rules
    report: Report
    references: References
    names: PropertyNames
    left: int = field(default=PLACES)

    def note(self, kind: Kind, at: Place, what: str, keyword: str = "") -> None:
        """Put a loss on record."""
        self.report.note(kind, f"{at.path}/{keyword}" if keyword else at.path, what)

    def plain(self, schema: JSON, at: Place) -> tuple[Node, Place]:
        """The node without references and `allOf`, and the place with the references that were followed."""
        self.left -= 1
        if self.left < 0 or at.depth > DEEPEST:
            what = f"the schema has more than {PLACES} places" if self.left < 0 else "nested too deep"
            self.note("permissive", at, f"{what}; any value is taken here")
            return dict(ANYTHING), at
        if not is_object(schema):
            if schema is not True:
                what = "no value is allowed" if schema is False else "this is no schema"
                self.note("widened", at, f"{what}; any value is taken")
            return dict(ANYTHING), at
        node = tidied(schema, self.report, at.path)
        if not at.path and (named := IDENTITY.intersection(schema)):
            self.note("lossless", at, f"left out: {', '.join(sorted(named))}")
        for key in REFERENCES:
            if key in schema:
                target, at = self._followed(schema[key], at, key)
                node = joined(node, target)
        branches = node.pop("allOf", ())
        for number, branch in enumerate(branches):
            inner, place = self.plain(branch, at.into(f"allOf/{number}"))
            at = at._replace(trail=place.trail)
            node = joined(node, inner)
        return node, at

    def _followed(self, reference: JSON, at: Place, keyword: str) -> tuple[Node, Place]:
        target = self.references.target(reference)
        if target is MISSING:
            what = f"{quoted(reference)} points outside the schema and is not fetched; any value is taken"
            self.note("permissive", at, what, keyword)
            return dict(ANYTHING), at
        if at.trail.count(reference) >= RECURSION:
            return self._cut(target, at, f"{keyword}: {reference} holds itself; cut after {RECURSION} levels")
        self.note("lossless", at, f"{reference} stands here in full", keyword)
        # A step down, too, so that a long chain of references ends where deep nesting ends.
        return self.plain(target, at._replace(trail=(*at.trail, reference), depth=at.depth + 1))

    def _cut(self, target: JSON, at: Place, what: str) -> tuple[Node, Place]:
        """All that is said where a definition would stand inside itself once more: its type."""
        own = target if is_object(target) else {}
        node = tidied({key: own[key] for key in ("type",) if key in own}, self.report, at.path)
        kind = "widened" if "type" in node else "permissive"
        self.note(kind, at, f"{what}, where any {node.get('type', 'value')} is taken")
        return {**node, "description": "(further levels as above)"}, at

    def told(self, node: Node, keywords: Iterable[str], at: Place) -> list[str]:
        """Words for the keywords that have no place in the result; each is put on record."""
        words: list[str] = []
        for key in keywords:
            value = node[key]
            if key in ANNOTATIONS:
                if key in ("default", "examples"):
                    words.append(f"{key}: {quoted(value)}")
                self.note("lossless", at, f"`{key}` has no place here", key)
            elif key not in CHECKS or value in IDLE.get(key, ()):
                self.note("lossless", at, f"`{key}` says nothing here", key)
            else:
                # Models do not invent properties; to forbid it at every object would only cost tokens.
                told = not (key == "additionalProperties" and value is False)
                if told:
                    words.append(f"{_LABELS.get(key, key)}: {quoted(value)}")
                where = "; it stands in the description" if told else ""
                self.note("widened", at, f"`{key}` cannot be said here{where}", key)
        return words


def described(result: Node, words: list[str]) -> None:
    """Add words to the description of a result, in brackets."""
    if words:
        own = result.get("description")
        said = f"({'; '.join(words)})"
        result["description"] = f"{own} {said}" if own else said
