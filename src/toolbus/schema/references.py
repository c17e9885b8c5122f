"""Resolve references inside a schema; nothing is ever fetched."""

from typing import Final
from urllib.parse import unquote

from toolbus.schema.keywords import REFERENCES
from toolbus.schema.values import JSON, Node, is_array, is_object

MISSING: Final = object()
"""The target of a reference that points nowhere, or outside the schema."""


class References:
    """The reference targets of one schema. Ids and anchors are indexed when a reference first needs them."""

    __slots__ = ("_is_ambiguous", "_named", "_targets", "root")

    def __init__(self, root: JSON) -> None:
        self.root = root
        self._named: dict[str, JSON] | None = None
        self._is_ambiguous = False
        self._targets: dict[str, JSON] = {}

    def target(self, reference: JSON) -> JSON:
        """The schema that a reference names, or `MISSING`."""
        if not isinstance(reference, str):
            return MISSING
        if reference not in self._targets:
            self._targets[reference] = self._found(reference)
        return self._targets[reference]

    def _found(self, reference: str) -> JSON:
        base, _, fragment = reference.partition("#")
        start = self.root if not base else self._names().get(base, MISSING)
        if start is MISSING or not fragment:
            return start
        if fragment.startswith("/"):
            return _at_pointer(start, fragment)
        return self._names().get(f"#{fragment}", MISSING)

    @property
    def is_ambiguous(self) -> bool:
        """Whether others may resolve a reference differently.

        A name occurs twice, or a schema that is a document of its own, by its id, has references.
        """
        self._names()
        return self._is_ambiguous

    def _names(self) -> dict[str, JSON]:
        """Every schema that has a name: `$id`, `id` (draft 4), `$anchor`, `$dynamicAnchor`."""
        if self._named is None:
            self._named = {}
            waiting = [(self.root, False)]
            while waiting:
                node, is_document = waiting.pop()
                if is_object(node):
                    is_document = self._keep_names(self._named, node) or is_document
                    if is_document and any(isinstance(node.get(key), str) for key in REFERENCES):
                        self._is_ambiguous = True
                    waiting.extend((inner, is_document) for inner in node.values())
                elif is_array(node):
                    waiting.extend((inner, is_document) for inner in node)
        return self._named

    def _keep_names(self, named: dict[str, JSON], node: Node) -> bool:
        """Keep the names of one schema; returns whether it is a document of its own."""
        is_document = False
        for key, prefix in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
            if isinstance(name := node.get(key), str):
                full = prefix + name.removesuffix("#")
                self._is_ambiguous = self._is_ambiguous or named.get(full, node) is not node
                named.setdefault(full, node)
                is_document = is_document or (not prefix and node is not self.root)
        return is_document


def _at_pointer(node: JSON, pointer: str) -> JSON:
    # The fragment is decoded before it is split: `%2F` is a separator, `~1` is a slash in a name.
    for raw in unquote(pointer).split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        if is_object(node) and key in node:
            node = node[key]
        elif is_array(node) and key.isdecimal() and len(key) < 10 and int(key) < len(node):
            node = node[int(key)]
        else:
            return MISSING
    return node
