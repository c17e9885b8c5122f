"""Read a schema node with its references followed and its `allOf` merged.

No server can make reading slow: a definition is expanded inside itself at most `RECURSION` times, one reader
reads at most `PLACES` nodes, and each node takes steps of the work that its document may make.
"""

from typing import NamedTuple

from toolbus.schema.keywords import DEEPEST, IDENTITY, REFERENCES, quoted
from toolbus.schema.merge import merged
from toolbus.schema.normalize import LossKind, Note, normalized
from toolbus.schema.references import MISSING, References
from toolbus.schema.values import JSON, Node, entries_of, is_object
from toolbus.schema.work import Work

RECURSION = 2
PLACES = 2_500
_PATH = 500
"""Characters of a path that take a step to write."""


class Place(NamedTuple):
    """Where a node is: in the schema, in the values it describes, and which references led to it."""

    path: str = ""
    data: str = ""
    depth: int = 0
    trail: tuple[str, ...] = ()

    def into(self, keyword: str, step: str | None = None) -> "Place":
        """A subschema; `step` leads to its values, if it describes other values than this one."""
        below = self.data if step is None else f"{self.data}/{step}"
        return Place(f"{self.path}/{keyword}", below, self.depth + 1, self.trail)


def ignored(kind: LossKind, path: str, what: str) -> None:
    """The `note` of a reader whose changes are of no interest."""


class SchemaReader:
    """Reads the nodes of one document, and notes every change; TooMuchWork if that takes too many steps."""

    __slots__ = ("_left", "_note", "_references", "_work")

    def __init__(self, references: References, work: Work, note: Note = ignored) -> None:
        self._references = references
        self._work = work
        self._note = note
        self._left = PLACES

    def node(self, schema: JSON, at: Place) -> tuple[Node, Place]:
        """The node without references and `allOf`, and its place with the references that were followed."""
        self._left -= 1
        self._work.spend(1 + len(at.path) // _PATH)
        if self._left < 0 or at.depth > DEEPEST:
            what = f"the schema has more than {PLACES} places" if self._left < 0 else "nested too deeply"
            self._note("permissive", at.path, f"{what}; any value is accepted here")
            return {}, at
        if not is_object(schema):
            if schema is not True:
                what = "no value is allowed" if schema is False else "this is not a schema"
                self._note("widened", at.path, f"{what}; any value is accepted")
            return {}, at
        # Each of them is read as well, even if only at a glance.
        self._left -= len(entries_of(schema.get("properties")))
        self._work.read(schema)
        node = normalized(schema, self._note, at.path)
        if not at.path and (named := IDENTITY.intersection(schema)):
            self._note("lossless", at.path, f"left out: {', '.join(sorted(named))}")
        for key in REFERENCES:
            if key in schema:
                target, at = self._followed(schema[key], at, key)
                node = merged(node, target, self._work)
        branches = node.pop("allOf", ())
        for number, branch in enumerate(branches):
            inner, place = self.node(branch, at.into(f"allOf/{number}"))
            at = at._replace(trail=place.trail)
            node = merged(node, inner, self._work)
        return node, at

    def _followed(self, reference: JSON, at: Place, keyword: str) -> tuple[Node, Place]:
        target = self._references.target(reference)
        path = f"{at.path}/{keyword}"
        if target is MISSING:
            what = f"{quoted(reference)} points outside the schema and is not fetched; any value is accepted"
            self._note("permissive", path, what)
            return {}, at
        if at.trail.count(reference) >= RECURSION:
            what = f"{keyword}: {reference} contains itself; cut after {RECURSION} levels"
            return self._cut(target, at, what), at
        self._note("lossless", path, f"{reference} is expanded here")
        # One level deeper, so a long chain of references ends where deep nesting does.
        return self.node(target, at._replace(trail=(*at.trail, reference), depth=at.depth + 1))

    def _cut(self, target: JSON, at: Place, what: str) -> Node:
        """All that is left where a definition would be expanded inside itself once more: its type."""
        own = {"type": target["type"]} if is_object(target) and "type" in target else {}
        node = normalized(own, self._note, at.path)
        kind = "widened" if "type" in node else "permissive"
        self._note(kind, at.path, f"{what}, where any {node.get('type', 'value')} is accepted")
        return {**node, "description": "(further levels as above)"}
