"""Put a server's own names and values back into arguments, where its schema was cleaned for the model.

A clean text is replaced only where the schema declares the original: a text that a user wrote stays as it is.
No pattern of the schema is run, and only so much of a schema is read: beyond that, nothing is replaced.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from toolbus.schema.keywords import REFERENCES
from toolbus.schema.references import References
from toolbus.schema.values import JSON, JSONObject, Node, entries_of, is_array, is_object, items_of

_MOST_STEPS = 200_000
_DEEPEST = 100
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else")
_OTHER_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")


def with_restored_names(
    arguments: JSONObject, schema: JSONObject, originals: Mapping[str, str]
) -> dict[str, JSON]:
    """The arguments with every clean name and listed value replaced by the original of the schema."""
    place = _Place(_Reading(schema), [schema])
    return cast("dict[str, JSON]", _restored(dict(arguments), place, originals, 0))


def _restored(value: JSON, place: "_Place", originals: Mapping[str, str], depth: int) -> JSON:
    if isinstance(value, str):
        original = originals.get(value)
        return original if original is not None and original in place.values else value
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        result: dict[str, JSON] = {}
        for key, inner in cast("dict[str, JSON]", value).items():
            original = originals.get(key)
            name = original if original is not None and original in place.names else key
            result[name] = _restored(inner, place.member(name), originals, depth + 1)
        return result
    if isinstance(value, list | tuple):
        items = enumerate(cast("list[JSON]", value))
        return [_restored(item, place.item(index), originals, depth + 1) for index, item in items]
    return value


class _Reading:
    """The document, and how much of it one call may still read."""

    def __init__(self, schema: JSONObject) -> None:
        self.references = References(schema)
        self.left = _MOST_STEPS


class _Place:
    """The declarations of all schemas that may apply to one place of the arguments; each is read once."""

    def __init__(self, reading: _Reading, schemas: Iterable[JSON]) -> None:
        self._reading = reading
        self.names: set[str] = set()
        self.values: set[str] = set()
        self._members: dict[str, list[JSON]] = {}
        self._other_members: list[tuple[Node, JSON]] = []
        self._first_items: list[list[JSON]] = []
        self._other_items: list[JSON] = []
        self._places: dict[str | int, _Place] = {}
        seen: dict[int, Node] = {}  # kept until the end, so that no other node gets such an id
        waiting = list(schemas)
        while waiting and reading.left > 0:
            node = waiting.pop()
            if is_object(node) and id(node) not in seen:
                reading.left -= 1 + sum(map(_size, node.values()))
                seen[id(node)] = node
                self._add(node)
                waiting += self._behind(node)

    def member(self, name: str) -> "_Place":
        if name not in self._places:
            self._reading.left -= len(self._other_members)
            others = [inner for own, inner in self._other_members if name not in own]
            self._places[name] = _Place(self._reading, [*self._members.get(name, ()), *others])
        return self._places[name]

    def item(self, index: int) -> "_Place":
        index = min(index, len(self._first_items))
        if index not in self._places:
            first = self._first_items[index] if index < len(self._first_items) else []
            self._places[index] = _Place(self._reading, [*first, *self._other_items])
        return self._places[index]

    def _add(self, node: Node) -> None:
        members = entries_of(node.get("properties"))
        for name, inner in members.items():
            self._members.setdefault(name, []).append(inner)
        self._other_members += [(members, node[key]) for key in _OTHER_MEMBERS if is_object(node.get(key))]
        self._other_members += [({}, inner) for inner in entries_of(node.get("patternProperties")).values()]
        self.names.update(members, _texts(items_of(node.get("required"))))
        self.names.update(_texts(_listed(entries_of(node.get("propertyNames")))))
        self.values.update(_texts(_listed(node)))
        for key in ("prefixItems", "items"):
            for index, inner in enumerate(items_of(node.get(key))):
                if index == len(self._first_items):
                    self._first_items.append([])
                self._first_items[index].append(inner)
        self._other_items += [node[key] for key in _OTHER_ITEMS if is_object(node.get(key))]

    def _behind(self, node: Node) -> Iterator[JSON]:
        yield from (self._reading.references.target(node[key]) for key in REFERENCES if key in node)
        for key in _ALTERNATIVES:
            yield from items_of(node.get(key))
        yield from (node[key] for key in _CONDITIONS if key in node)
        for key in ("dependentSchemas", "dependencies"):
            yield from entries_of(node.get(key)).values()
        for value in _listed(node):  # a listed object declares its own names and values
            if is_object(value):
                yield {"properties": {name: {"const": inner} for name, inner in value.items()}}
            elif is_array(value):
                yield {"prefixItems": [{"const": inner} for inner in value]}


def _size(value: JSON) -> int:
    return len(value) if is_object(value) or is_array(value) else 0


def _listed(node: Node) -> list[JSON]:
    return [*items_of(node.get("enum")), *([node["const"]] if "const" in node else [])]


def _texts(values: list[JSON]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


EMPTY: JSONObject = {}
"""Shared empty object; do not mutate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentMap:
    """Maps the model's arguments to the server's."""

    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The model's name to the server's."""
    defaults: JSONObject = field(default_factory=lambda: EMPTY)
    """Sent unless the model sets them, by the server's name."""
    fixed: JSONObject = field(default_factory=lambda: EMPTY)
    """Always sent, regardless of the model's value."""
    hidden: frozenset[str] = frozenset()
    """Arguments that the model cannot set, by the server's name."""
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    """The server's own names and listed values, also inside arguments, by those that the model sees."""
    schema: JSONObject = field(default_factory=lambda: EMPTY)
    """The schema that declares the originals."""

    def to_server(self, arguments: JSONObject) -> dict[str, JSON]:
        given = {
            self.renamed.get(name, name): value
            for name, value in arguments.items()
            if name in self.renamed or name not in self.hidden
        }
        # Models send null for omitted arguments.
        absent = {name: value for name, value in self.defaults.items() if given.get(name) is None}
        mapped = {**given, **absent, **self.fixed}
        return with_restored_names(mapped, self.schema, self.originals) if self.originals else mapped
