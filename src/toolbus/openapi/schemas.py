"""Schemas of a document as self-contained JSON Schema 2020-12, with their references in `$defs`.

Schemas may refer to each other in circles, and a small tool may reach the whole document. So each definition
is written once. If they are too large together, the deepest levels keep only their type and description.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from toolbus.openapi.document import ApiDocument
from toolbus.schema.keywords import CHECKS, SCHEMA_KEYWORDS, part_kind
from toolbus.schema.normalize import normalized
from toolbus.schema.values import JSON, JSONObject, Node, entries_of, is_array, is_object, items_of

Use: TypeAlias = Literal["request", "response"]
Steps: TypeAlias = tuple[str, ...]
_UNUSED: Mapping[str, str] = {"request": "readOnly", "response": "writeOnly"}
"""The keyword of properties that do not belong there."""
_DROPPED = frozenset(
    ("discriminator", "xml", "externalDocs", "example", "$comment", "$id", "$anchor", "$schema")
)
_LEVELS = (None, 12, 8, 6, 5, 4, 3, 2, 1)
"""The levels that are tried in turn; None for all of them."""
_LONGEST = 500
"""Characters of the description of a property."""
_DEEPEST = 100
_MOST_MERGED = 1_000
"""Schemas with `allOf` in one body; each may name the next one many times."""


class _TooLarge(Exception):
    """The schemas have more values than they may."""


def self_contained(document: ApiDocument, schema: Node, at: Steps, use: Use, most: int) -> Node:
    """A schema with everything it refers to, in at most `most` values."""
    for levels in _LEVELS:
        writer = _Writer(document, use, most, levels)
        try:
            written = writer.written(schema, at, 0)
            defined = writer.definitions()
        except _TooLarge:
            continue
        return {**written, **({"$defs": defined} if defined else {})}
    return {key: schema[key] for key in ("type", "description") if key in schema}


def resolved(document: ApiDocument, schema: JSON, at: Steps) -> tuple[Steps, Node]:
    """A schema with its own references followed, and what stands beside them added."""
    if not is_object(schema):
        return at, {}
    beside = {key: value for key, value in schema.items() if key in ("description", "nullable", "default")}
    place, found = document.object_at(schema, at) if "$ref" in schema else (at, schema)
    return place, {**found, **beside} if found is not schema else found


def merged(
    document: ApiDocument, schema: JSON, at: Steps, depth: int = 0, left: Iterator[int] | None = None
) -> tuple[Steps, Node]:
    """The same with `allOf` of plain objects merged into one; unchanged if that is not possible."""
    left = iter(range(_MOST_MERGED)) if left is None else left
    place, node = resolved(document, schema, at)
    members = items_of(node.get("allOf"))
    if not members or depth > 10 or next(left, None) is None:
        return place, node
    whole = {key: value for key, value in node.items() if key != "allOf"}
    properties, required = {**entries_of(whole.get("properties"))}, items_of(whole.get("required"))
    origins = dict.fromkeys(properties, (*place, "properties"))
    for index, member in enumerate(members):
        inner_at, inner = merged(document, member, (*place, "allOf", str(index)), depth + 1, left)
        own = {**entries_of(inner.get("properties"))}
        plain = inner.keys() <= {
            "type",
            "properties",
            "required",
            "title",
            "description",
            "example",
            "examples",
        }
        clash = any(name in properties and properties[name] != value for name, value in own.items())
        if not plain or inner.get("type", "object") != "object" or clash:
            return place, node
        properties |= own
        origins |= dict.fromkeys(own, (*inner_at, "properties"))
        required += items_of(inner.get("required"))
    names = list(dict.fromkeys(name for name in required if isinstance(name, str)))
    return place, {
        **whole,
        "type": "object",
        "properties": properties,
        **({"required": names} if names else {}),
    }


class _Writer:
    """Writes schemas, and the definitions that they need."""

    def __init__(self, document: ApiDocument, use: Use, most: int, levels: int | None) -> None:
        self._document, self._use, self._levels = document, use, levels
        self._left = most
        self._names: dict[Steps, str] = {}
        self._waiting: list[tuple[str, JSON, Steps, int]] = []

    def definitions(self) -> Node:
        """Every definition that the written schemas refer to."""
        found: Node = {}
        for name, schema, at, level in self._waiting:  # which grows
            found[name] = self.written(schema, at, level)
        return found

    def written(self, schema: JSON, at: Steps, level: int) -> JSON:
        """A schema in JSON Schema 2020-12."""
        if not is_object(schema):
            return schema if isinstance(schema, bool) else {}
        if "$ref" in schema:
            return self._reference(schema, at, level)
        node = {key: value for key, value in schema.items() if key not in _DROPPED and key[:2] != "x-"}
        if "example" in schema and "examples" not in node:
            node["examples"] = [schema["example"]]
        is_nullable = node.pop("nullable", False) is True
        node = normalized(node, _ignore, "")
        self._without_unused(node, at)
        _shorten(node)
        self._spend(node)
        is_cut = level >= _DEEPEST or (self._levels is not None and level >= self._levels)
        for key in [key for key in node if key in SCHEMA_KEYWORDS]:
            if is_cut:
                del node[key]
                node.pop("required", None)
            else:
                node[key] = self._parts(key, node[key], (*at, key), level + 1)
        _mark_base64(node)
        return _or_null(node) if is_nullable else node

    def _parts(self, key: str, value: JSON, at: Steps, level: int) -> JSON:
        match part_kind(key, value):
            case "many":
                return [self.written(one, (*at, str(index)), level) for index, one in enumerate(value)]
            case "named":
                return {name: self.written(one, (*at, name), level) for name, one in value.items()}
            case _:
                return self.written(value, at, level)

    def _reference(self, schema: Node, at: Steps, level: int) -> Node:
        place, target = self._document.target(schema["$ref"], at)
        beside: Node = {key: schema[key] for key in ("description", "default", "deprecated") if key in schema}
        _shorten(beside)
        if self._levels is not None and level >= self._levels:
            _, found = resolved(self._document, target, place)
            kind = found.get("type")
            return {**({"type": kind} if CHECKS["type"](kind) else {}), **beside}
        if place not in self._names:
            self._names[place] = self._new_name(place[-1])
            self._waiting.append((self._names[place], target, place, level))
        self._spend(beside)
        written: Node = {"$ref": f"#/$defs/{self._names[place]}", **beside}
        return _or_null(written) if schema.get("nullable") is True else written

    def _new_name(self, wanted: str) -> str:
        name = plain = re.sub(r"[^A-Za-z0-9_.-]", "_", wanted)[:100] or "schema"
        number = 1
        taken = set(self._names.values())
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        return name

    def _without_unused(self, node: Node, at: Steps) -> None:
        properties, word = node.get("properties"), _UNUSED[self._use]
        if not is_object(properties):
            return
        unused = {
            name
            for name, value in properties.items()
            if is_object(value) and value.get(word) is True and "$ref" not in value
        }
        if unused:
            node["properties"] = {name: value for name, value in properties.items() if name not in unused}
            if is_array(required := node.get("required")):
                node["required"] = [name for name in required if name not in unused]

    def _spend(self, node: Mapping[str, JSON]) -> None:
        """Count the values of a node; `_TooLarge` if there are too many."""
        inner = sum(len(one) for one in node.values() if is_object(one) or is_array(one))
        self._left -= 1 + len(node) + inner
        if self._left < 0 and self._levels != _LEVELS[-1]:
            raise _TooLarge


def _ignore(kind: str, path: str, note: str) -> None:
    """Nobody is told about a mistake in a schema that could be repaired."""


def _shorten(node: Node) -> None:
    text = node.get("description")
    if isinstance(text, str):
        node["description"] = shortened_text(text, _LONGEST)


def shortened_text(text: str, longest: int) -> str:
    """A text of limited length, cut between words."""
    text = text.strip()
    if len(text) <= longest:
        return text
    return f"{text[: longest - 1].rpartition(' ')[0] or text[: longest - 1]}…"


def _mark_base64(node: Node) -> None:
    if node.get("format") == "byte" and "contentEncoding" not in node:
        node["contentEncoding"] = "base64"


def _or_null(node: Node) -> Node:
    """The schema, or null: `nullable` of OpenAPI 3.0."""
    kind = node.get("type")
    if kind is None:
        is_choice = not node.keys().isdisjoint(("$ref", "allOf", "anyOf", "oneOf", "enum", "const"))
        return {"anyOf": [node, {"type": "null"}]} if is_choice else node
    kinds = items_of(kind) if is_array(kind) else [kind]
    found: Node = {**node, "type": kinds if "null" in kinds else [*kinds, "null"]}
    if is_array(enum := found.get("enum")) and None not in enum:
        found["enum"] = [*enum, None]
    return found


def type_of_schema(schema: JSONObject) -> str | None:
    """The one type of a schema, if it names one."""
    kind = schema.get("type")
    return kind if isinstance(kind, str) else None
