"""Find what a reference of a schema points to, inside the schema only: nothing is ever fetched."""

from typing import Final
from urllib.parse import unquote

from toolbus.core.records import JSON
from toolbus.shape.dialects.keywords import is_list, is_object

MISSING: Final = object()
"""What a reference gives that leads nowhere, or outside."""


class References:
    """The targets of one schema. Ids and anchors are looked up only when a reference asks for one."""

    __slots__ = ("_named", "_root")

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._named: dict[str, JSON] | None = None

    def target(self, reference: JSON) -> JSON:
        """The schema that a reference names, or `MISSING`."""
        if not isinstance(reference, str):
            return MISSING
        base, _, fragment = reference.partition("#")
        start = self._root if not base else self._names().get(base, MISSING)
        if start is MISSING or not fragment:
            return start
        if fragment.startswith("/"):
            return _at_pointer(start, fragment)
        return self._names().get(f"#{fragment}", MISSING)

    def _names(self) -> dict[str, JSON]:
        """Every schema that has a name of its own: `$id`, `id` (draft 4), `$anchor`, `$dynamicAnchor`."""
        if self._named is None:
            self._named = {}
            waiting = [self._root]
            while waiting:
                node = waiting.pop()
                if is_object(node):
                    for key, prefix in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                        if isinstance(name := node.get(key), str):
                            self._named.setdefault(prefix + name.removesuffix("#"), node)
                    waiting.extend(node.values())
                elif is_list(node):
                    waiting.extend(node)
        return self._named


def _at_pointer(node: JSON, pointer: str) -> JSON:
    # The fragment is decoded before it is split: `%2F` is a separator, `~1` is a slash in a name.
    for raw in unquote(pointer).split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        if is_object(node) and key in node:
            node = node[key]
        elif is_list(node) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return MISSING
    return node
