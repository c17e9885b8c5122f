"""Tool inputs for smolagents that send the whole schema and accept any arguments.

By default, smolagents sends only the parts of a schema that it knows, and rejects arguments that the bus
would repair. The tests of the adapter check how it uses `Tool.inputs`.
"""

import json
import keyword
import re
from collections.abc import Iterable
from typing import Any

from toolbus.adapters.definition import Definition
from toolbus.core.values.records import JSON


class Inputs(dict[str, dict[str, JSON]]):
    """The arguments as smolagents validates them: it accepts anything, and the bus validates.

    A deep copy, which smolagents makes to send it to a model, is the real schema.
    """

    def __init__(self, parameters: dict[str, JSON]) -> None:
        self.properties: dict[str, JSON] = parameters.get("properties") or {}
        self._required: Iterable[str] = parameters.get("required") or ()
        super().__init__({name: self.__missing__(name) for name in self.properties})

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, JSON]:
        description = self.properties.get(name, {}).get("description", "")
        return {"type": "any", "description": description, "nullable": True}

    def __deepcopy__(self, memo: dict[int, Any]) -> "dict[str, FullSchema]":
        return {name: FullSchema(schema, name in self._required) for name, schema in self.properties.items()}


class FullSchema(dict[str, JSON]):
    """A schema that is sent unchanged: smolagents would rewrite `anyOf` if it saw one.

    smolagents treats what is not `nullable` as required, so `nullable` can be read but is not sent.
    """

    def __init__(self, schema: dict[str, JSON], required: bool) -> None:
        super().__init__(schema)
        self._required = required

    def __contains__(self, key: object) -> bool:
        return key == "nullable" or (key != "anyOf" and super().__contains__(key))

    def __getitem__(self, key: str) -> JSON:
        return not self._required if key == "nullable" else self.get(key)


def identifier(name: str) -> str:
    """The name as a Python identifier, which smolagents requires."""
    legal = re.sub(r"\W", "_", name, flags=re.ASCII)
    return legal if legal.isidentifier() and not keyword.iskeyword(legal) else f"_{legal}"


def full_description(definition: Definition) -> str:
    """The description, with schema keywords of the arguments as a whole that smolagents does not send."""
    sent = {"type", "properties", "required", "title", "description", "$schema"}
    rest = {key: value for key, value in definition.parameters.items() if key not in sent}
    unsent = {key: value for key, value in rest.items() if not isinstance(value, bool)}
    if not unsent:
        return definition.description
    return f"{definition.description}\n(all arguments: {as_json(unsent)})"


def as_function(name: str, description: str, inputs: Inputs, output_schema: dict[str, JSON] | None) -> str:
    """A function signature with the whole schema of every argument, for agents that write code."""
    properties = inputs.properties
    named = [argument for argument in properties if identifier(argument) == argument]
    signature = [f"{argument}: {properties[argument].get('type', 'any')}" for argument in named]
    signature += ["**others"] if len(named) < len(properties) else []
    lines = [description, "", *(f"{argument}: {as_json(schema)}" for argument, schema in properties.items())]
    if output_schema is not None:
        lines += [
            "",
            f"JSON output schema of the dict that it returns (it prints as text): {as_json(output_schema)}",
        ]
    body = "\n    ".join("\n".join(lines).splitlines())
    returns = "string" if output_schema is None else "dict"
    return f'def {name}({", ".join(signature)}) -> {returns}:\n    """{body}\n    """'


def as_json(value: JSON) -> str:
    """The value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False)
