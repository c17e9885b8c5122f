"""The arguments of a tool for smolagents: it sends their whole schema, and checks none of them.

Left alone, smolagents sends of a schema what it knows, and refuses what the bus would mend. What it does
with `Tool.inputs` is pinned by the tests of the adapter.
"""

import json
import keyword
import re
from collections.abc import Iterable
from typing import Any

from toolbus.adapters.declared import Declared
from toolbus.core.records import JSON


class Inputs(dict[str, dict[str, JSON]]):
    """The arguments as smolagents checks them: everything passes, for the bus itself mends and checks.

    A copy of it, which smolagents makes to send it to a model, is the real schema.
    """

    def __init__(self, parameters: dict[str, JSON]) -> None:
        self.properties: dict[str, JSON] = parameters.get("properties") or {}
        self._required: Iterable[str] = parameters.get("required") or ()
        super().__init__({name: self.__missing__(name) for name in self.properties})

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, JSON]:
        about = self.properties.get(name, {}).get("description", "")
        return {"type": "any", "description": about, "nullable": True}

    def __deepcopy__(self, memo: dict[int, Any]) -> "dict[str, Sent]":
        return {name: Sent(schema, name in self._required) for name, schema in self.properties.items()}


class Sent(dict[str, JSON]):
    """A schema that goes out as it is: smolagents takes `anyOf` apart where it sees one.

    What is not `nullable` is required, by its rules; that is answered, and not sent.
    """

    def __init__(self, schema: dict[str, JSON], required: bool) -> None:
        super().__init__(schema)
        self._required = required

    def __contains__(self, key: object) -> bool:
        return key == "nullable" or (key != "anyOf" and super().__contains__(key))

    def __getitem__(self, key: str) -> JSON:
        return not self._required if key == "nullable" else self.get(key)


def identifier(name: str) -> str:
    """The name as Python takes it, and so smolagents."""
    legal = re.sub(r"\W", "_", name, flags=re.ASCII)
    return legal if legal.isidentifier() and not keyword.iskeyword(legal) else f"_{legal}"


def description(said: Declared) -> str:
    """With what smolagents does not send: of the arguments as a whole it tells properties and required."""
    told = {"type", "properties", "required", "title", "description", "$schema"}
    rest = {key: value for key, value in said.parameters.items() if key not in told}
    untold = {key: value for key, value in rest.items() if not isinstance(value, bool)}
    return f"{said.description}\n(all arguments: {as_json(untold)})" if untold else said.description


def as_function(name: str, about: str, inputs: Inputs, output_schema: dict[str, JSON] | None) -> str:
    """The head of a function, with the whole schema of every argument, for an agent that writes code."""
    properties = inputs.properties
    named = [argument for argument in properties if identifier(argument) == argument]
    signature = [f"{argument}: {properties[argument].get('type', 'any')}" for argument in named]
    signature += ["**others"] if len(named) < len(properties) else []
    said = [about, "", *(f"{argument}: {as_json(schema)}" for argument, schema in properties.items())]
    if output_schema is not None:
        said += [
            "",
            f"JSON output schema of the dict that it returns (it prints as text): {as_json(output_schema)}",
        ]
    body = "\n    ".join("\n".join(said).splitlines())
    gives = "string" if output_schema is None else "dict"
    return f'def {name}({", ".join(signature)}) -> {gives}:\n    """{body}\n    """'


def as_json(value: JSON) -> str:
    """The value in one line."""
    return json.dumps(value, ensure_ascii=False)
