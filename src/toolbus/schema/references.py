"""Resolve references inside a schema; nothing is ever fetched."""

from typing import Final
from urllib.parse import unquote

from toolbus.schema.values import JSON, is_array, is_object

MISSING: Final = object()
"""The target of a reference that points nowhere, or outside the schema."""


class References:
    """The reference targets of one schema. Ids and anchors are indexed when a reference first needs them."""

    __slots__ = ("_named", "root")

    def __init__(self, root: JSON) -> None:
        self.root = root
        self._named: dict[str, JSON] | None = None

    def target(self, reference: JSON) -> JSON:
        """The schema that a reference names, or `MISSING`."""
        if not isinstance(reference, str):
            return MISSING
        base, _, fragment = reference.partition("#")
        start = self.root if not base else self._names().get(base, MISSING)
        if start is MISSING or not fragment:
            return start
        if fragment.startswith("/"):
            return _at_pointer(start, fragment)
        return self._names().get(f"#{fragment}", MISSING)

    def _names(self) -> dict[str, JSON]:
        """Every schema that has a name: `$id`, `id` (draft 4), `$anchor`, `$dynamicAnchor`."""
        if self._named is None:
            self._named = {}
            waiting = [self.root]
            while waiting:
                node = waiting.pop()
                if is_object(node):
                    for key, prefix in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                        if isinstance(name := node.get(key), str):
                            self._named.setdefault(prefix + name.removesuffix("#"), node)
                    waiting.extend(node.values())
                elif is_array(node):
                    waiting.extend(node)
        return self._named


def _at_pointer(node: JSON, pointer: str) -> JSON:
    # The fragment is decoded before it is split: `%2F` is a separator, `~1` is a slash in a name.
    for raw in unquote(pointer).split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        if is_object(node) and key in node:
            node = node[key]
        elif is_array(node) and key.isdecimal() and int(key[:9]) < len(node):
            node = node[int(key[:9])]
        else:
            return MISSING
    return node
