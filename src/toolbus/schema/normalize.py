"""Rewrite one schema node of any draft, however sloppy, as well-formed draft 2020-12.

Only the node's own keywords: references and subschemas are left as they are.
"""

import json
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from toolbus.schema.keywords import CHECKS, IDENTITY, REFERENCES, TYPES, is_json, is_pattern, quoted, words
from toolbus.schema.values import JSON, Node, is_array, is_object

LossKind: TypeAlias = Literal["lossless", "widened", "permissive"]
Note: TypeAlias = Callable[[LossKind, str, str], None]
"""Receives each change: the kind of loss, the place, and a description."""

# Types as other languages spell them, all seen in published servers.
_ALIASES = {
    **dict.fromkeys(["str", "text", "char", "uuid", "date", "datetime"], "string"),
    **dict.fromkeys(["int", "long", "int32", "int64"], "integer"),
    **dict.fromkeys(["float", "double", "decimal"], "number"),
    "bool": "boolean",
    **dict.fromkeys(["dict", "map", "record", "struct"], "object"),
    **dict.fromkeys(["list", "tuple", "set"], "array"),
    **dict.fromkeys(["none", "nil", "nonetype"], "null"),
}


_LEGACY = frozenset(["nullable", "dependencies", "additionalItems"])
_COUNTED = words("minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains")


def normalized(schema: Mapping[str, JSON], note: Note, path: str) -> Node:
    """The node's keywords, each well-formed, as of draft 2020-12."""
    node = {key: value for key, value in schema.items() if key not in IDENTITY and key not in REFERENCES}
    _required(node, note, path)
    if not _malformed(node) and _LEGACY.isdisjoint(node) and node.get("items") is not False:
        return node
    for repair in _REPAIRS:
        repair(node, note, path)
    for key in _malformed(node):
        del node[key]
        note("widened", f"{path}/{key}", f"`{key}` is malformed and was left out")
    return node


def _malformed(node: Node) -> list[str]:
    return [key for key, value in node.items() if not CHECKS.get(key, is_json)(value)]


def _type(node: Node, note: Note, path: str) -> None:
    if "type" not in node or CHECKS["type"](node["type"]):
        return
    given = node.pop("type")
    names = [str(name).lower() for name in (given if is_array(given) else [given])]
    types = list(dict.fromkeys(_ALIASES.get(name, name) for name in names))
    if types and all(name in TYPES for name in types):
        node["type"] = types[0] if len(types) == 1 else types
        note("lossless", f"{path}/type", f"`type` was {given!r}, treated as {node['type']!r}")
    elif names == ["any"]:
        note("lossless", f"{path}/type", "`type` was 'any', which is not a type: left out")
    else:
        note("widened", f"{path}/type", f"`type` was {given!r}, which is not a type: left out")


def _exclusive_bounds(node: Node, note: Note, path: str) -> None:
    """Draft 4: `exclusiveMinimum: true` beside a `minimum`."""
    for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(key), bool):
            if node.pop(key) and bound in node:
                node[key] = node.pop(bound)
            note("lossless", f"{path}/{key}", f"`{key}` of draft 4 was rewritten")


def _tuples(node: Node, note: Note, path: str) -> None:
    """Drafts before 2020-12: `items` as a list, and `additionalItems` for the rest."""
    rest = node.pop("additionalItems", None)
    if is_array(node.get("items")):
        positions = node.pop("items")
        if positions:
            node["prefixItems"] = positions
        if isinstance(rest, dict | bool):
            node["items"] = rest
        note("lossless", f"{path}/items", "`items` as a list was rewritten as `prefixItems`")
    elif rest is not None:
        note("lossless", f"{path}/additionalItems", "`additionalItems` without a list has no effect")
    if node.get("items") is False:
        del node["items"]
        length = len(node.get("prefixItems", ()))
        given: JSON = node.get("maxItems", length)
        node["maxItems"] = min(length, given) if CHECKS["maxItems"](given) else length
        note("lossless", f"{path}/items", "`items: false` was rewritten as `maxItems`")


def _dependencies(node: Node, note: Note, path: str) -> None:
    """Draft 7: one keyword that has become two."""
    given = node.pop("dependencies", None)
    if given is None:
        return
    note("lossless", f"{path}/dependencies", "`dependencies` of draft 7 was rewritten")
    for name, value in given.items() if is_object(given) else ():
        key = "dependentRequired" if is_array(value) else "dependentSchemas"
        if isinstance(node.setdefault(key, {}), dict):
            node[key] = {name: value, **node[key]}


def _nullable(node: Node, note: Note, path: str) -> None:
    """OpenAPI 3.0: `nullable: true` beside a type."""
    if "nullable" not in node:
        return
    types = node.get("type")
    if node.pop("nullable") is True and types is not None:
        names = types if is_array(types) else [types]
        node["type"] = names if "null" in names else [*names, "null"]
    note("lossless", f"{path}/nullable", "`nullable` of OpenAPI was rewritten as a type")


def _enum(node: Node, note: Note, path: str) -> None:
    values = node.get("enum")
    if is_array(values) and values and not CHECKS["enum"](values) and is_json(values):
        node["enum"] = list({json.dumps(value, sort_keys=True): value for value in values}.values())
        note("lossless", f"{path}/enum", "`enum` listed a value twice")


def _required(node: Node, note: Note, path: str) -> None:
    """Draft 3: `required: true` on the property; moved to the object."""
    own = node.get("required")
    if isinstance(own, bool):
        del node["required"]
    elif own is not None and is_array(own) and not CHECKS["required"](own):
        names = [name for name in own if isinstance(name, str)]
        node["required"] = list(dict.fromkeys(names))
        kind = "lossless" if len(names) == len(own) else "widened"
        note(kind, f"{path}/required", "`required` listed a name twice, or something that is not a name")
    properties = node.get("properties")
    if not is_object(properties):
        return
    marked = [n for n, inner in properties.items() if is_object(inner) and inner.get("required") is True]
    if marked:
        listed: JSON = node.get("required", [])
        node["required"] = list(dict.fromkeys([*(listed if CHECKS["required"](listed) else ()), *marked]))
        note("lossless", f"{path}/required", "`required` of draft 3 was moved to the object")


def _counts(node: Node, note: Note, path: str) -> None:
    """JSON Schema accepts `2.0` as an integer, but not every provider does."""
    for key in _COUNTED:
        value = node.get(key)
        if isinstance(value, float) and value.is_integer():
            node[key] = int(value)
            note("lossless", f"{path}/{key}", f"`{key}` was {value}")


def _patterns(node: Node, note: Note, path: str) -> None:
    """Move a pattern that cannot be compiled to the description, where the model can read it."""
    pattern = node.get("pattern")
    if isinstance(pattern, str) and not is_pattern(pattern):
        del node["pattern"]
        text, words = node.get("description"), f"(pattern: {quoted(pattern)})"
        node["description"] = f"{text} {words}" if isinstance(text, str) else words
        note("widened", f"{path}/pattern", "`pattern` is not portable; it is in the description")


_REPAIRS: tuple[Callable[[Node, Note, str], None], ...] = (
    _type,
    _exclusive_bounds,
    _tuples,
    _dependencies,
    _nullable,
    _enum,
    _counts,
    _patterns,
)
