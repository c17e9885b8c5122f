"""Trim a schema without changing what it accepts or tells.

It removes unused definitions and leftovers of generators. These are titles that repeat the name of their
property, empty texts, indentation, comments, defaults that say "not given", and keywords without effect. A
validator accepts the same values as before.
"""

import json
import re
from collections.abc import Iterable
from inspect import cleandoc
from typing import cast
from urllib.parse import unquote

from toolbus.core.values.records import ToolSpec
from toolbus.schema.keywords import DEEPEST, REFERENCES, part_kind, subschemas, words
from toolbus.schema.values import JSON, JSONObject, Node, is_object
from toolbus.shape.budget import fitted

_DRAFT = re.compile(r"https?://json-schema\.org/(draft/2020-12|draft-07)/schema#?")
_OTHER_IN_DRAFT_7 = words(
    "additionalItems dependencies prefixItems dependentSchemas dependentRequired unevaluatedItems "
    "unevaluatedProperties minContains maxContains $dynamicRef $recursiveRef $anchor $dynamicAnchor"
)
_NAMES = frozenset(["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"])
_DEFINITIONS = ("$defs", "definitions")
_ROOT_TITLE = re.compile(r"(?i)(arguments|args|inputs?|params|parameters|schema)$")
MOST_SCHEMA = 16_000
"""Characters of a schema in an error."""
_NO_LETTER = re.compile(r"[\W_]+")


def trimmed_schema(schema: JSONObject, *, keep_open: bool = False) -> JSONObject:
    """The schema, trimmed; the same object if there is nothing to trim.

    With `keep_open`, `additionalProperties: true` stays: some dialects close objects that do not say it.
    """
    nodes = [node for _, node in subschemas(schema)]
    if any(not _NAMES.isdisjoint(_strings(node)) for node in nodes):
        return schema  # somebody may refer to any of it by name
    trimming = _SchemaTrimmer(schema, nodes, keep_open=keep_open)
    lean = cast("JSONObject", trimming.node(schema, None, 0))
    return lean if trimming.changed else schema


def described_schema(spec: ToolSpec) -> str:
    """A sentence for a model with the schema of a tool, shortened if it is very long."""
    schema = json.dumps(trimmed_schema(spec.input_schema), ensure_ascii=False, separators=(",", ":"))
    return f"\n\nThe input_schema of {spec.name!r}: {fitted(schema, MOST_SCHEMA, None)}"


class _SchemaTrimmer:
    """The trimming of one schema."""

    def __init__(self, schema: JSONObject, nodes: list[dict[str, JSON]], *, keep_open: bool) -> None:
        self.changed = False
        keys = {key for node in nodes for key in node}
        is_evaluated = not keys.isdisjoint(("unevaluatedProperties", "unevaluatedItems"))
        self._keeps_open = keep_open or is_evaluated
        self._kept = _reached(schema, nodes)
        draft: JSON = schema.get("$schema")
        found = _DRAFT.fullmatch(draft) if isinstance(draft, str) else None
        is_like_newest = keys.isdisjoint(_OTHER_IN_DRAFT_7) and not any(map(_differs_in_draft_7, nodes))
        self._drops_draft = found is not None and (found[1] == "draft/2020-12" or is_like_newest)

    def node(self, node: JSON, name: str | None, depth: int) -> JSON:
        """A schema, which is the property of that name; the root has none, nor have other parts."""
        if not is_object(node) or depth > DEEPEST:
            return node
        result: dict[str, JSON] = {}
        for key, value in node.items():
            if self._is_useless(key, value, node, name, depth):
                self.changed = True
            else:
                result[key] = self._keyword(key, value, depth)
        if isinstance(text := result.get("description"), str) and (lean := trimmed_text(text)) != text:
            result["description"], self.changed = lean, True
        return result

    def _keyword(self, key: str, value: JSON, depth: int) -> JSON:
        match part_kind(key, value):
            case "one":
                return self.node(value, None, depth + 1)
            case "many":
                return [self.node(inner, None, depth + 1) for inner in value]
            case "named":
                return self._named(key, value, depth)
            case _:
                return value

    def _named(self, key: str, value: Node, depth: int) -> JSON:
        kept = self._kept if depth == 0 and key in _DEFINITIONS else None
        inner = {
            name: self.node(one, name, depth + 1)
            for name, one in value.items()
            if kept is None or (key, name) in kept
        }
        self.changed = self.changed or len(inner) < len(value)
        return inner

    def _is_useless(self, key: str, value: JSON, node: Node, name: str | None, depth: int) -> bool:
        match key:
            case "$schema":
                return depth == 0 and self._drops_draft
            case "$comment":
                return isinstance(value, str)
            case "title":
                return isinstance(value, str) and _says_nothing(value, name, depth)
            case "description":
                return isinstance(value, str) and not value.strip()
            case "default":
                return value is None
            case "required":
                return value == []
            case "additionalProperties":
                return depth > 0 and not self._keeps_open and (value is True or value == {})
            case "$defs" | "definitions":
                kept = self._kept
                return depth == 0 and kept is not None and not any(part == key for part, _ in kept)
            case _:
                return False


