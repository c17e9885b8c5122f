"""Validate values, in bounded time: what would take too long is not checked.

Nor is a pattern that the validator cannot compile. `format` and `contentEncoding` are annotations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from toolbus.schema.bounds import Bounds
from toolbus.schema.keywords import REFERENCES, subschemas
from toolbus.schema.patterns import MOST_STATES, state_count, usable
from toolbus.schema.references import References
from toolbus.schema.rust import compiled, package
from toolbus.schema.values import (
    JSON,
    Node,
    entries_of,
    is_array,
    is_larger,
    is_object,
    items_of,
    json_copy,
    value_at,
)

_DEEPEST_SCHEMA = 80
_MOST_FAULTS = 100
_LARGE = 1_000
_MOST_SCHEMAS = 5_000
_MOST_PATTERNS = 300
"""Compiling one takes about 30 us."""
_MOST_STATES = 10_000
"""Of all patterns; compiling takes about a microsecond for each."""
_BESIDE_NULLABLE = {"$schema", "$id", "$defs", "definitions", "title", "description", "default", "examples"}


class InvalidSchema(ValueError):
    """A schema that cannot be used; the message says why."""


class TooCostly(InvalidSchema):
    """A schema that would take too long to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One reason why a value is invalid."""

    path: tuple[str | int, ...]
    """From the root of the value to the place."""
    keyword: str | None
    """None where the schema is `false`."""
    limit: JSON
    """The value of the keyword."""
    schema: JSON
    value: JSON
    message: str
    branches: "tuple[tuple[Fault, ...], ...]" = ()
    """Why each alternative of `anyOf` or `oneOf` does not fit."""


class Validator:
    """Validates values against one schema. InvalidSchema if it is invalid, endless or too large."""

    def __init__(self, schema: JSON) -> None:
        try:
            self.schema: JSON = _checkable(schema)
            """The schema as it is used, with OpenAPI's `nullable` rewritten as JSON Schema."""
            nodes = [node for _, node in subschemas(self.schema)]
            nullable = [node for node in nodes if node.get("nullable") is True]
            # Allowing null may also make a value invalid: if a second alternative of `oneOf` accepts it.
            literal = compiled(self.schema) if nullable else None
            self._is_literally_valid = literal and literal.is_valid
            for node in nullable:
                _allow_null(node)
            self._bounds = Bounds(self.schema, nodes)
            if self._bounds.unresolved is not None:
                raise InvalidSchema(self._bounds.unresolved)
            if self._bounds.is_exceeded:
                raise TooCostly("its references are endless, or too many")
            self._compiled = compiled(self.schema)
            self._is_valid = self._compiled.is_valid
        except BaseException as error:
            if isinstance(error, InvalidSchema) or not _is_unreadable(error):
                raise
            raise InvalidSchema((str(error).splitlines() or ["cannot be read"])[0]) from None
        self.is_large = is_larger(self.schema, _LARGE)
        """Whether it is too large to explain or repair an invalid value in reasonable time."""
        self._parts: Any = None
        self._pointers: dict[int, str] = {}
        self._references = References(self.schema)

    def accepts(self, value: JSON) -> bool | None:
        """Whether the whole value is valid; None if that cannot be checked."""
        try:  # not `with`, which takes half as long as the validation itself
            if not self._bounds.is_cheap and not self._bounds.allows(value):
                return None
            if self._is_valid(value):
                return True
            return self._is_literally_valid is not None and self._is_literally_valid(value)
        except BaseException as error:
            if not _is_unreadable(error):
                raise
            return None

    def fits(self, value: JSON, schema: JSON) -> bool:
        """Whether a value is known to be valid against a schema that is part of this one."""
        if isinstance(schema, bool):
            return schema
        with _UNREADABLE_IGNORED:
            if self._parts is None:
                self._pointers = {id(node): _pointer(steps) for steps, node in subschemas(self.schema)}
                self._parts = compiled(self.schema, "validator_map_for")
            pointer = self._pointers.get(id(schema))
            if pointer is None:  # merged by the reader
                return set(schema) == {"allOf"} and all(self.fits(value, part) for part in schema["allOf"])
            part = self._parts.get(pointer)
            return part is not None and self._bounds.allows(value) and part.is_valid(value)
        return False

    def explanation(self, value: JSON) -> str | None:
        """The most general reason why a value is invalid, in one line; None if that cannot be found out."""
        if self.is_large or is_larger(value, _LARGE):
            return self.first_fault(value)
        # The least specific one: others may only follow from it.
        found = sorted(self.faults(value), key=lambda fault: len(fault.path))
        return found[0].message if found else None

    def first_fault(self, value: JSON) -> str | None:
        """The first reason why the value is invalid, in one line; None if that cannot be found out."""
        if is_larger(value, _LARGE):
            return None  # the reason would quote all of it
        with _UNREADABLE_IGNORED:
            try:
                self._compiled.validate(value)
            except package().ValidationError as error:
                return str(error.message).splitlines()[0]
        return None

    def faults(self, value: JSON) -> list[Fault]:
        """Why the value is invalid, by place; empty if that cannot be found out."""
        with _UNREADABLE_IGNORED:
            errors = self._compiled.iter_errors(value) if self._bounds.allows(value) else ()
            found = [self._fault(error, value) for error in islice(errors, _MOST_FAULTS)]
            return sorted(found, key=lambda fault: [_sortable(step) for step in fault.path])
        return []

    def _fault(self, error: Any, value: JSON) -> Fault:
        kind, steps = error.kind, error.evaluation_path
        is_false = kind.name == "falseSchema"
        schema = self._at(steps if is_false else steps[:-1])
        keyword = str(steps[-1]) if steps and not is_false else ""
        branches = kind.value if kind.name in ("anyOf", "oneOf") else ()
        is_name = kind.name == "propertyNames"
        return Fault(
            path=tuple(error.instance_path),
            keyword=keyword or None,
            limit=schema.get(keyword) if is_object(schema) else None,
            schema=schema,
            value=kind.value.instance if is_name else value_at(value, error.instance_path),
            message=error.message.splitlines()[0],
            branches=tuple(tuple(self._fault(inner, value) for inner in branch) for branch in branches),
        )

    def _at(self, steps: Sequence[str | int]) -> JSON:
        """The schema that a validation came to."""
        node = self.schema
        for step in steps:
            node = value_at(node, [step])
            if step in REFERENCES and isinstance(node, str):
                node = self._references.target(node)
        return node if is_object(node) or isinstance(node, bool) else {}


