"""Typed stubs of tools: what a script may call, as Python that a type checker and a model read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from toolbus.code.names import argument_names, identifiers, words
from toolbus.code.types import TypeWriter
from toolbus.core.text.text import cleaned
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import JSON, ToolSpec
from toolbus.schema.node import Schema

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
        """The stub of one tool by its identifier; written once."""
        if name not in self._stubs:
            self._stubs[name] = stub(name, self.catalog[self.names[name]])
        return self._stubs[name]


def stub(name: str, spec: ToolSpec) -> Stub:
    """The stub of one tool."""
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


def joined(stubs: Iterable[Stub], inputs: Mapping[str, JSON] | None = None) -> str:
    """One text of stubs, and of the values that a script is given."""
    given = "".join(f"{name}: {_input_type(value)}\n" for name, value in (inputs or {}).items())
    return "\n".join([HEADER, *(one.text for one in stubs), given])


def _returned(spec: ToolSpec, writer: TypeWriter) -> str:
    """The type of a result: as declared, else anything, because nobody knows before the call."""
    if not spec.output_schema:
        return "Any"
    return writer.annotation(Schema(dict(spec.output_schema)), "result")


def _docstring(spec: ToolSpec, arguments: Mapping[str, str], schema: Schema) -> str:
    """The description as one string literal: a server's text stays data, whatever it contains."""
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
