"""The schemas of tools as OpenAPI has them: their definitions are components that all share."""

import re
from collections.abc import Mapping
from typing import cast

from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.keywords import REFERENCES, part_kind
from toolbus.schema.normalize import normalized
from toolbus.schema.references import MISSING, References
from toolbus.schema.values import Node, is_array, is_object

_OTHER_MEANING = ("discriminator", "xml", "externalDocs", "example")
"""Keywords that OpenAPI adds to schemas. The schema of a tool may use the same names for something else."""
_PLAIN = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
"""Keywords whose value may stay `true` or `false`; elsewhere many programs expect an object."""
_KEPT = ("type", "description")
"""The keywords that describe a definition inside itself."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
_DEEPEST = 60
"""Levels of a schema that are described; the rest may be anything."""


class Components:
    """The named schemas of a document."""

    def __init__(self, schemas: JSONObject) -> None:
        """`schemas` are there from the start."""
        self.schemas: dict[str, JSON] = dict(schemas)

    def of(self, schema: JSONObject, tool: str) -> JSONObject:
        """The schema of a tool as it stands in the document; its definitions become components.

        It has no title: programs name what they generate after the operation then.
        """
        return _untitled(_ToolSchema(self, schema, tool).converted(schema))


class _ToolSchema:
    """One schema that is being converted."""

    def __init__(self, components: Components, schema: JSONObject, tool: str) -> None:
        self._components = components
        self._references = References(schema)
        self._tool = tool
        self._names: dict[int, str] = {}
        """The names of the definitions that were found so far, by identity."""
        self._open = {id(schema)}
        """The definitions around the current one. Inside itself, a definition is only described in short:
        programs that insert definitions where they are used would never end."""

    def converted(self, node: JSONObject, depth: int = 0) -> Node:
        if depth > _DEEPEST:
            return {}
        found = normalized(node, _unnoted, "")
        for key in _OTHER_MEANING:
            found.pop(key, None)
        for key, value in tuple(found.items()):
            kind = part_kind(key, value)
            if kind == "many" and is_array(value):
                found[key] = [self._part(key, one, depth) for one in value]
            elif kind == "named" and is_object(value):
                found[key] = {name: self._part(key, one, depth) for name, one in value.items()}
            elif kind == "one":
                found[key] = self._part(key, value, depth)
        reference = next((node[key] for key in REFERENCES if isinstance(node.get(key), str)), None)
        target = MISSING if reference is None else self._references.target(reference)
        if is_object(target) and id(target) in self._open:
            found |= {key: value for key, value in normalized(target, _unnoted, "").items() if key in _KEPT}
        elif is_object(target):
            found["$ref"] = f"#/components/schemas/{self._named(target, str(reference))}"
        if "default" in found and not _fits(found["default"], found):
            del found["default"]
        return found

    def _part(self, key: str, part: JSON, depth: int) -> JSON:
        if is_object(part):
            return self.converted(part, depth + 1)
        if isinstance(part, bool):
            return part if key in _PLAIN else {} if part else {"not": {}}
        return {}

    def _named(self, target: Node, reference: str) -> str:
        """The name of a definition; it becomes a component when it is first met."""
        name = self._names.get(id(target))
        if name is None:
            schemas = self._components.schemas
            last = reference.rpartition("/")[2]
            wanted = name = _UNFIT.sub("_", f"{self._tool}.{last}")
            number = 1
            while name in schemas:
                number += 1
                name = f"{wanted}.{number}"
            self._names[id(target)] = name
            schemas[name] = {}  # the name is taken
            self._open.add(id(target))
            schemas[name] = _untitled(self.converted(target))
            self._open.discard(id(target))
        return name


def _untitled(schema: Node) -> Node:
    return {key: value for key, value in schema.items() if key != "title"}


def _fits(value: JSON, schema: Node) -> bool:
    """Whether a default is of the type that its schema has: judges of documents refuse another."""
    types = schema.get("type")
    names = cast("list[str]", types) if is_array(types) else [types] if isinstance(types, str) else []
    if "$ref" in schema or any(key in schema for key in ("anyOf", "oneOf", "allOf")):
        return value is not None or _allows_null(schema)
    if names and not any(_is_of(value, name) for name in names):
        return False
    values = schema.get("enum")
    return not is_array(values) or value in values


def _allows_null(schema: Node) -> bool:
    choices = [one for key in ("anyOf", "oneOf") for one in schema.get(key, ()) if is_object(one)]
    return any(
        "null" in (one.get("type"), *(one.get("enum") or ())) or one.get("const", 0) is None
        for one in choices
    )


def _is_of(value: JSON, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, ())) or (
        name == "integer" and isinstance(value, float) and value.is_integer()
    )


def _unnoted(*_: object) -> None:
    """Ignore a loss: it was noted when the catalog was made."""
