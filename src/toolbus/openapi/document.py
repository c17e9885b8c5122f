"""An OpenAPI document: read from JSON or YAML, with its references followed and its mistakes located."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from toolbus.schema.values import JSON, Node, is_array, is_object

_MOST_VALUES = 4_000_000
"""Values of a document, with those that aliases of YAML stand for; GitHub's document has 700,000."""
_DEEPEST = 200
_MOST_HOPS = 20
"""References that lead to each other."""
_CONVERT = "convert it to OpenAPI 3 first: npx swagger2openapi FILE --outfile openapi.yaml"
MISSING: Final = object()


class DocumentError(Exception):
    """A document, or a part of it, cannot be used; the text says why and where."""

    def __init__(self, reason: str, place: tuple[str, ...] = ()) -> None:
        super().__init__(f"{reason} (at {shown_place(place)})" if place else reason)


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """A document of OpenAPI 3.0 or later."""

    root: Node
    is_30: bool
    """Whether its schemas are in the dialect of OpenAPI 3.0, not in JSON Schema 2020-12."""

    def target(self, reference: JSON, place: tuple[str, ...]) -> tuple[tuple[str, ...], JSON]:
        """The place and the value that a reference names; `DocumentError` if there is none."""
        if not isinstance(reference, str):
            raise DocumentError("$ref is not a text", place)
        if not reference.startswith("#/"):
            step = "bundle the document into one file, for example with npx @redocly/cli bundle"
            raise DocumentError(f"refers to another document, {reference[:200]!r}; {step}", place)
        steps = tuple(
            step.replace("~1", "/").replace("~0", "~") for step in unquote(reference[2:]).split("/")
        )
        value = self.at(steps)
        if value is MISSING:
            raise DocumentError(f"refers to {reference[:200]!r}, which does not exist", place)
        return steps, value

    def at(self, steps: tuple[str, ...]) -> JSON:
        """The value at a place, or `MISSING`."""
        value: JSON = self.root
        for step in steps:
            if is_object(value) and step in value:
                value = value[step]
            elif is_array(value) and step.isdecimal() and len(step) < 10 and int(step) < len(value):
                value = value[int(step)]
            else:
                return MISSING
        return value

    def object_at(self, value: JSON, place: tuple[str, ...]) -> tuple[tuple[str, ...], Node]:
        """An object of the document, with references followed; `DocumentError` if it is something else."""
        for _ in range(_MOST_HOPS):
            if not is_object(value):
                raise DocumentError("expected an object", place)
            if "$ref" not in value:
                return place, value
            place, value = self.target(value["$ref"], place)
        raise DocumentError("its references lead in a circle", place)


def read_document(content: bytes) -> ApiDocument:
    """Read a document; `DocumentError` says what is wrong with it, and where."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("is not UTF-8 text") from None
    try:
        root = _parsed(text)
    except RecursionError:
        raise DocumentError("is nested too deeply") from None
    if not is_object(root):
        start = text.lstrip()[:1]
        hint = ": it is a web page" if start == "<" else ""
        raise DocumentError(f"is not an OpenAPI document{hint}; expected an object with `openapi: 3...`")
    _check_size(root)
    version = str(root.get("openapi") or "")
    if "swagger" in root and not version:
        raise DocumentError(f"is Swagger {root['swagger']}, which is not supported; {_CONVERT}")
    if not version.startswith("3."):
        found = f"`openapi: {version[:20]}`" if version else "no `openapi: 3...`"
        raise DocumentError(f"is not an OpenAPI 3 document: it has {found}")
    if not is_object(root.get("paths", {})):
        raise DocumentError("expected an object", ("paths",))
    return ApiDocument(root, version.startswith("3.0"))


def shown_place(place: tuple[str, ...]) -> str:
    """A place as a JSON pointer."""
    return "#/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in place)


def _parsed(text: str) -> JSON:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):
                raise DocumentError("has a number that cannot be read") from None
            # Flow style in YAML begins with a brace, too.
            problem = DocumentError(f"is not valid JSON: line {error.lineno}: {error.msg}")
            if "\n" not in text or text.lstrip()[1:].lstrip()[:1] == '"':
                raise problem from None
    return _yaml(text)


def _refuse_constant(text: str) -> JSON:
    raise ValueError(text)


def _yaml(text: str) -> JSON:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise DocumentError(f"is not valid YAML: {where}{error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise DocumentError("is not valid YAML") from None


def _loader() -> Any:
    """A safe loader with the scalars of JSON only: `on` and `2020-01-01` are texts."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class JsonScalars(base):
        """Reads booleans, numbers and null as JSON has them."""

    kept = ("bool", "int", "float", "null", "merge")
    resolvers: dict[str, list[tuple[str, Any]]] = base.yaml_implicit_resolvers
    JsonScalars.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] in kept]
        for first, found in resolvers.items()
        if first not in "yYnNoO"
    }

    def mapping(loader: Any, node: Any) -> dict[str, JSON]:
        loader.flatten_mapping(node)
        # Keys are texts: `200:` is the status of a response.
        return {
            key.value if isinstance(key, yaml.ScalarNode) else str(loader.construct_object(key, deep=True)): (
                loader.construct_object(value, deep=True)
            )
            for key, value in node.value
        }

    JsonScalars.add_constructor("tag:yaml.org,2002:map", mapping)
    return JsonScalars


def _check_size(root: JSON) -> None:
    """`DocumentError` for a document that is too deep or too large, or that contains itself."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[JSON, int, bool]] = [(root, 0, False)]
    inside: set[int] = set()
    while waiting:
        value, depth, is_done = waiting.pop()
        if is_done:
            inside.discard(id(value))
            sizes[id(value)] = 1 + sum(sizes.get(id(one), 1) for one in _inner(value))
            if sizes[id(value)] > _MOST_VALUES:
                raise DocumentError(f"has more than {_MOST_VALUES:,} values")
            continue
        if id(value) in sizes:
            continue
        if depth > _DEEPEST or id(value) in inside:
            raise DocumentError("is nested too deeply")
        inside.add(id(value))
        waiting.append((value, depth, True))
        waiting += [(one, depth + 1, False) for one in _inner(value) if isinstance(one, dict | list)]


def _inner(value: JSON) -> Iterator[JSON]:
    if is_object(value):
        yield from value.values()
    elif is_array(value):
        yield from value
