"""Just enough JSON Schema to read what a person types, and to say in words what is expected.

A server may send any schema: what makes no sense counts as not said.
"""

import json
from collections.abc import Sequence

from toolbus.config.location import is_list, is_mapping
from toolbus.core.records import JSON, JSONObject

_DEEPEST = 32
"""How many references in a row are followed, and how deep lists are described."""
_CHOICES = 4
"""How deep alternatives in one another are looked at: their number grows with every step."""


class Schema:
    """A schema in its document, so that references can be followed."""

    def __init__(self, own: JSON, document: JSONObject, depth: int = 0, choices: int = 0) -> None:
        self._document = document
        self._depth = depth
        self._nested = choices
        self.own: JSONObject = self._followed(own)

    @property
    def properties(self) -> "dict[str, Schema]":
        """What an object may hold."""
        found = self.own.get("properties")
        return {str(name): self._inner(own) for name, own in found.items()} if is_mapping(found) else {}

    @property
    def required(self) -> Sequence[str]:
        """What an object must hold."""
        return [name for name in self._listed("required") if isinstance(name, str)]

    @property
    def items(self) -> "Schema":
        """What a list holds, also one that is an alternative."""
        lists = (shape.own["items"] for shape in (self, *self.choices) if "items" in shape.own)
        return self._inner(next(lists, None))

    @property
    def choices(self) -> "list[Schema]":
        """The alternatives."""
        if self._nested >= _CHOICES:
            return []
        found = [own for key in ("anyOf", "oneOf") for own in self._listed(key)]
        return [Schema(own, self._document, self._depth, self._nested + 1) for own in found]

    @property
    def types(self) -> tuple[str, ...]:
        """The types that are allowed, of all alternatives; none if anything is."""
        said = self.own.get("type")
        own = [kind for kind in (said if is_list(said) else [said]) if isinstance(kind, str)]
        if not own and self.properties:
            own = ["object"]
        return tuple(dict.fromkeys([*own, *(kind for choice in self.choices for kind in choice.types)]))

    @property
    def enum(self) -> list[JSON]:
        """The values that are allowed, of all alternatives; none if there is no such list."""
        own = [self.own["const"]] if "const" in self.own else self._listed("enum")
        return own or [value for choice in self.choices for value in choice.enum]

    @property
    def description(self) -> str:
        """What it is for."""
        said = self.own.get("description")
        return said if isinstance(said, str) else ""

    @property
    def words(self) -> str:
        """The type for people: `integer`, `list of string`, `a, b or c`."""
        if self.enum:
            return either([value if isinstance(value, str) else json.dumps(value) for value in self.enum])
        kinds = [kind for kind in self.types if kind != "null"]
        if "array" in kinds and self._depth <= _DEEPEST and self.items.types:
            kinds[kinds.index("array")] = f"list of {self.items.words}"
        return either(kinds) or "any"

    def child(self, name: str) -> "Schema | None":
        """The schema of a property, of any alternative; None if the object has no such property."""
        shapes = [self, *self.choices]
        for shape in shapes:
            if name in shape.properties:
                return shape.properties[name]
        extra = self.own.get("additionalProperties")
        if self.types and "object" not in self.types:
            return None
        is_open = is_mapping(extra) or extra is True or not any("properties" in shape.own for shape in shapes)
        return self._inner(extra) if is_open else None

    def _inner(self, own: JSON) -> "Schema":
        return Schema(own, self._document, self._depth + 1)

    def _listed(self, key: str) -> list[JSON]:
        found = self.own.get(key)
        return list(found) if is_list(found) else []

    def _followed(self, own: JSON) -> JSONObject:
        for _ in range(_DEEPEST):
            if not is_mapping(own):
                break
            reference = own.get("$ref")
            if not isinstance(reference, str):
                return own
            target = self._at(reference)
            beside = {key: value for key, value in own.items() if key != "$ref"}
            own = {**target, **beside} if is_mapping(target) else beside
        return {}

    def _at(self, reference: str) -> JSON:
        """What a reference into the document points to; nothing is ever fetched."""
        value: JSON = self._document if reference.startswith("#") else None
        for step in filter(None, reference.removeprefix("#").split("/")):
            value = value.get(step.replace("~1", "/").replace("~0", "~")) if is_mapping(value) else None
        return value


def either(words: Sequence[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