def _says_nothing(title: str, name: str | None, depth: int) -> bool:
    plain = _key(title)
    if depth == 0:
        # Generators call it after the function: `create_issueArguments`.
        return not plain or bool(_ROOT_TITLE.search(title))
    return not plain or (name is not None and plain == _key(name))


def _key(text: str) -> str:
    return _NO_LETTER.sub("", text.casefold())


def _strings(node: Node) -> Iterable[str]:
    """The keys of a node that hold texts: `id` may also be the name of a property."""
    return [key for key, value in node.items() if isinstance(value, str)]


def _differs_in_draft_7(node: Node) -> bool:
    # There, what stands beside a reference has no effect.
    return isinstance(node.get("items"), list) or ("$ref" in node and len(node) > 1)


def _reached(schema: JSONObject, nodes: list[dict[str, JSON]]) -> set[tuple[str, str]] | None:
    """The definitions of the root that references reach; None if that is not certain."""
    whole = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    waiting: list[JSON] = [whole]
    reached: set[tuple[str, str]] = set()
    if any(key in node for node in nodes for key in REFERENCES[1:]):
        return None
    while waiting:
        for _, node in subschemas(waiting.pop()):
            if "$ref" not in node:
                continue
            place = _place(node["$ref"])
            if place is None:
                return None
            key, name = place
            if place in reached or key not in _DEFINITIONS:
                continue
            reached.add(place)
            group: JSON = schema.get(key)
            waiting.append(group.get(name) if is_object(group) else None)
    return reached


def _place(reference: JSON) -> tuple[str, str] | None:
    """The first two steps of a reference within the document; None if it is another one, or the root."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return ("", "") if reference == "#" else None
    first, _, rest = unquote(reference[2:]).partition("/")
    return first, rest.partition("/")[0].replace("~1", "/").replace("~0", "~")


_LINE_END = re.compile(r"[ \t\r]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_RULER = re.compile(r"^([-=*_#~])\1{3,}$", re.MULTILINE)


def trimmed_text(text: str) -> str:
    """The text, trimmed; lines keep their indentation relative to each other."""
    # Again if that helped: what follows a blank first line is then a first line itself.
    while (short := _trimmed_once(text)) != text:
        text = short
    return text


def _trimmed_once(text: str) -> str:
    if "\n" not in text:
        return text.strip(" \t\r")
    # Tabs stay: they may be meant, as in an example of a Makefile.
    lines = _LINE_END.sub("", cleandoc(text) if "\t" not in text else text.strip("\n"))
    return _RULER.sub(r"\1\1\1", _BLANK_LINES.sub("\n\n", lines)).strip(" \r\n")
