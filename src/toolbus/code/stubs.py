"""Typed stubs of tools: what a script may call, as Python that a type checker and a model read.

The names are the same on every run, and no two are alike. A schema that leaves a type open becomes `Any`.
"""

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

from toolbus.core.text.text import cleaned
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.schema.node import Schema

_WORD = re.compile(r"[^\W\d]\w*")
_RESERVED = frozenset(dir(builtins)) | {
    *keyword.kwlist,
    *keyword.softkwlist,
    *("Any", "Literal", "NotRequired", "TypedDict", "asyncio"),
}
"""Names that a script or a stub needs for itself."""


def identifier(name: str) -> str:
    """The name as an identifier: `get-user` is `get_user`, `class` is `class_`."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    # A stub whose name begins with an underscore would be private to the stubs.
    text = text.lstrip("_") or "tool"
    if text[0].isdigit():
        text = f"tool_{text}"
    return f"{text}_" if text in _RESERVED else text


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """The names by their identifiers; where several would share one, those that differ take a digest."""
    every = list(names)
    exact = {name for name in every if identifier(name) == name}
    found: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    for name in every:
        shared.setdefault(identifier(name), []).append(name)
    for text, those in shared.items():
        for name in those:
            is_alone = len(those) == 1 or name in exact
            # A digest of the name, not a number, which would depend on the other tools.
            found[text if is_alone else f"{text}_{sha256(name.encode()).hexdigest()[:6]}"] = name
    return found


def words(text: str) -> set[str]:
    """All words of a script that may be names, those in texts and comments included."""
    return set(_WORD.findall(text))


def argument_names(properties: Mapping[str, object]) -> dict[str, str]:
    """The names of arguments by their identifiers; a keyword, or a name that is taken, gets a suffix."""
    found: dict[str, str] = {}
    for name in properties:
        text = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        text = f"_{text}" if text[0].isdigit() else text
        text = f"{text}_" if keyword.iskeyword(text) else text
        while text in found or (text != name and text in properties):
            text += "_"
        found[text] = name
    return found


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


HEADER = "from typing import Any, Literal, NotRequired, TypedDict\n"
_MOST_TOOLS = 300
"""Tools that one script may name."""
_DESCRIPTION = 600
_ARGUMENT = 160
_INPUT_TYPES = {str: "str", bool: "bool", int: "int", float: "float", type(None): "None"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """One tool as a Python function."""

    name: str
    """The identifier."""
    spec: ToolSpec
    arguments: Mapping[str, str]
    """The names of the arguments by their identifiers."""
    text: str

    def tool_arguments(self, given: Mapping[str, JSON]) -> dict[str, JSON]:
        """The arguments of a call under the tool's own names."""
        return {self.arguments.get(key, key): value for key, value in given.items()}

    def is_required(self, name: str) -> bool:
        """Whether an argument, by its identifier, must be given."""
        return self.arguments.get(name, name) in Schema(dict(self.spec.input_schema)).required({})


class Library:
    """The tools of a catalog as functions; stubs are written for those that are asked for."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.names: dict[str, str] = identifiers(catalog.names)
        """The public names by their identifiers."""
        self._stubs: dict[str, Stub] = {}

    def mentioned(self, script: str) -> list[str]:
        """The identifiers of the tools that a script names; of a huge one, not all."""
        return sorted(words(script) & self.names.keys())[:_MOST_TOOLS]

    def stubs(self, script: str) -> dict[str, Stub]:
        """Stubs of the tools that a script names."""
        return {name: self.stub(name) for name in self.mentioned(script)}

    def stub(self, name: str) -> "Stub":
        if name not in self._stubs:
            self._stubs[name] = stub(name, self.catalog[self.names[name]])
        return self._stubs[name]


def stub(name: str, spec: ToolSpec) -> Stub:
    writer = TypeWriter(name)
    schema = Schema(dict(spec.input_schema))
    properties = schema.properties
    arguments = argument_names(properties)
    required = schema.required({})
    parameters: list[str] = []
    for key, own in sorted(arguments.items(), key=lambda pair: pair[1] not in required):
        kind = writer.annotation(schema.of(properties[own]), own)
        parameters.append(f"{key}: {kind}" if own in required else f"{key}: {kind} = ...")
    is_open = "properties" not in schema.own and schema.own.get("additionalProperties", True) is not False
    parameters = [*(["*"] if parameters else []), *parameters, *(["**arguments: Any"] if is_open else [])]
    returned = _returned(spec, writer)
    lines = [*writer.classes, f"async def {name}({', '.join(parameters)}) -> {returned}:"]
    lines += [f"    {text}" for text in (_docstring(spec, arguments, schema), "...") if text]
    return Stub(name=name, spec=spec, arguments=arguments, text="\n".join(lines) + "\n")


def joined(stubs: Iterable[Stub], given: str = "") -> str:
    """One text of stubs, and of the types of the values that a script is given."""
    return "\n".join([HEADER, *(one.text for one in stubs), given])


def value_types(inputs: Mapping[str, JSON]) -> str:
    """The types of the values that a script is given."""
    return "".join(f"{name}: {_input_type(value)}\n" for name, value in inputs.items())


def argument_types(schema: JSONObject) -> str:
    """The types of the arguments that a script is given; one that may be left out is None then."""
    writer, whole = TypeWriter("input"), Schema(dict(schema))
    required, properties = whole.required({}), whole.properties
    rows: list[str] = []
    for name, own in argument_names(properties).items():
        one = whole.of(properties[own])
        is_given = own in required or "default" in one.own
        kind = writer.annotation(one, own)
        rows.append(f"{name}: {kind if is_given or kind == 'Any' else f'{kind} | None'}\n")
    return "\n".join([*writer.classes, "".join(rows)])


def argument_values(schema: JSONObject, given: JSONObject) -> dict[str, JSON]:
    """The values of the arguments by their identifiers: as given, the default, or None."""
    whole = Schema(dict(schema))
    properties = whole.properties
    usual = {own: whole.of(properties[own]).own.get("default") for own in properties}
    return {name: given.get(own, usual[own]) for name, own in argument_names(properties).items()}


def _returned(spec: ToolSpec, writer: TypeWriter) -> str:
    """The type of a result: as declared, else anything, because nobody knows before the call."""
    if not spec.output_schema:
        return "Any"
    return writer.annotation(Schema(dict(spec.output_schema)), "result")


def _docstring(spec: ToolSpec, arguments: Mapping[str, str], schema: Schema) -> str:
    """The description as one string literal: any text of a server stays data."""
    lines = [cut(spec.description, _DESCRIPTION)]
    for key, own in arguments.items():
        if about := cut(schema.of(schema.properties[own]).description, _ARGUMENT):
            lines.append(f"{key}: {about}")
    if not spec.output_schema:
        lines.append("Returns JSON if the result is an object or a list, else its text.")
    text = "\n".join(line for line in lines if line)
    return repr(text) if text else ""


def cut(text: object, most: int) -> str:
    """A text of a server in one line and no longer than that."""
    line = " ".join(cleaned(text[: 4 * most]).split()) if isinstance(text, str) else ""
    return line if len(line) <= most else line[: most - 3] + "..."


def _input_type(value: JSON) -> str:
    if isinstance(value, list | tuple):
        items = cast("list[JSON]", value)
        return "list[str]" if all(isinstance(one, str) for one in items) else "list[Any]"
    if isinstance(value, Mapping):
        return "dict[str, Any]"
    # A bool is an int, too: the first that fits counts.
    return next((name for kind, name in _INPUT_TYPES.items() if isinstance(value, kind)), "Any")