def _checkable(schema: JSON) -> JSON:
    """A copy without what cannot be checked, or is not meant to be."""
    copy = json_copy(schema, _DEEPEST_SCHEMA)
    if not is_object(copy) and not isinstance(copy, bool):
        raise InvalidSchema("it is neither an object nor a boolean")
    patterns = states = 0
    for number, (place, node) in enumerate(subschemas(copy)):
        if number > _MOST_SCHEMAS:
            raise TooCostly(f"it consists of more than {_MOST_SCHEMAS:,} schemas")
        written = [text for text in (node.get("pattern"), *entries_of(node.get("patternProperties"))) if text]
        patterns += len(written)
        states += sum(count for text in written if (count := _states(text)) <= MOST_STATES)
        if patterns > _MOST_PATTERNS or states > _MOST_STATES:
            raise TooCostly("it has too many patterns, or too large ones")
        _drop_unchecked(node)
        if place:
            node.pop("$schema", None)
    jsonschema_rs = package()
    if is_object(copy) and jsonschema_rs.validator_cls_for(copy) is jsonschema_rs.Draft202012Validator:
        copy.pop("$schema", None)  # an unknown draft counts as the newest
    return copy


def _states(pattern: JSON) -> int:
    return state_count(pattern) if isinstance(pattern, str) else 0


def _drop_unchecked(node: Node) -> None:
    """Remove the keywords that are annotations, and the patterns that cannot be used."""
    node.pop("contentEncoding", None)
    node.pop("contentMediaType", None)
    if isinstance(pattern := node.get("pattern"), str) and usable(pattern) is None:
        del node["pattern"]
    named = node.get("patternProperties")
    if is_object(named) and any(usable(text) is None for text in named):
        node["patternProperties"] = {text: inner for text, inner in named.items() if usable(text) is not None}
        # They depend on which names match.
        node.pop("additionalProperties", None)
        node.pop("unevaluatedProperties", None)


def _allow_null(node: Node) -> None:
    """Rewrite OpenAPI's `nullable: true`."""
    del node["nullable"]
    types = node.get("type")
    if types is None:
        inner = {key: node.pop(key) for key in node.keys() - _BESIDE_NULLABLE}
        node["anyOf"] = [inner, {"type": "null"}]
        return
    node["type"] = [*(types if is_array(types) else [types]), "null"]
    if "enum" in node:
        node["enum"] = [*items_of(node["enum"]), None]


def _is_unreadable(error: BaseException) -> bool:
    """Whether an error only means that jsonschema-rs cannot read a schema or a value."""
    # A panic inside it has no type that could be imported.
    known = isinstance(error, ValueError | TypeError | RecursionError | OverflowError)
    return known or type(error).__name__ == "PanicException"


class _UnreadableIgnored:
    """Suppresses the errors of schemas and values that cannot be read."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return error is not None and _is_unreadable(error)


_UNREADABLE_IGNORED = _UnreadableIgnored()


def _pointer(steps: Sequence[str]) -> str:
    return "".join(["#", *(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)])


def _sortable(step: str | int) -> str:
    return step if isinstance(step, str) else f"{step:09}"
