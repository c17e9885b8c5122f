"""Python types from JSON Schema: a TypedDict for each object, `Any` where a schema says too little."""

import json
import re

from toolbus.schema.node import Schema
from toolbus.schema.values import JSON

_DEEPEST = 6
_MOST_CLASSES = 40
_MOST_VALUES = 20
_MOST_FIELDS = 60
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class TypeWriter:
    """Writes the types of one tool; its classes are named after the tool."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.classes: list[str] = []
        """The definitions that the types need, in order."""
        self._names: set[str] = set()

    def annotation(self, schema: Schema, hint: str, depth: int = 0) -> str:
        """The type of a value; `hint` becomes a part of the name of its class."""
        if depth > _DEEPEST or not schema.work.allows(1):
            return "Any"
        if schema.values:
            return _literal(schema.values)
        if not schema.types and schema.choices:
            options = [self.annotation(schema.of(one), hint, depth + 1) for one in schema.choices[:8]]
            return (
                "Any" if "Any" in options or len(schema.choices) > 8 else " | ".join(dict.fromkeys(options))
            )
        kinds = [self._kind(schema, kind, hint, depth) for kind in schema.likely_types]
        return "Any" if not kinds or "Any" in kinds else " | ".join(dict.fromkeys(kinds))

    def _kind(self, schema: Schema, kind: str, hint: str, depth: int) -> str:
        if kind == "array":
            items = schema.own.get("items")
            return f"list[{'Any' if items is None else self.annotation(schema.of(items), hint, depth + 1)}]"
        if kind == "object":
            return self._object(schema, hint, depth)
        return _SIMPLE.get(kind, "Any")

    def _object(self, schema: Schema, hint: str, depth: int) -> str:
        fields = schema.properties
        if not fields:
            values = schema.own.get("additionalProperties", True)
            inner = "Any" if isinstance(values, bool) else self.annotation(schema.of(values), hint, depth + 1)
            return f"dict[str, {inner}]"
        if len(fields) > _MOST_FIELDS or len(self.classes) >= _MOST_CLASSES or schema.choices:
            return "dict[str, Any]"
        name = self._class_name(hint)
        required = schema.required({})
        rows: list[str] = []
        for key, value in fields.items():
            inner = self.annotation(schema.of(value), key, depth + 1)
            rows.append(f"{json.dumps(key)}: {inner if key in required else f'NotRequired[{inner}]'}")
        # Not the class syntax: a key may be anything.
        self.classes.append(f'{name} = TypedDict("{name}", {{{", ".join(rows)}}})')
        return name

    def _class_name(self, hint: str) -> str:
        text = re.sub(r"[^0-9A-Za-z]+", " ", f"{self._prefix} {hint}").title().replace(" ", "")[:80]
        name = text if text[:1].isalpha() else f"T{text}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _literal(values: list[JSON]) -> str:
    known: list[str] = []
    for value in values:
        if value is None or isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= 100):
            known.append(repr(value))
        else:
            return "Any"
    if len(known) <= _MOST_VALUES:
        return f"Literal[{', '.join(known)}]"
    return "str" if all(isinstance(value, str) for value in values) else "Any"
