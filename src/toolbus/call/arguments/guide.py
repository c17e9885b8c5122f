"""Read a schema as advice: what is expected at a place, references followed and `allOf` merged.

Advice may be wrong where a schema is odd: whatever it leads to is judged by the schema itself.
"""

import re
from collections.abc import Iterator
from functools import cached_property

from toolbus.call.arguments.document import at
from toolbus.call.arguments.values import entries_of, is_array, is_object, items_of, kind_of
from toolbus.core.records import JSON

_DEEPEST = 16
_DEEPEST_CHOICE = 3
_OBJECT = {"properties", "required", "additionalProperties", "patternProperties"}
_ARRAY = {"items", "prefixItems"}
_ANNOTATIONS = {"title", "description", "default", "examples"}


class Guide:
    """One schema of a document."""

    def __init__(self, schema: JSON, document: JSON) -> None:
        self._document = document
        self.own: dict[str, JSON] = _merged(schema, document, set(), 0)

    def of(self, schema: JSON) -> "Guide":
        """The advice of another schema of the document."""
        return Guide(schema, self._document)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The JSON types that are allowed here; none if nothing is said, or only by alternatives."""
        said = self.own.get("type")
        if said is not None:
            return tuple(kind for kind in (said if is_array(said) else [said]) if isinstance(kind, str))
        if self.values:
            return tuple(dict.fromkeys(kind_of(value) for value in self.values))
        if not _OBJECT.isdisjoint(self.own):
            return ("object",)
        return ("array",) if not _ARRAY.isdisjoint(self.own) else ()

    @property
    def values(self) -> list[JSON]:
        """The values that are allowed, if they are listed."""
        return [self.own["const"]] if "const" in self.own else self._listed("enum")

    @property
    def choices(self) -> list[JSON]:
        """The alternatives."""
        return [*self._listed("anyOf"), *self._listed("oneOf")]

    @property
    def properties(self) -> dict[str, JSON]:
        """What an object may hold."""
        return self._named("properties")

    @property
    def filling(self) -> list[JSON]:
        """What may stand in for a value that is missing: the default, or the only one allowed."""
        default = [self.own["default"]] if "default" in self.own else []
        return default + (self.values if len(self.values) == 1 else [])

    def all_kinds(self, depth: int = 0) -> set[str]:
        """The types that are allowed, of all alternatives."""
        choices = self.choices[:_DEEPEST] if depth < _DEEPEST_CHOICE else []
        return set(self.kinds).union(*(self.of(choice).all_kinds(depth + 1) for choice in choices))

    def needed(self, value: dict[str, JSON]) -> list[str]:
        """What an object must hold; some of it because of what it holds."""
        wanted = self._listed("required")
        for key in ("dependentRequired", "dependencies"):
            for name, names in self._named(key).items():
                wanted += names if name in value and is_array(names) else []
        return list(dict.fromkeys(name for name in wanted if isinstance(name, str)))

    def child(self, name: str) -> JSON:
        """The schema of an object's entry: `True` if anything goes, `False` if it must not be there."""
        if name in self.properties:
            return self.properties[name]
        for pattern, schema in self._named("patternProperties").items():
            try:
                if re.search(pattern, name):
                    return schema
            except re.error:
                continue
        return self.own.get("additionalProperties", True)

    def item(self, index: int) -> JSON:
        """The schema of a list's item: `True` if anything goes."""
        items = self.own.get("items", True)
        first = items if is_array(items) else self._listed("prefixItems")
        if index < len(first):
            return first[index]
        return self.own.get("additionalItems", True) if is_array(items) else items

    def _listed(self, key: str) -> list[JSON]:
        return items_of(self.own.get(key))

    def _named(self, key: str) -> dict[str, JSON]:
        return entries_of(self.own.get(key))


def _merged(schema: JSON, document: JSON, followed: set[str], depth: int) -> dict[str, JSON]:
    if not is_object(schema) or depth > _DEEPEST:
        return {}
    own = dict(schema)
    for part in list(_parts(own, document, followed)):
        _join(own, _merged(part, document, followed, depth + 1))
    return own


def _parts(own: dict[str, JSON], document: JSON, followed: set[str]) -> Iterator[JSON]:
    """What has to hold as well, taken out of the schema."""
    reference = own.pop("$ref", None)
    # Each only once: references may run in circles.
    if isinstance(reference, str) and reference not in followed:
        followed.add(reference)
        if "/draft-0" in str(document.get("$schema")):
            # Until draft 7, what stands beside a reference does not count.
            for key in own.keys() - _ANNOTATIONS:
                del own[key]
        yield from at(reference, document)
    yield from items_of(own.pop("allOf", None))


def _join(own: dict[str, JSON], part: dict[str, JSON]) -> None:
    for key, value in part.items():
        mine = own.get(key)
        if key == "properties" and is_object(mine) and is_object(value):
            both = {name: {"allOf": [mine[name], value[name]]} for name in mine.keys() & value.keys()}
            own[key] = {**mine, **value, **both}
        elif key == "required" and is_array(mine) and is_array(value):
            own[key] = [*mine, *value]
        else:
            own.setdefault(key, value)
