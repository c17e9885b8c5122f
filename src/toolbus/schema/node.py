"""The constraints of a schema at one place, with references followed and `allOf` merged.

This is advice for repairs, messages and input. It may be wrong where a schema is odd, so important decisions
also use the validator. Malformed parts are ignored, and so are parts that take too much work to read.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

from toolbus.schema.patterns import matches
from toolbus.schema.reader import Place, SchemaReader, TooMuchWork, Work
from toolbus.schema.references import References
from toolbus.schema.values import JSON, JSONObject, Node, entries_of, is_array, is_object, items_of, type_of

_DEEPEST_CHOICE = 4
"""The maximum depth of alternatives that are read: their number grows with every level."""
_MOST_CHOICES = 16
_OBJECT = {"properties", "required", "additionalProperties", "patternProperties"}
_ARRAY = {"items", "prefixItems"}


class Schema:
    """One schema of a document."""

    def __init__(self, schema: JSON, document: "JSON | _Document" = None) -> None:
        """Read a schema; without a document, the schema is the document."""
        root = schema if document is None else document
        self._document = root if isinstance(root, _Document) else _Document(root)
        self._document.known[_key(schema)] = self
        self._given = schema  # kept, so that no other object gets its id
        self.own: Node = self._document.read(schema)
        """The keywords that apply here."""

    def of(self, schema: JSON) -> "Schema":
        """Another schema of the same document; read once, and then shared."""
        return self._document.known.get(_key(schema)) or Schema(schema, self._document)

    @property
    def work(self) -> Work:
        """The steps that reading the document may still take."""
        return self._document.work

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The JSON types that are declared here; empty if only alternatives have types, or nothing has."""
        declared = self.own.get("type")
        if declared is None:
            return ("object",) if self.properties else ()
        return tuple(declared) if is_array(declared) else (declared,)

    @cached_property
    def likely_types(self) -> tuple[str, ...]:
        """The types that are declared, or else those that the values or other keywords imply."""
        if self.types or not self.values:
            implied = (("object", _OBJECT), ("array", _ARRAY))
            found = tuple(kind for kind, keys in implied if not keys.isdisjoint(self.own))
            return self.types or found[:1]
        return tuple(dict.fromkeys(map(type_of, self.values)))

    @property
    def values(self) -> list[JSON]:
        """The allowed values, if they are listed."""
        return [self.own["const"]] if "const" in self.own else self._listed("enum")

    @property
    def choices(self) -> list[JSON]:
        """The alternatives."""
        return [*self._listed("anyOf"), *self._listed("oneOf")]

    @property
    def properties(self) -> dict[str, JSON]:
        """The schemas of the known entries of an object."""
        return self._named("properties")

    @property
    def description(self) -> str:
        """The description, or an empty string."""
        return self.own.get("description", "")

    @property
    def fallbacks(self) -> list[JSON]:
        """The values to use if none is given: the default, and the only one allowed."""
        default = [self.own["default"]] if "default" in self.own else []
        return default + (self.values if len(self.values) == 1 else [])

    def alternatives(self, depth: int = 0) -> "Iterator[Schema]":
        """This schema, and all alternatives inside it."""
        yield self
        for choice in self.choices[:_MOST_CHOICES] if depth < _DEEPEST_CHOICE else ():
            if not self.work.allows(1):
                return
            yield from self.of(choice).alternatives(depth + 1)

    @cached_property
    def all_types(self) -> tuple[str, ...]:
        """The declared types of all alternatives; empty if any type is allowed."""
        return tuple(dict.fromkeys(kind for each in self.alternatives() for kind in each.types))

    @property
    def all_values(self) -> list[JSON]:
        """The allowed values of all alternatives; empty if they are not listed."""
        return self.values or [value for each in self.alternatives() for value in each.values]

    @property
    def items(self) -> "Schema":
        """The schema of a list's items, of any alternative."""
        return self.of(next((each.own["items"] for each in self.alternatives() if "items" in each.own), True))

    def required(self, value: Mapping[str, JSON]) -> list[str]:
        """The names that an object must have; some depend on those that it has."""
        names = self._listed("required")
        for name, others in self._named("dependentRequired").items():
            names += others if name in value else []
        return list(dict.fromkeys(names))

    def child(self, name: str) -> JSON:
        """The schema of an object's entry: `True` if it is unknown, `False` if it is forbidden."""
        if name in self.properties:
            return self.properties[name]
        for pattern, schema in self._named("patternProperties").items():
            if matches(pattern, name):
                return schema
        return self.own.get("additionalProperties", True)

    def find(self, name: str) -> "Schema | None":
        """The schema of an object's entry in any alternative; None if there cannot be one."""
        objects = list(self.alternatives())
        for each in objects:
            if name in each.properties:
                return self.of(each.properties[name])
        if self.all_types and "object" not in self.all_types:
            return None
        extra = self.own.get("additionalProperties")
        is_open = extra is True or is_object(extra) or not any("properties" in each.own for each in objects)
        return self.of(extra if is_object(extra) else True) if is_open else None

    def item(self, index: int) -> JSON:
        """The schema of a list's item: `True` if any value is allowed."""
        first = self._listed("prefixItems")
        return first[index] if index < len(first) else self.own.get("items", True)

    def _listed(self, key: str) -> list[JSON]:
        return items_of(self.own.get(key))

    def _named(self, key: str) -> dict[str, JSON]:
        return entries_of(self.own.get(key))


class _Document:
    """The references of a document, its schemas that have been read, and the work that is left."""

    def __init__(self, root: JSON) -> None:
        self.references = References(root)
        self.work = Work(root)
        self.known: dict[int | str, Schema] = {}

    def read(self, schema: JSON) -> Node:
        try:
            return SchemaReader(self.references, self.work).node(schema, Place())[0]
        except TooMuchWork:
            return {}


def _key(schema: JSON) -> int | str:
    """The identity of a schema in its document; those that only refer to the same one are the same."""
    if is_object(schema) and len(schema) == 1 and isinstance(reference := schema.get("$ref"), str):
        return reference
    return id(schema)


def declared(schema: JSONObject) -> tuple[JSONObject, Sequence[JSON]]:
    """The `properties` and `required` of an input schema; malformed ones are left out."""
    properties: JSON = schema.get("properties")
    required: JSON = schema.get("required")
    return (
        cast("JSONObject", properties) if isinstance(properties, Mapping) else {},
        cast("Sequence[JSON]", required) if isinstance(required, list | tuple) else (),
    )
